"""The report of what programs need on an accelerator, from the rows of grid.py."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from experiments.accelerators.programs import CHIPS, EVALUATED, Case
from experiments.benchmark import turns
from pe_jax.report import phrases

Row = Mapping[str, Any]

TITLES = {"training": "A training step of all seeds", "evaluation": "Evaluation"}
HEAD = ("encoding", "memory, GiB", "temporaries, GiB")
COUNTED = ("TFLOP", "GB moved", "roofline, ms", "bound by")


def markdown(rows: Sequence[Row]) -> str:
    """A table for each kind of program and each change of the config, and how to read them."""
    kinds: dict[str, list[Row]] = {}
    for row in rows:
        changes = "".join(f", `{name}={value}`" for name, value in row["changes"])
        chip = f" on one {CHIPS[row['chip']].title}" if "chip" in row else ""
        kinds.setdefault(f"{TITLES[row['program']]}{chip}{changes}", []).append(row)
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
    chip = CHIPS[Case.of(row).chip]
    bounds = {
        "operations": row["operations"] / chip.operations,
        "memory": row["moved"] / chip.bandwidth,
    }
    slower = max(bounds, key=lambda name: bounds[name])
    counts = f"{row['operations'] / 1e12:.1f}", f"{row['moved'] / 1e9:.0f}"
    return [*cells, *counts, f"{1e3 * bounds[slower]:.0f}", slower]


def _read(rows: Sequence[Row]) -> Iterator[str]:
    """How to read the tables, one paragraph each."""
    first = Case.of(rows[0])
    run = dataclasses.replace(first, changes=()).run()
    lm, train, seeds = run.lm, run.train, phrases.count(len(run.run.seeds), "seed")
    windows = run.eval.batch_tokens // EVALUATED
    chips = [CHIPS[name] for name in dict.fromkeys(Case.of(row).chip for row in rows)]
    names = phrases.join([chip.title for chip in chips])
    yield (
        f"**Nothing here has run.** XLA has compiled these programs for {names} on a machine that "
        "has none, and what the tables hold is its own account of them."
    )
    evaluation = (
        f"An evaluation scores all tokens of {phrases.count(windows, 'window')} of {EVALUATED:,}, "
        "by one seed. "
    )
    yield (
        f"**What was compiled.** The programs of `configs/{first.config}.py`: {lm.layers} layers, "
        f"D={lm.model}, {lm.heads} heads, {lm.dtype}. A step trains {seeds} at once, each on "
        f"{train.batch} windows of {train.length:,} tokens. "
        + evaluation
        * any(row["program"] == "evaluation" for row in rows)
        + "Headings say what was set otherwise; with `run.mesh` there are as many chips as it "
        "names, else one."
    )
    rates = phrases.join(
        [
            f"{chip.operations / 1e12:.0f} TFLOP/s and {chip.bandwidth / 1e9:,.0f} GB/s of one "
            f"{chip.title}"
            for chip in chips
        ]
    )
    yield (
        "**How to read the columns.** All are of each chip. Memory: the state and the batch, what "
        "the program returns besides the state, its temporaries and its code; of a TPU v5e "
        "programs can have 15.75 of 16 GiB. Roofline: the longer of two times, that of the "
        f"operations and that of the bytes, at {rates}, with the one that it is; it is arithmetic "
        "and no measurement. Operations inside fused attention are not counted. Operations and "
        "bytes are left out where they were not counted because of a loop."
    )
    versions = {f"{name} {version}" for row in rows for name, version in row["versions"].items()}
    commits = {phrases.commit(row["commit"]) for row in rows}
    yield f"Compiled by {phrases.join(sorted(versions))}; commit {phrases.join(sorted(commits))}."
