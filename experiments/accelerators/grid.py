"""The programs to compile, and the file of their requirements. A program with the same StableHLO
and compiler versions is not compiled again.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from configs import encodings_gpu
from experiments.accelerators.programs import CHIPS, Case, measure
from experiments.accelerators.table import markdown
from pe_jax.runs import environment
from pe_jax.storage import atomic
from pe_jax.storage.hashes import sha256

FILES = {
    "encodings_gpu": ("accelerators.jsonl", "table.md"),
    "gpt2_small": ("gpt2_small.jsonl", "gpt2_small.md"),
}
"""The files of requirements, and their reports, of each config."""
SOME = ("rope", "alibi", "t5")
"""Encodings whose training is also compiled with some changes of the config."""
MORE = ("rope+window(window=128)", "rerope", "shaw", "deberta")
"""Other specs whose training is compiled. The kernel skips most tiles of a window; the others have
hooks of pairs and of vectors that no encoding of the config has.
"""
NO_REMAT = (("train.remat", False),)
MESHES = tuple((("run.mesh", mesh),) for mesh in ("data:4", "data:8", "fsdp:4", "fsdp:8"))
HEADS = tuple((("lm.layers", 6), ("lm.model", 384), ("lm.heads", heads)) for heads in (6, 3))
"""A model with as many parameters and heads of 64 and of 128 components; only for rope."""
LOOP = (("train.scan", True),)
"""Layers as one loop; only for rope."""
WORDS = (("lm.vocab", 32768),)
"""A vocabulary whose logits do not all fit into memory; only for rope."""
REMAT = (("train.remat", True),)
PACKAGES = ("jax", "jaxlib", "flax")


def cases(config: str) -> Iterator[Case]:
    """All programs of a config, in the order of compilation."""
    if config == "gpt2_small":
        for spec in (*SOME, "fire"):
            yield Case(spec, "training", REMAT, config, "v5e")
            yield Case(spec, "training", (), config, "h100")
        return
    for program in ("training", "evaluation"):
        yield from (Case(spec, program) for spec in encodings_gpu.ENCODINGS)
    yield from (Case(spec, "training") for spec in MORE)
    yield from (Case(spec, "training", NO_REMAT) for spec in SOME)
    for changes in MESHES:
        yield from (Case(spec, "training", changes) for spec in SOME)
    yield from (Case("rope", "training", changes) for changes in (*HEADS, LOOP, WORDS))


def run(config: str, todo: Sequence[Case], out: Path) -> None:
    """Writes a row for each case, and the table, after each program. A row of the file in `out` is
    kept, with the present commit, if the program and its compiler are the same.
    """
    (path, table), rows = (out / name for name in FILES[config]), {}
    if path.exists():
        rows = {Case.of(row): row for row in map(json.loads, path.read_text().splitlines())}
    for i, case in enumerate(todo, 1):
        packages = *PACKAGES, CHIPS[case.chip].compiler
        versions = {name: importlib.metadata.version(name) for name in packages}
        lowered = case.lower()
        program = {"program_sha256": sha256(lowered.as_text()), "versions": versions}
        row: dict[str, Any] = rows.get(case, {})
        if any(row.get(name) != value for name, value in program.items()):
            row = dataclasses.asdict(case) | measure(lowered) | program
            print(f"{i}/{len(todo)} {case}: {row['seconds']} s", file=sys.stderr, flush=True)
        rows[case] = row | {"commit": environment.commit()}
        done = [rows[case] for case in todo if case in rows]
        atomic.write(path, "".join(json.dumps(row) + "\n" for row in done))
        atomic.write(table, markdown(done) + "\n")
