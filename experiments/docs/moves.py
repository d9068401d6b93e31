"""The table of NOTES.md that holds results/encodings against results/encodings_early: the same
encodings early in training at one rate, and late at rates of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats

from pe_jax.record import Result
from pe_jax.report import study
from pe_jax.report.cells import cell
from pe_jax.runs.layout import chosen

METRIC = "same_targets"


class Scores(NamedTuple):
    """Bits per byte of one encoding, means over seeds."""

    near: float
    """At the training length."""
    far: float
    """At the longest length; NaN where it cannot serve that."""
    rate: float
    """The learning rate that it was trained at."""


def scores(folder: Path) -> dict[str, Scores]:
    """The scores of each encoding whose results are in a folder."""
    return {result.label: _scores(result) for result in study.load(folder)}


def _scores(result: Result) -> Scores:
    longest = max(row.length for row in result.rows)
    near, far = (cell(result, METRIC, length).mean for length in (result.train.length, longest))
    rate = chosen(result.rates).rate if result.rates else result.config["train"]["rate"]
    return Scores(near, far, rate)


def table(early: Path, late: Path) -> str:
    """A Markdown table of the encodings that both folders have and that serve the longest length,
    ordered by their scores there in `late`, and a sentence on how far the two orders agree.
    """
    before, now = scores(early), scores(late)
    shared = [name for name in now if name in before]
    names = [n for n in shared if np.isfinite([before[n].far, now[n].far]).all()]
    names.sort(key=lambda name: now[name].far)
    ranks = _ranks([before[name].far for name in names])
    rows = [["encoding", "early: at L, at 16 L", "rank", "rate", "late: at L, at 16 L", "rank"]]
    for place, (name, rank) in enumerate(zip(names, ranks, strict=True), 1):
        old, new = before[name], now[name]
        values = f"{old.near:.2f}, {old.far:.2f}", f"{new.near:.2f}, {new.far:.2f}"
        rows.append([name, values[0], str(rank), f"{new.rate:g}", values[1], str(place)])
    lines = [f"| {' | '.join(cells)} |" for cells in rows]
    lines.insert(1, f"|---|{'--:|' * 5}")
    return "\n".join([*lines, "", _agreement(names, ranks, before, now)])


def _agreement(
    names: Sequence[str], ranks: np.ndarray, before: dict[str, Scores], now: dict[str, Scores]
) -> str:
    """How alike the two orders are, far out and at the training length."""
    places = np.arange(1, len(names) + 1)
    moved = int((ranks != places).sum())
    far = stats.kendalltau(ranks, places)[0]
    near = stats.kendalltau([before[n].near for n in names], [now[n].near for n in names])[0]
    return (
        f"{moved} of {len(names)} encodings changed place at the longest length, the farthest by "
        f"{int(np.abs(ranks - places).max())} places. Kendall's tau of the two orders: {far:.2f} "
        f"at the longest length, {near:.2f} at the training length."
    )


def _ranks(values: Sequence[float]) -> np.ndarray:
    """The rank of each value, 1 for the lowest."""
    return np.argsort(np.argsort(values)) + 1
