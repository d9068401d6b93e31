"""Which programs are compiled, and the file of what they need, in which each is kept as soon as it
is done. A program that is the same, by its StableHLO and the versions of its compiler, is not
compiled again.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from configs import encodings_gpu
from experiments.accelerators.compiled import Case
from experiments.accelerators.table import markdown, told
from pe_jax.runs import environment
from pe_jax.storage import atomic
from pe_jax.storage.hashes import sha256

NAME = "accelerators.jsonl"
SOME = ("rope", "alibi", "t5")
"""The encodings whose training is compiled with some changes of the config, too."""
REMAT = (("train.remat", True),)
MESHES = tuple((("run.mesh", mesh),) for mesh in ("data:4", "data:8", "fsdp:4", "fsdp:8"))
HEADS = tuple((("lm.layers", 6), ("lm.model", 384), ("lm.heads", heads)) for heads in (6, 3))
"""A model of as many parameters, with heads of 64 and of 128 components; for rope alone."""
PACKAGES = ("jax", "jaxlib", "libtpu", "flax")


def cases() -> Iterator[Case]:
    """All programs, in the order of their compilation."""
    for program in ("training", "evaluation"):
        yield from (Case(spec, program) for spec in encodings_gpu.ENCODINGS)
    yield from (Case(spec, "training", REMAT) for spec in (*SOME, *encodings_gpu.LARGE))
    for changes in MESHES:
        yield from (Case(spec, "training", changes) for spec in SOME)
    yield from (Case("rope", "training", changes) for changes in HEADS)


def run(
    todo: Sequence[Case],
    lower: Callable[[Case], Any],
    measure: Callable[[Any], dict[str, Any]],
    out: Path,
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    """The rows of all cases: those of the file in `out` whose program and versions are the same,
    with the present commit, since it makes the same program; the others compiled anew. File and
    table are written after each.
    """
    rows = {Case.of(row): row for row in _read(out / NAME)}
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    commit, seconds = environment.commit(), []
    for i, case in enumerate(todo, 1):
        lowered = lower(case)
        known = {"program_sha256": sha256(lowered.as_text()), "versions": versions}
        row = rows.get(case, {})
        if any(row.get(name) != value for name, value in known.items()):
            begun = time.monotonic()
            row = dataclasses.asdict(case) | measure(lowered) | known
            seconds.append(time.monotonic() - begun)
            left = sum(seconds) / len(seconds) * (len(todo) - i) / 60
            say(f"{i}/{len(todo)} {told(row)}; about {left:.0f} minutes left")
        rows[case] = row | {"commit": commit}
        _write(out, [rows[case] for case in todo if case in rows])
    return [rows[case] for case in todo]


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _write(out: Path, rows: Sequence[dict[str, Any]]) -> None:
    atomic.write(out / NAME, "".join(json.dumps(row) + "\n" for row in rows))
    atomic.write(out / "table.md", markdown(rows) + "\n")
