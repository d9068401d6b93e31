"""A comparison of two folders as sheets, with its sentences."""

from __future__ import annotations

import math
from collections import Counter
from itertools import groupby
from typing import Any

from pe_jax.report.cells import described
from pe_jax.report.compare import Comparison, Difference
from pe_jax.report.groups import conditions
from pe_jax.report.sheet import Note, Printed, Sheet
from pe_jax.report.words import count, join, plusminus

HEADER = ("run", "length", "A", "B", "B − A", "better")


def verdict(comparison: Comparison, metric: str) -> str:
    """How many differences of a metric point where, in one sentence."""
    differences = [d for d in comparison.differences if d.metric == metric]
    tested = [d for d in differences if not math.isnan(d.change.half)]
    untested = len(differences) - len(tested)
    better = Counter(d.better for d in tested)
    same = sum(d.change.mean == 0 == d.change.half for d in tested)
    unclear = len(tested) - better["A"] - better["B"] - same
    parts = [
        f"{better['B']} better in B",
        f"{better['A']} better in A",
        f"{unclear} not distinguishable",
        *([f"{same} identical"] if same else []),
        *([f"{untested} without an interval"] if untested else []),
    ]
    number = count(len(differences), "difference")
    return f"{described(metric).words}: {number}, {', '.join(parts)}."


def notes(comparison: Comparison) -> list[str]:
    """What a reader must know: what changed, what has no counterpart, what the interval is."""
    said = [f"Changed: {change}." for change in comparison.changes]
    if not said:
        said = ["Config, text, commit, versions and device are the same."]
    if any(change.startswith("text") for change in comparison.changes):
        said.append("The texts differ, and with them the targets: differences are not the models'.")
    for side, only in (("A", comparison.only_a), ("B", comparison.only_b)):
        said += [f"Only in {side}: {', '.join(only)}."] if only else []
    return [*said, *_split(comparison), _interval(comparison), *_missing(comparison)]


def _split(comparison: Comparison) -> list[str]:
    """That validation text was scored in both; where one differs the changes say it."""
    runs = [run for match in comparison.matches for run in (match.a, match.b)]
    valid = all(conditions(run)["eval.split"] == "valid" for run in runs)
    return ["Validation text was scored."] if valid else []


def _interval(comparison: Comparison) -> str:
    pairings = {difference.paired for difference in comparison.differences}
    kinds = {row.replica.kind for match in comparison.matches for row in match.a.rows}
    of = join((f"{kind}s" for kind in sorted(kinds)), "or")
    paired = f"paired over {of}" if True in pairings else ""
    welch = f"Welch's where the {of} differ" if paired else f"Welch's, since the {of} differ"
    kind = join(filter(None, (paired, welch if False in pairings else "")), "or")
    return (
        f"±: half of a 95 % interval by Student's t; that of B − A is {kind}. "
        f"{_direction(comparison)} One interval in twenty misses the truth."
    )


def _direction(comparison: Comparison) -> str:
    """Which sign of a difference says that B is better."""
    below = [m.words for m in map(described, comparison.metrics) if m.better == "lower"]
    above = [m.words for m in map(described, comparison.metrics) if m.better == "higher"]
    if not above:
        return "Below 0, B is better."
    if not below:
        return "Above 0, B is better."
    return f"B is better below 0 by {join(below)}, and above 0 by {join(above)}."


def _missing(comparison: Comparison) -> list[str]:
    """Why values are missing, and where."""
    reasons: dict[str, list[str]] = {}
    for d in comparison.differences:
        for side, cell in (("A", d.a), ("B", d.b)):
            if cell.reason:
                reasons.setdefault(cell.reason, []).append(f"{d.name} in {side}")
    return [
        f"{reason[:1].upper()}{reason[1:]}: {join(places)}." for reason, places in reasons.items()
    ]


def sheets(comparison: Comparison, a: str, b: str) -> list[Sheet]:
    """A table for each metric of the folders `a` and `b`: the values, and B - A."""
    told = [Note("What came out", verdict(comparison, m), True) for m in comparison.metrics]
    told += [Note("What A and B are", f"A: {a}, B: {b}.", True)]
    told += [Note("What to know", note, True) for note in notes(comparison)]
    return [_sheet(comparison, metric, tuple(told)) for metric in comparison.metrics]


def _sheet(comparison: Comparison, metric: str, notes: tuple[Note, ...]) -> Sheet:
    own = [d for d in comparison.differences if d.metric == metric]
    blocks = tuple((name, tuple(map(_row, one))) for name, one in groupby(own, lambda d: d.name))
    title = described(metric).title
    return Sheet(title, HEADER, blocks, notes, tuple(map(_numbers, own)))


def _row(d: Difference) -> tuple[Printed, ...]:
    return (
        Printed(d.name, d.name),
        Printed(str(d.length), d.length),
        Printed(plusminus(d.a.mean, d.a.half, digits=3), d.a.mean),
        Printed(plusminus(d.b.mean, d.b.half, digits=3), d.b.mean),
        Printed(plusminus(d.change.mean, d.change.half, sign="+"), d.change.mean),
        Printed(d.better),
    )


def _numbers(d: Difference) -> dict[str, Any]:
    """A row of the CSV."""
    return {
        "metric": d.metric,
        "run": d.match.label,
        "run_a": d.match.a.id,
        "run_b": d.match.b.id,
        "way": str(d.way),
        "length": d.length,
        **{f"{part}_a": getattr(d.a, part) for part in ("mean", "half", "n", "reason")},
        **{f"{part}_b": getattr(d.b, part) for part in ("mean", "half", "n", "reason")},
        "difference": d.change.mean,
        "difference_half": d.change.half,
        "difference_n": d.change.n,
        "interval": "paired" if d.paired else "welch",
        "better": d.better,
    }
