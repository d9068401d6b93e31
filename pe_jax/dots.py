"""The figure of many encodings: a row each, a dot for each evaluation length.

Twenty curves in one plane hide each other; rows stay readable at any number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pe_jax.plots import Line

ROW = 0.145  # inches
DARK, LIGHT = np.array([0.03, 0.19, 0.42]), np.array([0.68, 0.82, 0.93])


def dots(lines: Sequence[Line], trained: set[int], name: str, width: float) -> Figure:
    """The lines as rows, the lowest at the longest length first, then those that end before it.

    The darker a dot, the longer the windows; a ring is a training length. A bar is the 95 %
    interval at a row's longest length. The axis of the values, called `name`, is logarithmic.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    lengths = sorted({int(x) for line in lines for x in line.x})
    rows = sorted(lines, key=lambda line: (-line.x[-1], line.mean[-1]))
    figure = Figure((width, 0.75 + ROW * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    share = np.linspace(0, 1, len(lengths))[:, None]
    colours = dict(zip(lengths, (1 - share) * LIGHT + share * DARK, strict=True))
    for y, line in enumerate(rows):
        axes.plot([line.mean.min(), line.mean.max()], [y, y], color="#d0d0d0", lw=0.8, zorder=1)
        least = max(line.mean[-1] - line.half[-1], 0.9 * line.mean.min())  # above 0: a log axis
        axes.plot([least, line.mean[-1] + line.half[-1]], [y, y], color=DARK, lw=0.8, zorder=2)
        for x, mean in zip(line.x, line.mean, strict=True):
            ring = "#d55e00" if int(x) in trained else "none"
            axes.scatter(mean, y, s=13, color=[colours[int(x)]], edgecolors=ring, lw=0.7, zorder=3)
    full = lengths[-1]
    axes.set_yticks(
        range(len(rows)),
        [r.label + ("" if r.x[-1] == full else f" (to {r.x[-1]:g})") for r in rows],
        fontsize=7,
    )
    low, high = min(r.mean.min() for r in rows), max(r.mean.max() for r in rows)
    axes.set(ylim=(len(rows) - 0.5, -0.7), xlabel=name, xscale="log")
    axes.set_xlim(low / 1.03, high * 1.03)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 8)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(axis="x", color="#ececec", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    for length in lengths:
        ring = "#d55e00" if length in trained else "none"
        text = f"{length}" + (" (trained)" if length in trained else "")
        axes.scatter([], [], s=13, color=[colours[length]], edgecolors=ring, lw=0.7, label=text)
    figure.legend(
        loc="outside upper center",
        ncols=len(lengths),
        frameon=False,
        fontsize=7,
        handletextpad=0.1,
        columnspacing=1.0,
    )
    return figure
