"""Axes of figures: one plane with a legend, and panels."""

from __future__ import annotations

import contextlib
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pe_jax.report.phrases import short
from pe_jax.report.style import PANELS, STYLE, Line

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

WIDTH = 5.5
"""Inches of a figure: the text width of most single-column papers."""
HEIGHT, LABEL = 3.2, 0.15  # inches of a figure of one plane, of a line of its legend
FAR = 4.0
MARKED = 12  # points of a line up to which each has a marker and a bar
BESIDE = 0.06  # of the plane's width: the room in which lines with bars stand beside each other
LETTERS = 3.5  # widths of a letter that a number on an axis of x needs
GUIDE: dict[str, Any] = {"color": "#808080", "linewidth": 0.6, "zorder": 0}
"""Lines at 0 and at lengths of training."""
BEYOND: dict[str, Any] = {"color": "#f3f3f3", "linewidth": 0, "zorder": -1}
"""The region beyond the longest length of training."""


@dataclass(frozen=True)
class Plane:
    """The axes in which lines are drawn."""

    x: str = ""
    """The title of the axis of x."""
    y: str = ""
    """The title of the axis of y."""
    unit: str = "{}"
    """A value of x in a text, as in "{} tokens"."""
    ticks: Sequence[int | float] | None = None
    """Ticks of x; None: matplotlib's."""
    base: int = 2
    """The base of the logarithm of x; 0: x is linear."""
    trained: Sequence[int] = ()
    """Values of x that are marked as lengths of training; what lies beyond them is shaded."""
    top: float = math.inf
    """How far from 0 y is shown at most."""
    log_y: bool = False
    zero: bool = False
    """Whether they are differences: a line is drawn at y = 0."""


def limits(lines: Sequence[Line], plane: Plane) -> tuple[float, float]:
    """Both ends of y: the ends of the bands, at most half of the range of the means beyond this
    range, since an interval of two seeds may be huge. Differences end at `top` or FAR times the
    median of the lines' ends from 0, so that one model that fails does not flatten the others.
    """
    low = min(float(np.nanmin(line.mean)) for line in lines)
    high = max(float(np.nanmax(line.mean)) for line in lines)
    if plane.zero and math.isinf(plane.top):
        far = FAR * float(np.median([abs(line.mean[-1]) for line in lines])) or math.inf
        low, high = max(low, -far), min(high, far)
    if not plane.log_y:
        beyond = (high - low) / 2
        low = max(low - beyond, min(float(np.nanmin(line.low)) for line in lines))
        high = min(high + beyond, max(float(np.nanmax(line.high)) for line in lines))
    low = max(low, -plane.top)
    high = max(low, min(high, plane.top))
    if plane.log_y:
        room = max(high / low, 1.01) ** 0.05
        return low / room, high * room
    if not low and not high:  # as of a share that nobody reaches: none is below 0
        high = 1.0
    room = 0.05 * (high - low or abs(high))
    return low - room, high + room


def fill(axes: Axes, lines: Sequence[Line], plane: Plane, ends: tuple[float, float]) -> None:
    """Lines, intervals and ticks in these axes, with these ends of y.

    Intervals at up to MARKED points are bars, and their lines stand a little apart:
    bands that are wider than the differences would hide them. At more points they are pale bands.
    """
    from matplotlib.transforms import Affine2D

    axes.set(xlabel=plane.x, ylabel=plane.y)
    if plane.base:
        axes.set_xscale("log", base=plane.base)
    if plane.ticks is not None:
        axes.set_xticks(plane.ticks, [f"{tick:g}" for tick in plane.ticks])
        axes.set_xticks([], minor=True)
    if plane.log_y:
        axes.set_yscale("log")
    for line in lines:
        colour, dash, marker = line.look
        marker = marker if len(line.x) <= MARKED else ""
        label, style = line.said(plane.unit), {"color": colour, "linestyle": dash}
        axes.plot(line.x, line.mean, marker=marker, label=label, **style)
    axes.set(xlim=axes.get_xlim(), ylim=ends)
    if plane.log_y:
        number_plainly(axes.yaxis)
    barred = [i for i, n in enumerate(lines) if len(n.x) <= MARKED and np.any(n.high > n.low)]
    for i, line in enumerate(lines):
        interval, colour = (line.x, line.low, line.high), line.look.colour
        if i not in barred:
            opacity = min(0.15, 0.6 / len(lines))
            axes.fill_between(*interval, color=colour, alpha=opacity, linewidth=0)
            continue
        aside = Affine2D().translate(BESIDE * ((barred.index(i) + 0.5) / len(barred) - 0.5), 0)
        place = axes.transScale + axes.transLimits + aside + axes.transAxes
        for artist in (axes.lines[i], axes.vlines(*interval, color=colour, linewidth=0.7)):
            artist.set_transform(place)
    for length in plane.trained:
        axes.axvline(length, **GUIDE)
    if plane.trained and max(plane.trained) < axes.get_xlim()[1]:
        axes.axvspan(max(plane.trained), axes.get_xlim()[1], **BEYOND)
    if plane.zero:
        axes.axhline(0, **GUIDE)


def number_plainly(axis: Axis) -> None:
    """Numbers without powers as the ticks of a logarithmic axis, round ones within one decade."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

    low, high = axis.get_view_interval()
    if high < 20 * low:
        axis.set_major_locator(MaxNLocator(10, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def doublings(length: int, low: float, high: float) -> list[float]:
    """The length, its doubles and its halves from `low` to `high`."""
    powers = range(-math.ceil(math.log2(length)), math.ceil(math.log2(max(high / length, 1))) + 1)
    return [tick for power in powers if low <= (tick := length * 2.0**power) <= high]


# Panels


@contextlib.contextmanager
def panels(
    count: int,
    columns: int,
    width: float,
    height: float,
    rest: float = 0.0,
    sharey: bool = False,
) -> Iterator[tuple[Figure, list[Axes]]]:
    """A figure `width` inches wide with `count` panels in rows of `columns`, to be drawn within the
    context; a row is `height` inches high, and `rest` inches are for what stands around the panels.
    """
    import matplotlib
    from matplotlib.figure import Figure

    rows = math.ceil(count / columns)
    with matplotlib.rc_context(PANELS):
        figure = Figure((width, height * rows + rest), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False, sharey=sharey)
        every = grid.ravel().tolist()
        for axes in every[count:]:
            axes.remove()
        yield figure, every[:count]
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # else each format is laid out anew
        for axes in every[:count]:
            _thin_labels(axes.xaxis)


def name_panel(axes: Axes, name: str, inches: float) -> None:
    """Writes the name above a panel that is so many inches wide, in at most three lines, with
    smaller letters where these are long.
    """
    members, width = name.replace("+", "+ "), max(28, int(13 * inches))
    lines = textwrap.wrap(members, width, max_lines=3, placeholder=" …")
    text = "\n".join(lines).replace("+ ", "+")
    axes.set_title(text, fontsize=min(7.0, 92 * inches / max(map(len, lines))))


def legend(figure: Figure, handles: Mapping[str, Artist]) -> None:
    """A legend above the panels, in as many columns as fit; the figure becomes higher by it."""
    names = [short(name, 34) for name in handles]
    columns = max(1, int(figure.get_figwidth() / (0.5 + 0.055 * max(map(len, names)))))
    rows = math.ceil(len(names) / columns)
    figure.set_figheight(figure.get_figheight() + 0.06 + 0.14 * rows)
    space: dict[str, Any] = dict(handlelength=2.4, columnspacing=1.2, labelspacing=0.25)
    place: dict[str, Any] = dict(loc="outside upper center", ncols=columns)
    figure.legend([*handles.values()], names, **place, **space)


def _thin_labels(axis: Axis) -> None:
    # Every second, third ... label of an axis of x, the last one among them, as many as fit.
    low, high = axis.get_view_interval()
    ticks = [t for t in axis.get_major_ticks()[::-1] if low <= t.get_loc() <= high]
    inches = axis.axes.get_window_extent().width / axis.axes.figure.dpi
    step = math.ceil(sum(LETTERS * float(t.label1.get_fontsize()) for t in ticks) / (72 * inches))
    for i, tick in enumerate(ticks):
        if i % step:
            tick.label1.set_visible(False)


# One plane


def draw(lines: Sequence[Line], plane: Plane) -> Figure:
    """All lines in one plane, with a legend in the order of their ends. A name says where its line
    ends if others are longer.
    """
    import matplotlib
    from matplotlib.figure import Figure

    longest = max(line.x[-1] for line in lines)
    with matplotlib.rc_context(STYLE):
        size = WIDTH, max(HEIGHT, 0.4 + LABEL * len(lines))
        figure = Figure(size, layout="constrained")
        axes = figure.add_subplot()
        fill(axes, lines, plane, limits(lines, plane))
        drawn = zip(lines, axes.lines, strict=False)  # the lines stand before the guides
        order, handles = zip(*sorted(drawn, key=lambda pair: -pair[0].mean[-1]), strict=True)
        names = [
            short(line.label) + ("" if line.x[-1] == longest else f" (to {line.x[-1]:g})")
            for line in order
        ]
        figure.legend(handles, names, loc="outside right upper", handlelength=2.6)
        figure.draw_without_rendering()
        _thin_labels(axes.xaxis)
    return figure
