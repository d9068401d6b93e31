"""Lines with their bands in a plane: all in one, each with its name at its end, or a panel for each
line.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pe_jax.report.style import STYLE, Line
from pe_jax.report.words import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

CUT = "cut"  # the id of the marks where a band or a line leaves the axes
LEAST_WIDTH = 5.5  # inches of a figure of panels
LETTERS = 21  # of a name on one line above a panel
GUIDE: dict[str, Any] = {"color": "#808080", "linewidth": 0.6, "zorder": 0}
"""Lines at 0 and at lengths of training."""


@dataclass(frozen=True)
class Plane:
    """The axes in which lines are drawn."""

    x: str
    """The title of the axis of x."""
    y: str
    """The title of the axis of y."""
    unit: str
    """A value of x in a text, as in "{} tokens"."""
    ticks: Sequence[int | float] | None = None
    """Ticks of x; None: matplotlib's."""
    base: int = 2
    """The base of the logarithm of x; 0: x is linear."""
    trained: Sequence[int] = ()
    """Values of x that are marked as lengths of training."""
    markers: bool = False
    top: float | None = None
    """The highest y that is shown; None: no bound."""
    log_y: bool = False
    zero: bool = False
    """Whether a line is drawn at y = 0."""


def draw(lines: Sequence[Line], plane: Plane, width: float) -> Figure | None:
    """All lines in one plane, each with its name at its end. The figure is `width` inches wide,
    wider where the names need it. None without lines.
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
        _mark_cuts(figure, axes, lines)
        _name_training(axes, plane.trained)
        _label_ends(figure, axes, lines)
        _thin_labels(axes)
    return figure


def draw_panels(lines: Sequence[Line], plane: Plane, width: float) -> Figure:
    """A panel for each line, in the order of the lines, and the same axes in all.

    The means of the tenth of the lines that goes highest do not set the ends of y, so that one
    encoding that fails does not flatten the others; where a line leaves the axes it is marked.
    `width` is in inches, LEAST_WIDTH at least.
    """
    import matplotlib
    from matplotlib.figure import Figure

    width = max(width, LEAST_WIDTH)
    columns = int((width - LEFT) / WIDTH)
    rows = math.ceil(len(lines) / columns)
    usual = sorted(lines, key=lambda line: line.mean.max())[: math.ceil(0.9 * len(lines))]
    with matplotlib.rc_context({**STYLE, "lines.linewidth": 1.0, "lines.markersize": 2}):
        names = [wrapped(short(line.label)) for line in lines]
        above = FIRST_LINE + LINE * max(name.count("\n") for name in names)
        figure = Figure((width, BELOW + (HEIGHT + above) * rows))
        panels = _panel_axes(figure, rows, columns, above)
        ends = limits(usual, plane)
        for i, (axes, line) in enumerate(zip(panels, lines, strict=False)):
            fill(axes, [line], plane, ends)
            _mark_cuts(figure, axes, [line])
            _name_panel(axes, names[i], line.look.ink, below=i + columns >= len(lines))
        for axes in panels[len(lines) :]:
            axes.set_visible(False)
        middle = (1 + LEFT / width) / 2
        figure.supxlabel(
            plane.x, fontsize=8, x=middle, y=0.05 / figure.get_figheight(), va="bottom"
        )
        title = figure.supylabel(plane.y, fontsize=8, x=0.05 / width, ha="left", ma="center")
        fitting = figure.bbox.height / title.get_window_extent().height
        title.set_fontsize(8 * min(1, 0.9 * fitting))  # letters do not shrink evenly
    return figure


def limits(lines: Sequence[Line], plane: Plane) -> tuple[float, float]:
    """Both ends of y: the ends of the bands, at most half of the range of the means beyond this
    range, since an interval of two seeds may be huge.
    """
    low, high = min(line.mean.min() for line in lines), max(line.mean.max() for line in lines)
    if not plane.log_y:
        beyond = (high - low) / 2
        low = max(low - beyond, min(line.low.min() for line in lines))
        high = min(high + beyond, max(line.high.max() for line in lines))
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
    for line in lines:
        colour = line.look.colour
        axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.15, linewidth=0)
    for length in plane.trained:
        axes.axvline(length, **GUIDE)
    if plane.zero:
        axes.axhline(0, **GUIDE)


def is_cut(figure: Figure) -> bool:
    """Whether anything in the figure leaves its axes."""
    return any(line.get_gid() == CUT for axes in figure.axes for line in axes.lines)


def doublings(length: int, low: float, high: float) -> list[float]:
    """The length, its doubles and its halves from `low` to `high`."""
    powers = range(-math.ceil(math.log2(length)), math.ceil(math.log2(max(high / length, 1))) + 1)
    return [tick for power in powers if low <= (tick := length * 2.0**power) <= high]


def wrapped(name: str) -> str:
    """The name on lines of at most LETTERS letters where it has places to break."""
    lines = [""]
    for part in re.split(r"(?<=[+(\]])|(?<=,)(?!\d)", name):
        if lines[-1] and len(lines[-1] + part) > LETTERS:
            lines.append("")
        lines[-1] += part if lines[-1] else part.lstrip()
    return "\n".join(lines)


def name_to_end(line: Line, longest: float) -> str:
    """A line's name for a figure, with where it ends if that is before the `longest` x."""
    return short(line.label) + ("" if line.x[-1] == longest else f" (to {line.x[-1]:g})")


def align_ends(axes: Axes) -> None:
    """Keeps labels of x near an end of the axes within them, off those of the next panel."""
    for tick, label in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True):
        along, _ = (axes.transData - axes.transAxes).transform((tick, 0))
        if not 0.1 <= along <= 0.9:
            label.set(ha="left" if along < 0.5 else "right")


# Scales of the axes, and marks where a line leaves them


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


def _mark_cuts(figure: Figure, axes: Axes, lines: Sequence[Line]) -> None:
    """An arrow head at the frame, in a line's colour, for each stretch of points where the line or
    its band leaves the axes, at the point that is farthest out.
    """
    from matplotlib.markers import CARETDOWNBASE, CARETUPBASE
    from matplotlib.transforms import ScaledTranslation

    low, high = axes.get_ylim()
    marked: Counter[tuple[float, int]] = Counter()
    for line in lines:
        outside = ((1, CARETUPBASE, line.high - high), (0, CARETDOWNBASE, low - line.low))
        for end, marker, beyond in outside:
            for i in _farthest(beyond):
                step = 5 * marked[line.x[i], end] / 72  # inches: no two marks of a point overlap
                marked[line.x[i], end] += 1
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


def _thin_labels(axes: Axes) -> None:
    """Keeps every second, third ... label of x, the last one among them, so that none touch."""
    labels = axes.get_xticklabels()[::-1]
    boxes = [label.get_window_extent() for label in labels]

    def apart(step: int) -> bool:
        pairs = itertools.pairwise(boxes[::step])
        return all(left.x1 + left.height / 2 < right.x0 for right, left in pairs)

    step = next(step for step in itertools.count(1) if apart(step))
    for i, label in enumerate(labels):
        label.set_visible(i % step == 0)


# Names at the ends of the lines


LABEL = 0.15  # inches from one label to the next
INDENT = 0.15  # inches from the axes to the labels
AXES = 2.0  # least inches of the axes: long labels make the figure wider


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


# Panels


WIDTH, HEIGHT = 0.81, 0.56  # inches of a panel, with the gap right of it and without its name
GAP = 0.08  # inches between two panels
FIRST_LINE, LINE = 0.15, 0.09  # inches of a name on one line, and of each further line
LEFT, BELOW = 0.6, 0.42  # inches of the labels of the axes with their ticks
FITTING = 18  # letters of a line of a name that fit in the usual size


def _panel_axes(figure: Figure, rows: int, columns: int, above: float) -> list[Axes]:
    """Axes that share both scales, with room for ticks and labels and, for names, the inches
    `above` each.
    """
    width, height = figure.get_size_inches()
    figure.subplots_adjust(
        left=LEFT / width,
        right=1 - 0.08 / width,
        bottom=BELOW / height,
        top=1 - above / height,
        wspace=GAP / (WIDTH - GAP),
        hspace=above / HEIGHT,
    )
    return figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).ravel().tolist()


def _name_panel(axes: Axes, name: str, ink: str, below: bool) -> None:
    """A panel's name and the sizes of its ticks. The ticks of x have labels if it is the lowest of
    its column, `below`.
    """
    size = min(5.2, 5.2 * FITTING / max(map(len, name.split("\n"))))
    axes.set_title(name, fontsize=size, color=ink, pad=3.5)
    axes.tick_params(labelsize=5.5, length=2, pad=1.5, labelbottom=below)
    axes.locator_params(axis="y", nbins=4)
    if below:
        align_ends(axes)
        _thin_labels(axes)
