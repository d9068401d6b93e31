"""The figure of the probabilities of improvement: which model is better than which, how often."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pe_jax.record import Result
from pe_jax.report import stats, tables
from pe_jax.report.cells import Table
from pe_jax.report.style import COLOURS, STYLE
from pe_jax.report.words import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WRITTEN = 12  # models up to which the cells hold their numbers
SIDE, DENSE = 0.48, 0.115  # inches of a cell with numbers and of one without


def matrix(results: Sequence[Result], table: Table) -> Figure | None:
    """The matrix of a table of these results, in the order of its rows: blue where the row's model
    is better, orange where the column's is.

    Up to 12 models have their numbers in the cells. None for fewer than two models, or without a
    length beyond training or a seed that all have.
    """
    import matplotlib
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

    rows = [row for row in table.rows if row.trained]
    chosen = [result for result in results if result.id in {row.run for row in rows}]
    scores = tables.beyond(rows, chosen, table.metric, table.lengths) if len(rows) > 1 else None
    if scores is None or not scores.size:
        return None
    mean, low, high = stats.improvement(scores)
    shown = np.where(np.eye(len(rows), dtype=bool), np.nan, mean)
    side, size = (SIDE, 7.0) if len(rows) <= WRITTEN else (DENSE, 5.5)
    names = [short(row.label) for row in rows]
    room = 0.6 * size / 72 * max(map(len, names))  # of the longest name
    extent = room + side * len(rows) + 0.2
    ends = [COLOURS[1], "#ffffff", COLOURS[0]]
    colours = LinearSegmentedColormap.from_list("better", ends).with_extremes(bad="#e8e8e8")
    with matplotlib.rc_context(STYLE):
        figure = Figure((extent + 0.7, extent), layout="constrained")
        axes = figure.add_subplot()
        image = axes.imshow(shown, colours, vmin=0, vmax=1)
        _label(axes, names, size)
        bar = figure.colorbar(image, ax=axes, shrink=0.6, aspect=25, pad=0.02)
        bar.set_label("P(row better\nthan column)")
        bar.outline.set_linewidth(0.6)
        if len(rows) <= WRITTEN:
            _write(axes, mean, low, high)
    return figure


def _label(axes: Axes, names: Sequence[str], size: float) -> None:
    ticks = range(len(names))
    axes.set_xticks(ticks, names, rotation=90, fontsize=size)
    axes.set_yticks(ticks, names, fontsize=size)
    axes.tick_params(length=0, pad=2)
    axes.xaxis.tick_top()
    axes.spines[:].set_visible(False)
    edges = np.arange(len(names) - 1) + 0.5
    axes.set_xticks(edges, minor=True)
    axes.set_yticks(edges, minor=True)
    axes.tick_params(which="minor", length=0)
    axes.grid(which="minor", color="#ffffff", linewidth=0.6)


def _write(axes: Axes, mean: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    """The number of each cell, and below it its interval where there is one."""
    for i, j in np.ndindex(mean.shape):
        if i != j:
            colour = "#ffffff" if abs(mean[i, j] - 0.5) > 0.3 else "#000000"
            style = {"ha": "center", "va": "center", "color": colour}
            known = np.isfinite(low[i, j])
            axes.text(j, i - 0.08 * known, f"{mean[i, j]:.2f}", {"fontsize": 7} | style)
            if known:
                text = f"[{low[i, j]:.2f}, {high[i, j]:.2f}]"
                axes.text(j, i + 0.27, text, {"fontsize": 4.8} | style)
