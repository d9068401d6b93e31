"""The figure of many encodings: a row each, a dot for each evaluation length.

Twenty curves in one plane hide each other; rows stay readable at any number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pe_jax.report.plane import CUT
from pe_jax.report.style import STYLE, Line
from pe_jax.report.words import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROW = 0.145  # inches
DARK, LIGHT = np.array([0.03, 0.19, 0.42]), np.array([0.68, 0.82, 0.93])
TINY = 1e-9  # where an interval that reaches 0 ends on a logarithmic axis
RING = "#d55e00"  # around the dots of a training length


def dots(
    lines: Sequence[Line], trained: Sequence[int], name: str, width: float, sign: int = 1
) -> Figure:
    """The lines as rows, the best at the longest length first, then those that end before it.

    Lower is better with sign 1, higher with -1. The darker a dot, the longer the windows; a ring
    marks a length that was trained at. A bar is the 95 % interval at a row's longest length, with
    an arrow head at the frame where it goes on beyond it. A name has its encoding's colour. `name`
    labels the axis of values, which is logarithmic where all are above 0; `width` is in inches.
    """
    import matplotlib
    from matplotlib.figure import Figure

    lengths = sorted({int(x) for line in lines for x in line.x})
    rows = sorted(lines, key=lambda line: (-line.x[-1], sign * line.mean[-1]))
    share = np.linspace(0, 1, len(lengths))[:, None]
    colours = dict(zip(lengths, (1 - share) * LIGHT + share * DARK, strict=True))
    with matplotlib.rc_context(STYLE):
        figure = Figure((width, 0.75 + ROW * len(rows)), layout="constrained")
        axes = figure.add_subplot()
        logarithmic = bool(np.concatenate([line.mean for line in rows]).min() > 0)
        _draw_rows(axes, rows, trained, colours, logarithmic)
        _label_rows(axes, rows, lengths[-1])
        _set_axis(axes, rows, name, logarithmic)
        _mark_cuts(axes, rows)
        _add_legend(figure, axes, lengths, trained, colours)
    return figure


def _draw_rows(
    axes: Axes, rows: Sequence[Line], trained: Sequence[int], colours: dict, logarithmic: bool
) -> None:
    for y, line in enumerate(rows):
        axes.plot([line.mean.min(), line.mean.max()], [y, y], color="#d0d0d0", lw=0.8, zorder=1)
        least = max(line.low[-1], TINY) if logarithmic else line.low[-1]
        axes.plot([least, line.high[-1]], [y, y], color=DARK, lw=0.8, zorder=2)
        rings = [RING if int(x) in trained else "none" for x in line.x]
        fill = [colours[int(x)] for x in line.x]
        style: dict[str, Any] = dict(s=13, color=fill, edgecolors=rings, lw=0.7, zorder=3)
        axes.scatter(line.mean, [y] * len(line.x), label=line.said("{} tokens"), **style)


def _mark_cuts(axes: Axes, rows: Sequence[Line]) -> None:
    """An arrow head at the frame where an interval goes on beyond it."""
    from matplotlib.markers import CARETLEFTBASE, CARETRIGHTBASE

    low, high = axes.get_xlim()
    for y, line in enumerate(rows):
        outside = (
            (0, CARETLEFTBASE, line.low[-1] < low),
            (1, CARETRIGHTBASE, line.high[-1] > high),
        )
        for end, marker, out in outside:
            if out:
                place = axes.get_yaxis_transform()
                (mark,) = axes.plot(end, y, transform=place, clip_on=False, gid=CUT)
                mark.set(marker=marker, markersize=3.5, color=DARK)


def _label_rows(axes: Axes, rows: Sequence[Line], longest: int) -> None:
    names = [
        short(row.label) + ("" if row.x[-1] == longest else f" (to {row.x[-1]:g})") for row in rows
    ]
    axes.set_yticks(range(len(rows)), names, fontsize=7)
    for tick, row in zip(axes.get_yticklabels(), rows, strict=True):
        tick.set_color(row.look.ink)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _set_axis(axes: Axes, rows: Sequence[Line], name: str, logarithmic: bool) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set(ylim=(len(rows) - 0.5, -0.7), xlabel=name)
    low, high = min(row.mean.min() for row in rows), max(row.mean.max() for row in rows)
    room = 0.03 * (high - low) or 1.0
    axes.set_xlim(*((low / 1.03, high * 1.03) if logarithmic else (low - room, high + room)))
    if logarithmic:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 8)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(axis="x", color="#ececec", linewidth=0.6)
    axes.set_axisbelow(True)


def _add_legend(
    figure: Figure, axes: Axes, lengths: Sequence[int], trained: Sequence[int], colours: dict
) -> None:
    handles = []
    for length in lengths:
        ring = RING if length in trained else "none"
        text = f"{length}" + (" (trained)" if length in trained else "")
        style: dict[str, Any] = dict(
            s=13, color=[colours[length]], edgecolors=ring, lw=0.7, label=text
        )
        handles.append(axes.scatter([], [], **style))
    figure.legend(
        handles=handles,
        loc="outside upper center",
        ncols=len(lengths),
        frameon=False,
        fontsize=7,
        handletextpad=0.1,
        columnspacing=1.0,
    )
