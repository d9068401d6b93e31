"""A comparison as terminal output, Markdown and CSV, with the sentences that it needs."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

from pe_jax.report import markdown as md
from pe_jax.report import spreadsheet
from pe_jax.report.cells import described
from pe_jax.report.compare import Comparison
from pe_jax.report.groups import conditions
from pe_jax.report.words import count, join, plusminus

if TYPE_CHECKING:
    import rich.table

HEADER = ["run", "length", "A", "B", "B − A", "better"]


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
    kinds = {difference.paired for difference in comparison.differences}
    of = join((f"{match.a.replicate}s" for match in comparison.matches), "or")
    paired = f"paired over {of}" if True in kinds else ""
    welch = f"Welch's where the {of} differ" if paired else f"Welch's, since the {of} differ"
    kind = join(filter(None, (paired, welch if False in kinds else "")), "or")
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


def rows(comparison: Comparison, metric: str) -> list[list[str]]:
    """The cells of a metric's table as they print."""
    return [
        [
            d.name,
            str(d.length),
            plusminus(d.a.mean, d.a.half, digits=3),
            plusminus(d.b.mean, d.b.half, digits=3),
            plusminus(d.change.mean, d.change.half, sign="+", digits=3),
            d.better,
        ]
        for d in comparison.differences
        if d.metric == metric
    ]


def terminal(comparison: Comparison, metric: str, a: str, b: str) -> rich.table.Table:
    """The table of a metric, each run named once."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(f"{described(metric).title}\nA: {a}\nB: {b}"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        collapse_padding=True,
    )
    for i, name in enumerate(HEADER):
        align = "right" if 0 < i < 5 else "left"
        table.add_column(name, justify=align, no_wrap=i > 0, overflow="fold")
    for previous, row in pairwise(([""], *rows(comparison, metric))):
        if row[0] == previous[0]:
            row = ["", *row[1:]]
        else:
            table.add_section()
        table.add_row(*map(Text, row))
    return table


def markdown(comparison: Comparison, a: str, b: str) -> str:
    """The comparison of the folders `a` and `b` in GitHub's Markdown."""
    parts = [md.heading(1, f"A: {a}, B: {b}"), *map(md.text, notes(comparison))]
    for metric in comparison.metrics:
        parts += [
            md.heading(2, described(metric).title),
            md.text(verdict(comparison, metric)),
            md.table(HEADER, rows(comparison, metric), ["left", *["right"] * 4, "left"]),
        ]
    return "\n\n".join(parts) + "\n"


def csv(comparison: Comparison) -> str:
    """Every number in full, a row a difference."""
    return spreadsheet.csv(
        {
            "metric": d.metric,
            "run": d.match.label,
            "run_a": d.match.a.id,
            "run_b": d.match.b.id,
            "swap": d.swap,
            "length": d.length,
            **{f"{part}_a": getattr(d.a, part) for part in ("mean", "half", "n", "reason")},
            **{f"{part}_b": getattr(d.b, part) for part in ("mean", "half", "n", "reason")},
            "difference": d.change.mean,
            "difference_half": d.change.half,
            "difference_n": d.change.n,
            "interval": "paired" if d.paired else "welch",
            "better": d.better,
        }
        for d in comparison.differences
    )
