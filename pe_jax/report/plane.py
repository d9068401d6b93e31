"""Axes of figures: one plane with the names of its lines at their ends, and panels."""

from __future__ import annotations

import contextlib
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pe_jax.report.style import PANELS, STYLE, Line
from pe_jax.report.words import join, short

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.text import Text

LEAST_WIDTH = 5.5  # inches of a figure of panels
COLUMNS = 6  # of a panel for each line
LETTERS = 21  # of a name on one line above a panel
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
    markers: bool = False
    top: float | None = None
    """The highest y that is shown; None: no bound."""
    log_y: bool = False
    zero: bool = False
    """Whether a line is drawn at y = 0."""


def limits(lines: Sequence[Line], plane: Plane) -> tuple[float, float]:
    """Both ends of y: the ends of the bands, at most half of the range of the means beyond this
    range, since an interval of two seeds may be huge.
    """
    low = min(float(np.nanmin(line.mean)) for line in lines)
    high = max(float(np.nanmax(line.mean)) for line in lines)
    if not plane.log_y:
        beyond = (high - low) / 2
        low = max(low - beyond, min(float(np.nanmin(line.low)) for line in lines))
        high = min(high + beyond, max(float(np.nanmax(line.high)) for line in lines))
    if plane.top is not None:
        high = max(low, min(high, plane.top))
    if plane.log_y:
        room = max(high / low, 1.01) ** 0.05
        return low / room, high * room
    if not low and not high:  # as of a share that nobody reaches: none is below 0
        high = 1.0
    room = 0.05 * (high - low or abs(high))
    return low - room, high + room


def fill(axes: Axes, lines: Sequence[Line], plane: Plane, ends: tuple[float, float]) -> None:
    """Lines, bands and ticks in these axes, with these ends of y."""
    _set_scales(axes, plane)
    for line in lines:
        colour, dash, marker = line.look
        marked = plane.markers or len(line.x) == 1  # a line of one point is its marker
        style: dict[str, Any] = dict(color=colour, linestyle=dash, marker=marker if marked else "")
        axes.plot(line.x, line.mean, label=line.said(plane.unit), **style)
        if line.ringed:
            cut = not ends[0] <= line.ringed[1] <= ends[1]  # else whole at the edge of the axes
            (ring,) = axes.plot(*line.ringed, marker="o", color=colour, clip_on=cut)
            ring.set(markersize=7, markerfacecolor="none", markeredgewidth=0.8)
        for x, y in line.broken:
            axes.plot(x, y, marker="X", markersize=5, color=colour, markeredgecolor="white")
    axes.set(xlim=axes.get_xlim(), ylim=ends)
    if plane.log_y:
        number_plainly(axes.yaxis)
    for line in lines:
        colour = line.look.colour
        axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.15, linewidth=0)
    for length in plane.trained:
        axes.axvline(length, **GUIDE)
    if plane.trained and max(plane.trained) < axes.get_xlim()[1]:
        axes.axvspan(max(plane.trained), axes.get_xlim()[1], **BEYOND)
    if plane.zero:
        axes.axhline(0, **GUIDE)


def _set_scales(axes: Axes, plane: Plane) -> None:
    axes.set(xlabel=plane.x, ylabel=plane.y)
    if plane.base:
        axes.set_xscale("log", base=plane.base)
    if plane.ticks is not None:
        axes.set_xticks(plane.ticks, [f"{tick:g}" for tick in plane.ticks])
        axes.set_xticks([], minor=True)
    if plane.log_y:
        axes.set_yscale("log")


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
    sharex: bool = False,
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
        grid = figure.subplots(rows, columns, squeeze=False, sharex=sharex, sharey=sharey)
        every = grid.ravel().tolist()
        for axes in every[count:]:
            axes.remove()
        yield figure, every[:count]
        if sharex:
            for axes in every[max(0, count - columns) : count]:
                axes.tick_params(labelbottom=True)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # else each format is laid out anew
        for axes in every[:count]:
            _thin_labels(axes.xaxis)


def draw_panels(lines: Sequence[Line], plane: Plane, width: float) -> Figure:
    """A panel for each line, in the order of the lines, and the same axes in all.

    The means of the tenth of the lines that goes highest do not set the ends of y, so that one
    encoding that fails does not flatten the others. `width` is in inches, LEAST_WIDTH at least.
    """
    width = max(width, LEAST_WIDTH)
    usual = sorted(lines, key=lambda line: line.mean.max())[: math.ceil(0.9 * len(lines))]
    ends, untitled = limits(usual, plane), replace(plane, x="", y="")
    with panels(len(lines), COLUMNS, width, 0.8, 0.6, sharex=True, sharey=True) as (figure, every):
        for axes, line in zip(every, lines, strict=True):
            fill(axes, [line], untitled, ends)
            name_panel(axes, line.label, width / COLUMNS, line.look.ink)
        figure.supxlabel(plane.x)
        figure.suptitle(plane.y, x=0.01, ha="left")
    return figure


def name_panel(axes: Axes, name: str, inches: float, colour: str = "black") -> None:
    """Writes the name above a panel that is so many inches wide, with smaller letters where it is
    long.
    """
    text = wrapped(short(name))
    longest = max(map(len, text.split("\n")))
    axes.set_title(text, color=colour, fontsize=min(7.0, 92 * inches / longest))


def wrapped(name: str) -> str:
    """The name on lines of at most LETTERS letters where it has places to break."""
    lines = [""]
    for part in re.split(r"(?<=[+(\]])|(?<=,)(?!\d)", name):
        if lines[-1] and len(lines[-1] + part) > LETTERS:
            lines.append("")
        lines[-1] += part if lines[-1] else part.lstrip()
    return "\n".join(lines)


def legend(figure: Figure, handles: Sequence[Artist]) -> None:
    """A legend above the panels, in as many columns as fit; the figure becomes higher by it."""
    widths = [0.5 + 0.055 * len(str(handle.get_label())) for handle in handles]  # inches
    columns = len(widths)
    while columns > 1 and sum(map(max, np.array_split(widths, columns))) > figure.get_figwidth():
        columns -= 1
    rows = math.ceil(len(widths) / columns)
    figure.set_figheight(figure.get_figheight() + 0.06 + 0.14 * rows)
    space: dict[str, Any] = dict(handlelength=2.4, columnspacing=1.2, labelspacing=0.25)
    figure.legend(handles=list(handles), loc="outside upper center", ncols=columns, **space)


def _thin_labels(axis: Axis) -> None:
    """Keeps every second, third ... label of an axis of x, the last one among them, so that none
    touch.
    """
    labels = axis.get_ticklabels()[::-1]
    boxes = [label.get_window_extent() for label in labels]

    def apart(step: int) -> bool:
        pairs = itertools.pairwise(boxes[::step])
        return all(left.x1 + left.height / 2 < right.x0 for right, left in pairs)

    step = next(step for step in itertools.count(1) if apart(step))
    for i, label in enumerate(labels):
        label.set_visible(i % step == 0)


# One plane, and names at the ends of its lines


LABEL = 0.15  # inches from one label to the next
INDENT = 0.15  # inches from the axes to the labels
AXES = 2.0  # least inches of the axes: long labels make the figure wider


def draw(lines: Sequence[Line], plane: Plane, width: float) -> Figure | None:
    """All lines in one plane, each with its name at its end. The figure is `width` inches wide,
    wider where the names need it. None without lines.
    """
    import matplotlib
    from matplotlib.figure import Figure

    if not lines:
        return None
    with matplotlib.rc_context(STYLE):
        figure = Figure((width, max(0.58 * width, 0.8 + LABEL * len(lines))))
        axes = figure.add_subplot()
        fill(axes, lines, plane, limits(lines, plane))
        _name_training(axes, plane.trained)
        _label_ends(figure, axes, lines)
        _thin_labels(axes.xaxis)
    return figure


def name_to_end(line: Line, longest: float) -> str:
    """A line's name for a figure, with where it ends if that is before the `longest` x."""
    return short(line.label) + ("" if line.x[-1] == longest else f" (to {line.x[-1]:g})")


def _name_training(axes: Axes, lengths: Sequence[int]) -> None:
    """Writes the lengths of training above the line of the first one."""
    low, high = axes.get_xlim()
    if shown := [length for length in lengths if low <= length <= high]:
        axes.annotate(
            f"trained at {join(shown)}",
            (shown[0], 1),
            xycoords=("data", "axes fraction"),
            xytext=(0, 5),
            textcoords="offset points",
            color="#606060",
            fontsize=7,
        )


def _label_ends(figure: Figure, axes: Axes, lines: Sequence[Line]) -> None:
    """Writes each line's name right of the axes, as near to its end as the other names allow."""
    from scipy.optimize import isotonic_regression

    right = max(line.x[-1] for line in lines)
    order = sorted(lines, key=lambda line: line.mean[-1])
    labels = [_label(axes, line, right) for line in order]
    wide = INDENT + max(label.get_window_extent().width for label in labels) / figure.dpi
    figure.set_figwidth(max(figure.get_figwidth(), wide + AXES))
    room = wide / figure.get_figwidth()
    figure.set_layout_engine("constrained", rect=(0, 0, 1 - room, 1))
    figure.draw_without_rendering()
    ends = axes.transData.transform([_shown_end(axes, line) for line in order])
    wanted = axes.transAxes.inverted().transform(ends)[:, 1]
    box = axes.get_window_extent()
    steps = LABEL * figure.dpi / box.height * np.arange(len(order))
    placed = np.clip(isotonic_regression(wanted - steps).x, 0, max(0, 1 - steps[-1])) + steps
    for label, height in zip(labels, placed, strict=True):
        label.set_position((1 + INDENT * figure.dpi / box.width, height))
    figure.patch.set_in_layout(True)  # a tight box, such as Jupyter's, is the whole figure


def _shown_end(axes: Axes, line: Line) -> tuple[float, float]:
    """The end of a line, at the frame where it is beyond it."""
    return line.x[-1], float(np.clip(line.mean[-1], *axes.get_ylim()))


def _label(axes: Axes, line: Line, right: float) -> Text:
    """A line's name, with a stroke from the line's end when that is at the right of the axes."""
    colour = line.look.colour
    stroke = dict(arrowstyle="-", color=colour, linewidth=0.6, relpos=(0, 0.5), patchA=None)
    label = axes.annotate(
        name_to_end(line, right),
        _shown_end(axes, line),
        xytext=(1, 0),
        textcoords="axes fraction",
        va="center",
        color=line.look.ink,
        annotation_clip=False,
        arrowprops=stroke if line.x[-1] == right else None,
    )
    label.set_in_layout(False)
    return label
