"""The two figures of a study, score against evaluation length and score against position, made
with matplotlib's object interface (no pyplot, no global state).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pe_jax.metric import Metric
from pe_jax.record import Curve, Result
from pe_jax.report import labels
from pe_jax.report.cells import cell, described, ordered
from pe_jax.report.dots import dots
from pe_jax.report.style import COLOURS, DASHES, STYLE, Line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

LABEL = 0.15  # inches from one label to the next
INDENT = 0.15  # inches from the axes to the labels
AXES = 2.0  # inches that the axes keep beside long labels, by a wider figure
MOST = 16  # curves in one plane


def curves(
    results: Sequence[Result], metric: str = "same_targets", width: float = 5.5
) -> Figure | None:
    """A metric against evaluation length: a line for each encoding, with its 95 % band over seeds.

    `width` is in inches: 5.5 is the text width of most single-column papers. Where an encoding has
    no value at the longest length, its label says where it ends. More than 16 encodings are drawn
    as a row of dots each (`dots`). None when no value was computed.
    """
    lengths = sorted({row.length for r in results for row in r.rows if row.metric == metric})
    points = []
    for result in results:
        cells = [(length, cell(result, metric, length)) for length in lengths]
        points.append([(length, c.mean, c.half) for length, c in cells if c.n])
    shown = described(metric)
    name = f"{shown.unit}, {shown.words}"
    lines = _lines(results, points)
    trained = {result.train.length for result in results}
    if len(lines) > MOST:
        return dots(lines, trained, name, width, shown.sign)
    axes_labels = ("evaluation length (tokens)", name)
    return _draw(lines, trained, lengths, axes_labels, width, marker="o")


def positions(results: Sequence[Result], width: float = 5.5) -> Figure | None:
    """A metric against the position in a window of the longest length, mean over seeds: the first
    metric that the models as trained have curves of.

    Encodings without a curve at that length are left out, and of more than 16 all but the 16 that
    end best. `width` is in inches. None when no result has a curve.
    """
    metric = position_metric(results)
    if metric is None:
        return None
    trained = [
        [c for c in result.curves if c.metric == metric.name and not c.swap] for result in results
    ]
    longest = max((curve.length for curves in trained for curve in curves), default=1)
    points = [_mean_curve([c for c in curves if c.length == longest]) for curves in trained]
    ticks = [4**power for power in range(int(np.log2(longest)) // 2 + 1)]
    drawn = [i for i, line in enumerate(points) if line]
    best = sorted(sorted(drawn, key=lambda i: metric.sign * points[i][-1][1])[:MOST])
    lines = _lines([results[i] for i in best], [points[i] for i in best])
    which = f"; the {MOST} that end {metric.best} of {len(drawn)}" if len(drawn) > MOST else ""
    axes_labels = (f"position in a window of {longest} tokens{which}", metric.unit)
    return _draw(lines, {result.train.length for result in results}, ticks, axes_labels, width)


def position_metric(results: Sequence[Result]) -> Metric | None:
    """The metric that `positions` draws; None when no model as trained has a curve."""
    present = ordered(c.metric for result in results for c in result.curves if not c.swap)
    return described(present[0]) if present else None


def _mean_curve(curves: Sequence[Curve]) -> list[tuple[float, float, float]]:
    """(position, mean over seeds, 0 for the half width, which is not drawn) of the bins that have a
    value.
    """
    if not curves:
        return []
    mean = np.ma.masked_invalid([np.array(curve.value, float) for curve in curves]).mean(axis=0)
    pairs = zip(curves[0].position, mean.filled(np.nan).tolist(), strict=True)
    return [(float(x), y, 0.0) for x, y in pairs if not math.isnan(y)]


def _lines(results: Sequence[Result], points: Sequence[list]) -> list[Line]:
    """A line for each result that has points (x, mean, half); its place decides its colour."""
    names = labels.names(results)
    lines = []
    for i, (result, own) in enumerate(zip(results, points, strict=True)):
        if own:
            x, mean, half = np.array(own, float).T
            style = COLOURS[i % len(COLOURS)], DASHES[i // len(COLOURS) % len(DASHES)]
            lines.append(Line(names[result.id], x, mean, half, *style))
    return lines


def _draw(
    lines: Sequence[Line],
    trained: set[int],
    ticks: Sequence[int],
    axes_labels: tuple[str, str],
    width: float,
    marker: str = "",
) -> Figure | None:
    """The lines in one plane, with ticks at these lengths or positions, the lengths `trained` at
    marked, and (x, y) labels of the axes; None without lines.
    """
    import matplotlib
    from matplotlib.figure import Figure

    if not lines:
        return None
    with matplotlib.rc_context(STYLE):
        height = max(0.58 * width, 0.8 + LABEL * len(lines))
        figure = Figure((width, height))
        axes = figure.add_subplot()
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, [f"{tick}" for tick in ticks])
        axes.set_xticks([], minor=True)
        axes.set(xlabel=axes_labels[0], ylabel=axes_labels[1])
        for line in lines:
            axes.plot(line.x, line.mean, color=line.colour, linestyle=line.dash, marker=marker)
        # The means set the scale: an interval of two seeds may be huge.
        axes.set(xlim=axes.get_xlim(), ylim=axes.get_ylim())
        for line in lines:
            low, high = line.mean - line.half, line.mean + line.half
            axes.fill_between(line.x, low, high, color=line.colour, alpha=0.15, linewidth=0)
        for length in trained:
            _mark_training(axes, length)
        _label_ends(figure, axes, lines)
    return figure


def _mark_training(axes: Axes, length: int) -> None:
    axes.axvline(length, color="#808080", linewidth=0.6, zorder=0)
    axes.annotate(
        f"trained at {length}",
        (length, 1),
        xycoords=("data", "axes fraction"),
        xytext=(0, 2),
        textcoords="offset points",
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
    ends = axes.transData.transform([(line.x[-1], line.mean[-1]) for line in order])
    wanted = axes.transAxes.inverted().transform(ends)[:, 1]
    box = axes.get_window_extent()
    steps = LABEL * figure.dpi / box.height * np.arange(len(order))
    placed = np.clip(isotonic_regression(wanted - steps).x, 0, max(0, 1 - steps[-1])) + steps
    for label, height in zip(labels, placed, strict=True):
        label.set_position((1 + INDENT * figure.dpi / box.width, height))
    figure.patch.set_in_layout(True)  # a tight box, such as Jupyter's, is the whole figure


def _label(axes: Axes, line: Line, right: float) -> Text:
    """A line's name, with a stroke from the line's end when that is at the right of the axes."""
    from matplotlib.colors import to_rgb

    reaches = line.x[-1] == right
    stroke = dict(arrowstyle="-", color=line.colour, linewidth=0.6, relpos=(0, 0.5), patchA=None)
    label = axes.annotate(
        line.label + ("" if reaches else f" (to {line.x[-1]:g})"),
        (line.x[-1], line.mean[-1]),
        xytext=(1, 0),
        textcoords="axes fraction",
        va="center",
        color=[0.75 * channel for channel in to_rgb(line.colour)],
        annotation_clip=False,
        arrowprops=stroke if reaches else None,
    )
    label.set_in_layout(False)
    return label
