"""The learning-rate check of NOTES.md, from results/learning_rates: for each encoding the rate is
chosen by its validation score at the training length, and its rank is that at the longest length.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy import stats

from pe_jax.report import study
from pe_jax.report.cells import cell

METRIC = "same_targets"
USUAL = 3e-3  # the rate of results/encodings

Scores = tuple[float, float]
"""Bits per byte at the training length and at the longest, means over seeds."""


def means(folder: Path) -> dict[str, dict[float, Scores]]:
    """{encoding: {rate: scores}} of the finished runs in a folder."""
    values: dict[str, dict[float, Scores]] = {}
    for result in study.load(folder):
        longest = max(row.length for row in result.rows)
        near, far = (cell(result, METRIC, length).mean for length in (result.train.length, longest))
        values.setdefault(result.label, {})[result.config["train"]["rate"]] = near, far
    return values


def table(folder: Path) -> str:
    """A Markdown table with a row for each encoding, ordered by the score at the rate of the base
    config, and a sentence on how far the two orders agree.
    """
    values, usual = means(folder), USUAL
    rates = sorted({rate for by_rate in values.values() for rate in by_rate})
    names = sorted(values, key=lambda name: values[name][usual][1])
    chosen = {name: min(by_rate, key=lambda r: by_rate[r][0]) for name, by_rate in values.items()}
    best = [values[name][chosen[name]][1] for name in names]
    ranks = _ranks(best)
    rows = [
        ["encoding", *(f"rate {rate:g}" for rate in rates), "chosen"]
        + [f"rank at {usual:g}", "rank at its own"]
    ]
    for i, name in enumerate(names):
        cells = ["{:.2f}, {:.2f}".format(*values[name][rate]) for rate in rates]
        rows.append([name, *cells, f"{chosen[name]:g}", str(i + 1), str(ranks[i])])
    lines = [f"| {' | '.join(cells)} |" for cells in rows]
    lines.insert(1, f"|---|{'--:|' * (len(rates) + 3)}")
    return "\n".join([*lines, "", _agreement(best, ranks)])


def _agreement(best: Sequence[float], ranks: np.ndarray) -> str:
    """What the table's cells are, and how alike its two orders are."""
    tau, _ = stats.kendalltau(range(len(best)), best)
    moved = np.abs(np.arange(1, len(best) + 1) - ranks).max()
    return (
        "Bits per byte of validation text at the training length, and at the longest. "
        f"Kendall's tau of the two orders: {tau:.2f}; no encoding moves by more than {moved} "
        "ranks."
    )


def _ranks(values: Sequence[float]) -> np.ndarray:
    """The rank of each value, 1 for the lowest."""
    return np.argsort(np.argsort(values)) + 1
