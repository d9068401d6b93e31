"""The figure of a single model that is scored at places of a text: by how much each swap differs
from the model as it is at its training length, as bars, a panel for each evaluation length.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pe_jax.record import Result, Way
from pe_jax.report import cells, labels, stats
from pe_jax.report.style import STYLE
from pe_jax.report.words import plusminus, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROW = 0.17  # inches
BETTER, WORSE, OPEN = "#0072b2", "#d55e00", "#9a9a9a"
FAR = 4.0
"""Bars that reach more than so many times as far as the median are cut, so that others show."""


def bars(result: Result, metric: str, width: float) -> Figure | None:
    """A row for each way, the best at the longest length first: its value minus that of the model
    as it is at the training length, paired over places, with the 95 % interval. Bars whose interval
    holds 0 are grey, others blue where they are better and orange where they are worse. A bar that
    is cut has its number at the frame. `width` is in inches. None without the training length.
    """
    import matplotlib
    from matplotlib.figure import Figure

    before = cells.values(cells.by_replica(result, metric, result.train.length))
    lengths = sorted({row.length for row in result.rows if row.metric == metric})
    if not before or len(lengths) < 2:
        return None
    ways = dict.fromkeys(row.way for row in result.rows if row.metric == metric)
    every = {
        (way, n): stats.paired(cells.values(cells.by_replica(result, metric, n, way)), before)
        for way in ways
        for n in lengths
    }
    sign = cells.described(metric).sign
    order = sorted(ways, key=lambda way: _rank(every[way, lengths[-1]].mean, sign))
    last = [_end(every[way, lengths[-1]]) for way in ways]
    limit = _limit(last, [_end(one) for one in every.values()])
    with matplotlib.rc_context(STYLE):
        figure = Figure((width, 0.75 + ROW * len(order)), layout="constrained")
        panels = figure.subplots(1, len(lengths), squeeze=False, sharey=True, sharex=True)[0]
        for axes, length in zip(panels, lengths, strict=True):
            for y, way in enumerate(order):
                _bar(axes, y, every[way, length], limit, sign, f"{_name(result, way)}\n{length}")
            trained = " (trained)" if length == result.train.length else ""
            axes.set_title(f"{length} tokens{trained}", fontsize=7)
            axes.axvline(0, color="black", linewidth=0.6)
            axes.grid(axis="x", color="#ececec", linewidth=0.6)
            axes.set_axisbelow(True)
            axes.tick_params(axis="y", length=0)
            axes.tick_params(axis="x", labelsize=6.5)
            axes.spines["left"].set_visible(False)
        names = [short(_name(result, way)) for way in order]
        panels[0].set_yticks(range(len(order)), names, fontsize=7)
        panels[0].set(xlim=(-limit, limit), ylim=(len(order) - 0.4, -0.6))
        panels[0].locator_params(axis="x", nbins=4)
        unit = cells.described(metric).unit
        figure.supxlabel(f"{unit} minus those as it is at {result.train.length}", fontsize=8)
    return figure


def _name(result: Result, way: Way) -> str:
    return labels.in_way("", way, result.train) if way else "as it is"


def _rank(mean: float, sign: int) -> tuple[bool, float]:
    return math.isnan(mean), sign * mean


def _end(one: stats.Interval) -> float:
    """How far from 0 a bar reaches with its interval; NaN without a value."""
    return abs(one.mean) + float(np.nan_to_num(one.half))


def _limit(last: Sequence[float], ends: Sequence[float]) -> float:
    """Where the axes end: a little beyond the longest bar that reaches at most FAR times as far as
    the median bar of the last panel.
    """
    known = [end for end in last if not math.isnan(end)]
    usual = [end for end in ends if known and end <= FAR * statistics.median(known)]
    return 1.1 * max(usual, default=0) or 1.0


def _bar(axes: Axes, y: int, one: stats.Interval, limit: float, sign: int, label: str) -> None:
    """A bar with its interval. `label`, the name of the row and the length on two lines, is for the
    text that a page shows where somebody points at the bar.
    """
    if not one.n:
        axes.text(0, y, " n/a", fontsize=6, va="center")
        return
    half = float(np.nan_to_num(one.half))
    settled = abs(one.mean) > half
    colour = (BETTER if sign * one.mean < 0 else WORSE) if settled else OPEN
    axes.barh(y, one.mean, height=0.62, color=colour, zorder=2)
    axes.plot([one.mean - half, one.mean + half], [y, y], color="black", linewidth=0.8, zorder=3)
    text = plusminus(one.mean, one.half, "+", 3)
    point: dict[str, Any] = dict(s=4, color="black", zorder=3)
    axes.scatter([min(max(one.mean, -limit), limit)], [y], label=f"{label}: {text}", **point)
    if abs(one.mean) > limit:
        side, number = "right" if one.mean > 0 else "left", f"{one.mean:+.2g}".replace("-", "−")
        place: dict[str, Any] = dict(ha=side, va="center", fontsize=5.5, color="white", zorder=4)
        axes.text(0.96 * math.copysign(limit, one.mean), y, number, **place)
