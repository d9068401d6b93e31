"""The training step of an encoder, beside that of a decoder of the same size.

Two decoders: one as it is trained, whose attention by blocks leaves out most later keys, and one
that sees both sides, which shows what that saves. The encoder hides tokens of the same windows.
All are rope, in one process, by turns.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from experiments.benchmark import turns
from experiments.benchmark.compared import conditions
from experiments.benchmark.encodings import trained
from experiments.benchmark.sides import CALL, Workload
from pe_jax.runs.environment import commit
from pe_jax.task import Task
from pe_jax.tasks.masked_text import MaskedText
from pe_jax.tasks.text import TEXT

ENCODER, DECODER, NO_SAVING = "encoder", "decoder", "decoder that sees both sides"
SIDES: dict[str, tuple[Task, bool]] = {
    ENCODER: (MaskedText(), False),
    DECODER: (TEXT, True),
    NO_SAVING: (TEXT, False),
}
"""{side: (task, lm.causal)}"""
WORK = Workload()
TOKENS, LENGTHS = 4096, (64, 128, 512)


def run(count: int, out: Path, base: Workload = WORK) -> None:
    """Times the sides `count` times at each length, with TOKENS tokens a step."""
    host, lengths = turns.machine(), {}
    for length in LENGTHS:
        turns.say(f"{length} tokens: compiling and warming up")
        work = base.sized(length=length, batch=TOKENS // length)
        steps = {
            side: trained("rope", replace(work, lm=replace(work.lm, causal=causal)), CALL, task)[0]
            for side, (task, causal) in SIDES.items()
        }
        taken = [{side: step() for side, step in steps.items()} for _ in range(count)]
        lengths[str(length)] = {side: [turn[side] for turn in taken] for side in SIDES}
    record = {"commit": commit(), "machine": host, "load_after": round(os.getloadavg()[0], 2)}
    record |= {"turns": count, "lengths": lengths, "shape": base.sizes() | {"tokens": TOKENS}}
    record["versions"] = {name: version(name) for name in ("jax", "flax", "optax")}
    turns.report(record, markdown(record), out / "masked")


def markdown(record: Mapping[str, Any]) -> str:
    """A row for each length: the times, and the encoder's over each decoder's."""
    rows = []
    for length, ms in record["lengths"].items():
        times = [f"{statistics.median(ms[side]):.0f}" for side in SIDES]
        ratios = [str(turns.ratio(ms[ENCODER], ms[side])) for side in (DECODER, NO_SAVING)]
        rows.append([length, *times, *ratios])
    head = ["T", *(f"{side}, ms" for side in SIDES), "encoder / decoder", "encoder / the other"]
    shape, of = record["shape"], record["versions"]
    return (
        f"A training step of {shape['tokens']:,} tokens, {shape['layers']} layers, "
        f"D={shape['model']}, rope, float32; wall time, {record['turns']} turns of {CALL} steps. "
        f"{conditions(record)} {', '.join(f'{name} {n}' for name, n in of.items())}\n\n"
        + turns.table(head, rows)
    )
