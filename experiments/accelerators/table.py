"""The report of what programs need on TPU v5e, from the rows of grid.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from configs import encodings_gpu
from experiments.accelerators.programs import EVALUATED
from experiments.benchmark import turns
from pe_jax.report import words

Row = Mapping[str, Any]

OPERATIONS = 197e12
"""bfloat16 operations of a chip per second."""
BANDWIDTH = 819e9
"""Bytes per second between the memory of a chip and its cores."""
TITLES = {"training": "A training step of all seeds", "evaluation": "Evaluation"}
HEAD = ("encoding", "memory, GiB", "temporaries, GiB")
COUNTED = ("TFLOP", "GB moved", "roofline, ms", "bound by")


def markdown(rows: Sequence[Row]) -> str:
    """A table for each kind of program and each change of the config, and how to read them."""
    kinds: dict[str, list[Row]] = {}
    for row in rows:
        changes = "".join(f", `{name}={value}`" for name, value in row["changes"])
        kinds.setdefault(f"{TITLES[row['program']]}{changes}", []).append(row)
    parts = []
    for kind, alike in kinds.items():
        counted = any("operations" in row for row in alike)
        table = turns.table(HEAD + COUNTED * counted, map(_cells, alike))
        parts.append(f"### {kind}\n\n{table}")
    return "\n\n".join([*parts, *_read(rows)])


def _cells(row: Row) -> list[str]:
    """Memory, and XLA's counts."""
    name, temporaries = f"`{row['spec']}`", f"{row['temporaries'] / 2**30:.2f}"
    if "available" in row:
        return [name, "does not fit", temporaries]
    total = sum(row[part] for part in ("arguments", "results", "temporaries", "code"))
    cells = [name, f"{total / 2**30:.2f}", temporaries]
    if "operations" not in row:
        return cells
    bounds = {"operations": row["operations"] / OPERATIONS, "memory": row["moved"] / BANDWIDTH}
    slower = max(bounds, key=lambda name: bounds[name])
    counts = f"{row['operations'] / 1e12:.1f}", f"{row['moved'] / 1e9:.0f}"
    return [*cells, *counts, f"{1e3 * bounds[slower]:.0f}", slower]


def _read(rows: Sequence[Row]) -> Iterator[str]:
    """How to read the tables, one paragraph each."""
    config = encodings_gpu.get_config()
    lm, train = config.lm, config.train
    windows = config.eval.batch_tokens // EVALUATED
    yield (
        "**Nothing here has run.** XLA has compiled these programs for TPU v5e on a machine that "
        "has none, and what the tables hold is its own account of them."
    )
    yield (
        f"**What was compiled.** The programs of `configs/encodings_gpu.py`: {lm.layers} layers, "
        f"D={lm.model}, {lm.heads} heads, {lm.dtype}. A step trains {len(config.run.seeds)} seeds "
        f"at once, each on {train.batch} windows of {train.length} tokens. An evaluation scores "
        f"all tokens of {words.count(windows, 'window')} of {EVALUATED:,}, by one seed. Headings "
        "say what was set otherwise; with `run.mesh` there are as many chips as it names, else one."
    )
    yield (
        "**How to read the columns.** All are of each chip. Memory: the state and the batch, what "
        "the program returns besides the state, its temporaries and its code; programs can have "
        "15.75 of a chip's 16 GiB. Roofline: the longer of two times, that of the operations at "
        f"{OPERATIONS / 1e12:.0f} TFLOP/s and that of the bytes at {BANDWIDTH / 1e9:.0f} GB/s, "
        "with the one that it is; it is arithmetic and no measurement. Operations and bytes are "
        "counted where a program has no loops, of which XLA counts a single turn."
    )
    versions = {f"{name} {version}" for row in rows for name, version in row["versions"].items()}
    commits = {words.commit(row["commit"]) for row in rows}
    yield f"Compiled by {words.join(sorted(versions))}; commit {words.join(sorted(commits))}."
