"""An atlas of encodings: what each does to attention, in figures, a table and one HTML page.

    pe-jax atlas --out=DIR [--encodings=rope,alibi,path/to/file.py:Class]
                 [--workdir=RUN [--carriers]]

Writes DIR/atlas.html, properties.md and .csv, of several encodings two overview figures, and
DIR/figures with every figure as .png and .pdf. Without --encodings it has all of the table, with
their parameters at their initial values; with --workdir the encodings of finished runs, with
trained parameters and the attention of the trained models; --encodings adds some at their initial
values. With --carriers also carriers.md and .csv: what each trained model loses where one part
alone, such as an encoding or the causal mask, does not know the positions.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pe_jax import terms
from pe_jax.commands import cli

if TYPE_CHECKING:
    from pe_jax.atlas.layer import Layer

OPTIONS = cli.Options()
_ENCODINGS = OPTIONS.string("encodings", None, "Specs with commas; default: every encoding.")
_WORKDIR = OPTIONS.string("workdir", None, "Folder of a finished run, DIR/<run id>, or of runs.")
_CARRIERS = OPTIONS.boolean("carriers", False, "Which parts of the models carry position.")
_OUT = OPTIONS.string("out", None, "Folder to write.", required=True)


def main() -> int:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")  # what is computed is small
    from pe_jax.atlas.page import write
    from pe_jax.commands import console
    from pe_jax.runs.progress import Display

    out = console.folder(_OUT.value) or Path()
    if _CARRIERS.value and _WORKDIR.value is None:
        raise ValueError("--carriers needs trained models: give their folder by --workdir")
    layers = list(_layers())  # all, so that mistakes are found before the first figure
    with Display() as display:
        show = functools.partial(display.update, "atlas", total=len(layers))
        written = write(layers, out, cli.command_line(), show, _CARRIERS.value)
    for path in written:
        print(path)
    return 0


def _layers() -> Iterator[Layer]:
    """The trained models of --workdir, then the encodings of --encodings."""
    from pe_jax.atlas.layer import Layer
    from pe_jax.commands import console
    from pe_jax.encodings import ENCODINGS
    from pe_jax.runs.trained import Trained

    if _WORKDIR.value is not None:
        for folder in console.finished(Path(_WORKDIR.value)):
            if not (folder / "result.json").exists():
                raise ValueError(f"{folder} has no result.json: the run has not finished yet")
            yield Layer.of_model(Trained.of(folder))
    if _ENCODINGS.value is not None or _WORKDIR.value is None:
        specs = [*ENCODINGS] if _ENCODINGS.value is None else terms.elements(_ENCODINGS.value)
        if not specs:
            raise ValueError("--encodings names none: give specs with commas between them")
        yield from map(Layer.of, specs)
