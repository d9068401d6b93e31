"""The learning-rate check of NOTES.md, from results/learning_rates: each encoding's rate is chosen
on validation text at the training length, its rank is by the longest length.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy import stats

from configs import base
from pe_jax import study
from pe_jax.cells import cell

METRIC = "same_targets"


def means(folder: Path) -> dict[str, dict[float, tuple[float, float]]]:
    """{encoding: {rate: (bits per byte at the training length, at the longest)}}, over seeds."""
    found: dict[str, dict[float, tuple[float, float]]] = {}
    for result in study.load(folder):
        lengths = sorted({row.length for row in result.rows})
        ends = (result.train.length, lengths[-1])
        near, far = (cell(result, METRIC, length).mean for length in ends)
        found.setdefault(result.label, {})[result.config["train"]["rate"]] = near, far
    return found


def table(folder: Path) -> str:
    """A row an encoding, ordered by its value at the usual rate, and how far the orders agree."""
    found, usual = means(folder), base.get_config().train.rate
    rates = sorted({rate for values in found.values() for rate in values})
    chosen = {name: min(values, key=lambda r: values[r][0]) for name, values in found.items()}
    names = sorted(found, key=lambda name: found[name][usual][1])
    own = [found[name][chosen[name]][1] for name in names]
    ranks = _ranks(own)
    lines = [
        f"| encoding | {' | '.join(f'rate {rate:g}' for rate in rates)} | chosen "
        f"| rank at {usual:g} | rank at its own |",
        f"|---|{'--:|' * (len(rates) + 3)}",
    ]
    for i, name in enumerate(names):
        cells = [f"{found[name][r][0]:.2f}, {found[name][r][1]:.2f}" for r in rates]
        told = [name, *cells, f"{chosen[name]:g}", str(i + 1), str(ranks[i])]
        lines.append(f"| {' | '.join(told)} |")
    tau = stats.kendalltau(range(len(names)), own).statistic
    moved = np.abs(np.arange(1, len(names) + 1) - ranks).max()
    return "\n".join(
        [
            *lines,
            "",
            "Bits per byte of validation text at the training length, and at the longest. "
            f"Kendall's tau of the two orders: {tau:.2f}; no encoding moves by more than {moved} "
            "ranks.",
        ]
    )


def _ranks(values: Sequence[float]) -> np.ndarray:
    return np.argsort(np.argsort(values)) + 1
