"""Lines with their bands in one plane, each with its name at its end."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pe_jax.report.style import STYLE, Line
from pe_jax.report.words import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

LABEL = 0.15  # inches from one label to the next
INDENT = 0.15  # inches from the axes to the labels
AXES = 2.0  # least inches of the axes: long labels make the figure wider
RING: dict[str, Any] = {"markersize": 7, "markeredgewidth": 0.8}
CUT = "cut"  # the id of the marks where a band or a line leaves the axes


@dataclass(frozen=True)
class Plane:
    """The axes in which lines are drawn."""

    x: str
    """The title of the axis; so is y."""
    y: str
    unit: str
    """A value of x in a text, as in "{} tokens"."""
    ticks: Sequence[int | float] | None = None
    """Of x; None: matplotlib's."""
    base: int = 2
    """Of the logarithm of x; 0: x is linear."""
    trained: Sequence[int] = ()
    """Values of x that are marked as lengths of training."""
    markers: bool = False
    top: float | None = None
    """The highest y that is shown; None: the highest mean."""
    log_y: bool = False
    ends: tuple[float, float] | None = None
    """Both ends of y; None: those of the means, up to `top`."""
    zero: bool = False
    """Whether a line is drawn at y = 0."""


def doublings(length: int, low: float, high: float) -> list[float]:
    """The length, its doubles and its halves from `low` to `high`."""
    powers = range(-math.ceil(math.log2(length)), math.ceil(math.log2(max(high / length, 1))) + 1)
    return [tick for power in powers if low <= (tick := length * 2.0**power) <= high]


def draw(lines: Sequence[Line], plane: Plane, width: float) -> Figure | None:
    """The lines in one plane, `width` inches wide, wider where the names need it; None without
    lines.
    """
    import matplotlib
    from matplotlib.figure import Figure

    if not lines:
        return None
    with matplotlib.rc_context(STYLE):
        height = max(0.58 * width, 0.8 + LABEL * len(lines))
        figure = Figure((width, height))
        axes = figure.add_subplot()
        axes.set(xlabel=plane.x, ylabel=plane.y)
        fill(axes, lines, plane, limits(lines, plane))
        mark_cuts(figure, axes, lines)
        _name_training(axes, plane.trained)
        _label_ends(figure, axes, lines)
    return figure


def limits(lines: Sequence[Line], plane: Plane) -> tuple[float, float]:
    """Both ends of y: the ends of the bands, at most half of the range of the means beyond this
    range, since an interval of two seeds may be huge.
    """
    if plane.ends:
        return plane.ends
    low, high = _range([line.mean for line in lines])
    if not plane.log_y:
        bands = _range([line.low for line in lines])[0], _range([line.high for line in lines])[1]
        beyond = (high - low) / 2
        low, high = max(bands[0], low - beyond), min(bands[1], high + beyond)
    if plane.top is not None:
        high = max(low, min(high, plane.top))
    if plane.log_y:
        room = max(high / low, 1.01) ** 0.05
        return low / room, high * room
    if not low and not high:  # as of a share that nobody reaches: none is below 0
        high = 1.0
    room = 0.05 * (high - low or abs(high))
    return low - room, high + room


def _range(arrays: Sequence[np.ndarray]) -> tuple[float, float]:
    joined = np.concatenate(arrays)
    return float(joined.min()), float(joined.max())


def fill(axes: Axes, lines: Sequence[Line], plane: Plane, ends: tuple[float, float]) -> None:
    """Lines, bands and ticks in these axes, with these ends of y."""
    _set_scales(axes, plane)
    for line in lines:
        colour, dash, marker = line.look
        style: dict[str, Any] = dict(
            color=colour, linestyle=dash, marker=marker if plane.markers else ""
        )
        axes.plot(line.x, line.mean, label=line.said(plane.unit), **style)
        if line.ringed:
            cut = not ends[0] <= line.ringed[1] <= ends[1]  # else whole at the edge of the axes
            ring = {"marker": "o", "color": colour, "markerfacecolor": "none", "clip_on": cut}
            axes.plot(*line.ringed, **ring, **RING)
        for x, y in line.broken:
            axes.plot(x, y, marker="X", markersize=5, color=colour, markeredgecolor="white")
    axes.set(xlim=axes.get_xlim(), ylim=ends)
    for line in lines:
        colour = line.look.colour
        axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.15, linewidth=0)
    for length in plane.trained:
        axes.axvline(length, color="#808080", linewidth=0.6, zorder=0)
    if plane.zero:
        axes.axhline(0, color="#808080", linewidth=0.6, zorder=0)


def _set_scales(axes: Axes, plane: Plane) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

    if plane.base:
        axes.set_xscale("log", base=plane.base)
    if plane.ticks is not None:
        axes.set_xticks(plane.ticks, [f"{tick:g}" for tick in plane.ticks])
        axes.set_xticks([], minor=True)
    if plane.log_y:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(MaxNLocator(10, steps=[1, 2, 5, 10]))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
        axes.yaxis.set_minor_locator(NullLocator())


def mark_cuts(figure: Figure, axes: Axes, lines: Sequence[Line]) -> None:
    """An arrow head at the frame, in a line's colour, for each stretch of points where the line or
    its band leaves the axes, at the point that is farthest out.
    """
    from matplotlib.markers import CARETDOWNBASE, CARETUPBASE
    from matplotlib.transforms import ScaledTranslation

    low, high = axes.get_ylim()
    beside: Counter[tuple[float, int]] = Counter()
    for line in lines:
        outside = ((1, CARETUPBASE, line.high - high), (0, CARETDOWNBASE, low - line.low))
        for end, marker, beyond in outside:
            for i in _farthest(beyond):
                step = 5 * beside[line.x[i], end] / 72  # inches: marks stand beside each other
                beside[line.x[i], end] += 1
                shift = ScaledTranslation(-step, 0, figure.dpi_scale_trans)
                place = axes.get_xaxis_transform() + shift
                (mark,) = axes.plot(line.x[i], end, transform=place, clip_on=False, gid=CUT)
                mark.set(marker=marker, markersize=4, color=line.look.colour)


def _farthest(beyond: np.ndarray) -> Iterator[int]:
    """The index of the highest value of each stretch of values above 0."""
    out = np.flatnonzero(beyond > 0)
    for stretch in np.split(out, np.flatnonzero(np.diff(out) > 1) + 1):
        if len(stretch):
            yield int(stretch[np.argmax(beyond[stretch])])


def is_cut(figure: Figure) -> bool:
    """Whether anything in the figure leaves its axes."""
    return any(line.get_gid() == CUT for axes in figure.axes for line in axes.lines)


def _name_training(axes: Axes, lengths: Sequence[int]) -> None:
    """Writes each length of training above its line, the first of several left of the line."""
    low, high = axes.get_xlim()
    lengths = [length for length in lengths if low <= length <= high]
    for i, length in enumerate(lengths):
        axes.annotate(
            f"{length}" if i else f"trained at {length}",
            (length, 1),
            xycoords=("data", "axes fraction"),
            xytext=(0, 5),
            textcoords="offset points",
            ha="right" if len(lengths) > 1 and not i else "left",
            color="#606060",
            fontsize=7,
        )


def _label_ends(figure: Figure, axes: Axes, lines: Sequence[Line]) -> None:
    """Write each line's name right of the axes, as near to its end as the other names allow."""
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
    reaches = line.x[-1] == right
    colour = line.look.colour
    stroke = dict(arrowstyle="-", color=colour, linewidth=0.6, relpos=(0, 0.5), patchA=None)
    label = axes.annotate(
        short(line.label) + ("" if reaches else f" (to {line.x[-1]:g})"),
        _shown_end(axes, line),
        xytext=(1, 0),
        textcoords="axes fraction",
        va="center",
        color=line.look.ink,
        annotation_clip=False,
        arrowprops=stroke if reaches else None,
    )
    label.set_in_layout(False)
    return label


# Panels: one for each of many encodings, all with the same axes


WIDTH, HEIGHT = 0.81, 0.8  # inches of a panel with its name
LEAST = 5.5  # inches of the figure
NAME, GAP = 0.24, 0.08  # inches of the name, and between two panels
LEFT, BELOW = 0.6, 0.42  # inches of the labels of the axes with their ticks
LETTERS, FITTING = 21, 18  # of a name on one line, and how many fit in the usual size
SHOWN = 0.9  # the share of the lines whose means set the ends of y


def draw_panels(lines: Sequence[Line], plane: Plane, width: float) -> Figure:
    """A panel for each line, in the order of the lines, and the same axes in all.

    The ends of y are such that the means of nine in ten lines lie within, so that one encoding that
    fails does not flatten the others; what leaves the axes is marked. `width` is in inches,
    5.5 at least.
    """
    import matplotlib
    from matplotlib.figure import Figure

    width = max(width, LEAST)
    columns = int((width - LEFT) / WIDTH)
    rows = -(-len(lines) // columns)
    with matplotlib.rc_context({**STYLE, "lines.linewidth": 1.0, "lines.markersize": 2}):
        figure = Figure((width, BELOW + HEIGHT * rows))
        panels = _grid(figure, rows, columns)
        ends = limits(_usual(lines), plane)
        if plane.ticks is not None:
            plane = replace(plane, ticks=plane.ticks[::-2][::-1])
        for i, (axes, line) in enumerate(zip(panels, lines, strict=False)):
            fill(axes, [line], plane, ends)
            mark_cuts(figure, axes, [line])
            _set_panel(axes, line, below=i + columns >= len(lines))
        for axes in panels[len(lines) :]:
            axes.set_visible(False)
        middle = (1 + LEFT / width) / 2
        figure.supxlabel(
            plane.x, fontsize=8, x=middle, y=0.05 / figure.get_figheight(), va="bottom"
        )
        figure.supylabel(plane.y, fontsize=8, x=0.05 / width, ha="left", ma="center")
    return figure


def _grid(figure: Figure, rows: int, columns: int) -> list[Axes]:
    """Axes that share both scales, with room of their own inches for names, ticks and labels."""
    width, height = figure.get_size_inches()
    figure.subplots_adjust(
        left=LEFT / width,
        right=1 - 0.08 / width,
        bottom=BELOW / height,
        top=1 - NAME / height,
        wspace=GAP / (WIDTH - GAP),
        hspace=NAME / (HEIGHT - NAME),
    )
    return figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).ravel().tolist()


def _usual(lines: Sequence[Line]) -> list[Line]:
    """The lines without the tenth that goes highest."""
    highest = sorted(lines, key=lambda line: line.mean.max())
    return highest[: int(np.ceil(SHOWN * len(lines)))]


def _set_panel(axes: Axes, line: Line, below: bool) -> None:
    name = wrapped(short(line.label))
    size = min(5.2, 5.2 * FITTING / max(map(len, name.split("\n"))))
    axes.set_title(name, fontsize=size, color=line.look.ink, pad=3.5)
    axes.tick_params(labelsize=5.5, length=2, pad=1.5, labelbottom=below)
    axes.locator_params(axis="y", nbins=4)
    if below and len(ticks := axes.get_xticklabels()) > 1:  # else they run into the next panel's
        ticks[0].set(ha="left")
        ticks[-1].set(ha="right")


def wrapped(name: str) -> str:
    """The name on lines of at most LETTERS letters where it has places to break."""
    lines = [""]
    for part in re.split(r"(?<=[+,(\]])", name):
        if lines[-1] and len(lines[-1] + part) > LETTERS:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)
