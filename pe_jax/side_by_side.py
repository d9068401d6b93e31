"""A comparison as terminal output, Markdown and CSV, with the sentences that it needs."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

from pe_jax import captions, render, stats
from pe_jax.compare import Comparison
from pe_jax.tables import Cell

if TYPE_CHECKING:
    import rich.table

HEADER = ["run", "length", "A", "B", "B − A", "better"]


def verdict(comparison: Comparison, metric: str) -> str:
    """How many differences of a metric point where, in one sentence."""
    found = [d for d in comparison.differences if d.metric == metric]
    tested = [d for d in found if not math.isnan(d.change.half)]
    better = Counter(d.better for d in tested)
    same = sum(d.change.mean == 0 == d.change.half for d in tested)
    open_ = len(tested) - better["A"] - better["B"] - same
    parts = [
        f"{better['B']} better in B",
        f"{better['A']} better in A",
        f"{open_} not distinguishable",
        *([f"{same} identical"] if same else []),
        *([f"{len(found) - len(tested)} without an interval"] if len(found) > len(tested) else []),
    ]
    number = captions.count(len(found), "difference")
    return f"{metric.replace('_', ' ')}: {number}, {', '.join(parts)}."


def notes(comparison: Comparison) -> list[str]:
    """What a reader must know: what changed, what has no counterpart, what the interval is."""
    found = [f"Changed: {change}." for change in comparison.changes]
    if not found:
        found = ["Config, text, commit, versions and device are the same."]
    if any(change.startswith("text") for change in comparison.changes):
        found.append(
            "The texts differ, and with them the targets: differences are not the models'."
        )
    for side, only in (("A", comparison.only_a), ("B", comparison.only_b)):
        found += [f"Only in {side}: {', '.join(only)}."] if only else []
    kinds = {difference.paired for difference in comparison.differences}
    paired = "paired over seeds" if True in kinds else ""
    welch = "Welch's" + (" where the seeds differ" if paired else ", since the seeds differ")
    kind = captions.join(filter(None, (paired, welch if False in kinds else "")), "or")
    found.append(
        f"±: half of a 95 % interval by Student's t; that of B − A is {kind}. "
        "Below 0, B is better. One interval in twenty misses the truth."
    )
    reasons: dict[str, list[str]] = {}
    for d in comparison.differences:
        for side, cell in (("A", d.a), ("B", d.b)):
            if cell.reason:
                reasons.setdefault(cell.reason, []).append(f"{d.name} in {side}")
    return found + [
        f"{reason[:1].upper()}{reason[1:]}: {captions.join(places)}."
        for reason, places in reasons.items()
    ]


def rows(comparison: Comparison, metric: str) -> list[list[str]]:
    """The cells of a metric's table as they print."""
    return [
        [d.name, str(d.length), _number(d.a), _number(d.b), _number(d.change, "+"), d.better]
        for d in comparison.differences
        if d.metric == metric
    ]


def _number(cell: Cell | stats.Interval, sign: str = "") -> str:
    if not cell.n:
        return "n/a"
    half = "" if math.isnan(cell.half) else f" ± {cell.half:.3f}"
    return f"{cell.mean:{sign}.3f}{half}".replace("-", "−")


def terminal(comparison: Comparison, metric: str, a: str, b: str) -> rich.table.Table:
    """The table of a metric, each run named once."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(f"{_title(metric)}\nA: {a}\nB: {b}"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    for i, name in enumerate(HEADER):
        table.add_column(name, justify="right" if 0 < i < 5 else "left", no_wrap=i > 0)
    for previous, row in pairwise(([""], *rows(comparison, metric))):
        if row[0] == previous[0]:
            row = ["", *row[1:]]
        else:
            table.add_section()
        table.add_row(*map(Text, row))
    return table


def _title(metric: str) -> str:
    return f"Bits per byte, {metric.replace('_', ' ')} (lower is better)"


def markdown(comparison: Comparison, a: str, b: str) -> str:
    """The comparison of the folders `a` and `b` in GitHub's Markdown."""
    import pandas

    parts = [f"# A: {a}, B: {b}", *notes(comparison)]
    for metric in comparison.metrics:
        body = [
            [cell.translate(render.MARKDOWN) for cell in row] for row in rows(comparison, metric)
        ]
        text = pandas.DataFrame(body, columns=HEADER).to_markdown(
            index=False, disable_numparse=True, colalign=["left", *["right"] * 4, "left"]
        )
        parts += [
            f"## {_title(metric)}",
            verdict(comparison, metric),
            text,
        ]
    return "\n\n".join(parts) + "\n"


def csv(comparison: Comparison) -> str:
    """Every number in full, a row a difference."""
    import pandas

    found = [
        {
            "metric": d.metric,
            "run": d.match.label,
            "run_a": d.match.a["id"],
            "run_b": d.match.b["id"],
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
    ]
    return pandas.DataFrame(found).to_csv(index=False)
