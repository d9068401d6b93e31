"""The figures of a study's evaluation: score against evaluation length and against position, and a
row of dots for each of many encodings.

All figures are made with matplotlib's object interface (no pyplot, no global state).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pe_jax.metric import Metric
from pe_jax.record import AS_TRAINED, Curve, Replica, Result
from pe_jax.report import labels, panels, plane, reference_rows, stats
from pe_jax.report.baseline import chosen
from pe_jax.report.cells import cell, curve_metric, described, of_samples
from pe_jax.report.plane import CUT, Plane
from pe_jax.report.style import STYLE, Line, looks
from pe_jax.report.words import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 16  # curves in one plane
NOISY = 8  # curves in one plane that cross each other at many points


def curves(
    results: Sequence[Result], metric: str = "same_targets", width: float = 5.5
) -> Figure | None:
    """A metric against evaluation length: a line for each encoding, with its 95 % band over seeds;
    of a single model, a line for each way in which it was evaluated, as it is and with each swap.
    Scores at places of a text are drawn minus the model's value at the training length, paired over
    places, since the places differ by more than the ways do.

    `width` is in inches: 5.5 is the text width of most single-column papers. Where an encoding has
    no value at the longest length, its label says where it ends. Methods without a model have grey
    lines. More than 16 encodings are drawn as a row of dots each (`dots`), without these. None when
    no value was computed.
    """
    without_model = reference_rows.task_lines(results, metric)
    paired = is_paired(results, metric)
    if paired:
        results = [_minus_training_length(result, metric) for result in results]
    results = _ways(results[0]) if len(results) == 1 else results
    lengths = sorted({row.length for r in results for row in r.rows if row.metric == metric})
    points = []
    for result in results:
        cells = [(length, cell(result, metric, length)) for length in lengths]
        points.append([(length, c.mean, c.half) for length, c in cells if c.n])
    shown = described(metric)
    name, samples = shown.measured, of_samples(metric)
    drawn = lines(results, points)
    if "%" in shown.unit and not paired:
        drawn = [replace(line, bounds=(0.0, 100.0)) for line in drawn]
    trained = sorted({result.train.length for result in results})
    doubled = plane.doublings(trained[0], lengths[0], lengths[-1])
    if len(drawn) > MOST:
        return dots(drawn, trained, f"{name}  ({shown.better} is better)", width, shown.sign)
    minus = f",\nminus those at {trained[0]}" if paired else ""
    axes = Plane(
        x="evaluation length" if samples else "evaluation length (tokens)",
        y=f"{name}{minus}\n{better(shown)}",
        unit="{}" if samples else "{} tokens",
        ticks=doubled if samples and len(doubled) > 2 else lengths,
        trained=trained,
        markers=True,
    )
    return plane.draw(drawn + without_model if drawn else [], axes, width)


def is_paired(results: Sequence[Result], metric: str) -> bool:
    """Whether `curves` draws differences: of scores at places of a text."""
    return any(replica.kind == "place" for replica in results[0].replicas(metric))


def _minus_training_length(result: Result, metric: str) -> Result:
    """The result with each value minus the value of the model as it is at the training length and
    the same place.
    """
    length = result.train.length
    scored = [(r, r.value) for r in result.rows if r.metric == metric and r.value is not None]
    before = {row.replica: value for row, value in scored if row.length == length and not row.way}
    rows = [
        replace(row, value=value - before[row.replica])
        for row, value in scored
        if row.replica in before
    ]
    return replace(result, rows=tuple(rows))


def _ways(result: Result) -> list[Result]:
    """A result for each way in which the model was evaluated, as if it were a model of its own."""
    found = []
    for way in dict.fromkeys(row.way for row in result.rows):
        rows = tuple(replace(row, way=AS_TRAINED) for row in result.rows if row.way == way)
        alone = replace(result, rows=rows)
        if way:
            config = result.config | {"pe": {"spec": str(way)}}
            label = labels.in_way("", way, result.train)
            alone = replace(alone, id=f"{result.id} {way}", label=label, config=config)
        found.append(alone)
    return found


def positions(
    results: Sequence[Result], width: float = 5.5, baseline: str | None = None
) -> Figure | None:
    """The difference to a baseline against the position in a window of the longest length, paired
    over seeds, with 95 % bands: what is hard in the text is hard for both, and cancels.

    The metric is `position_metric`. `baseline` is a label; `against` says which model is compared
    with where it is None or has no such curve. Encodings without a curve at that length, or scored
    on another text than the baseline, are left out. More than 8 have a panel each, the best at the
    end first. `width` is in inches. None without curves to compare.
    """
    metric = position_metric(results)
    base = against(results, baseline)
    if metric is None or base is None:
        return None
    longest = _longest(results, metric)
    points = [_differences(result, base, metric, longest) for result in results]
    drawn = lines(results, points)
    if len(drawn) < 2:
        return None
    name = labels.short(results)[base.id]
    axes = Plane(
        x=f"position in a window of {longest} tokens",
        y=f"{metric.unit}, minus those of {name}\n{better(metric)}",
        unit="{} tokens",
        ticks=[4**power for power in range(int(np.log2(longest)) // 2 + 1)],
        trained=sorted({result.train.length for result in results}),
        zero=True,
    )
    if len(drawn) <= NOISY:
        return plane.draw(drawn, axes, width)
    others = [line for line in drawn if line.label != name]
    others.sort(key=lambda line: (-line.x[-1], metric.sign * line.mean[-1]))
    return panels.draw(others, axes, width)


def position_metric(results: Sequence[Result]) -> Metric | None:
    """The metric of text that `positions` draws: the first that models as trained have curves of;
    None without any.
    """
    name = curve_metric(results, samples=False)
    return described(name) if name else None


def against(results: Sequence[Result], baseline: str | None = None) -> Result | None:
    """The result that `positions` compares with, among those with a curve of the longest windows:
    the one called `baseline`, else the best at the end of the window, since minus a model that
    fails beyond the training length all lines would bend. None without curves.
    """
    metric = position_metric(results)
    if metric is None:
        return None
    called, longest = labels.names(results), _longest(results, metric)
    present = [result for result in results if _curves(result, metric, longest)]
    if named := chosen(present, called, baseline) if baseline else None:
        return named
    return min(
        present, key=lambda result: metric.sign * _at_end(result, metric, longest), default=None
    )


def _at_end(result: Result, metric: Metric, length: int) -> float:
    """The mean over seeds at the last position of windows of this length; the worst value where
    no seed has one.
    """
    by_position = _by_position(_curves(result, metric, length))
    if not by_position:
        return metric.sign * math.inf
    return stats.interval([*by_position[max(by_position)].values()]).mean


def lines(results: Sequence[Result], points: Sequence[Sequence[tuple]]) -> list[Line]:
    """A line for each result that has points (x, mean, half)."""
    names, look = labels.short(results), looks(results)
    return [
        Line.through(own, names[result.id], look[result.id])
        for result, own in zip(results, points, strict=True)
        if own
    ]


def better(metric: Metric) -> str:
    """What an axis of the metric says below its name."""
    return f"({metric.better} is better)"


def _longest(results: Sequence[Result], metric: Metric) -> int:
    mine = [c for result in results for c in result.curves if c.metric == metric.name]
    return max(curve.length for curve in mine if not curve.way)


def _curves(result: Result, metric: Metric, length: int) -> list[Curve]:
    wanted = (metric.name, AS_TRAINED, length)
    return [c for c in result.curves if (c.metric, c.way, c.length) == wanted]


def _differences(
    result: Result, base: Result, metric: Metric, length: int
) -> list[tuple[float, float, float]]:
    """(position, mean, half) of the result's values minus the baseline's, paired over seeds, at the
    positions that both have; none where they were scored on different texts.
    """
    if (_text(result), result.tokenizer) != (_text(base), base.tokenizer):
        return []
    own, other = (_by_position(_curves(r, metric, length)) for r in (result, base))
    shared = sorted(own.keys() & other.keys())
    found = ((position, stats.paired(own[position], other[position])) for position in shared)
    return [(position, change.mean, change.half) for position, change in found if change.n]


def _text(result: Result) -> str:
    return (result.scored or result.corpus).hash


def _by_position(curves: Sequence[Curve]) -> dict[float, dict[Replica, float]]:
    """The values by position and replica."""
    found: dict[float, dict[Replica, float]] = {}
    for curve in curves:
        for position, value in zip(curve.position, curve.value, strict=True):
            if value is not None and math.isfinite(value):
                found.setdefault(position, {})[curve.replica] = value
    return found


ROW = 0.145  # inches
NARROW = 0.1  # of the width of the axis: the first rows, if they end before it, get an inset
INSET = 0.42  # where on the width the inset begins
DARK, LIGHT = np.array([0.03, 0.19, 0.42]), np.array([0.68, 0.82, 0.93])
TINY = 1e-9  # where an interval that reaches 0 ends on a logarithmic axis
RING = "#d55e00"  # around the dots of a training length


def dots(
    lines: Sequence[Line], trained: Sequence[int], name: str, width: float, sign: int
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
        _enlarge(axes, rows, trained, colours)
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


def _enlarge(axes: Axes, rows: Sequence[Line], trained: Sequence[int], colours: dict) -> None:
    """An inset beside the first rows, on an axis of their own, where six or more of them lie within
    a tenth of the width: there the dots of a row cover one another.
    """
    low, high = axes.get_xlim()
    scale = np.log if axes.get_xscale() == "log" else np.asarray

    def share(x: float) -> float:
        return float((scale(x) - scale(low)) / (scale(high) - scale(low)))

    ends = [share(max(row.mean.max(), row.high[-1])) for row in rows]
    count = next((i for i, end in enumerate(ends) if end > NARROW), len(rows))
    if count < 6 or max(ends[count : count + 3], default=0) > INSET:
        return
    bottom, top = axes.get_ylim()
    height = (count + 0.2) / (bottom - top)
    inset = axes.inset_axes((INSET, 1 - height, 1 - INSET, height))
    _draw_rows(inset, rows[:count], trained, colours, logarithmic=False)
    inset.set(ylim=(top + count + 0.2, top), yticks=range(count))
    inset.tick_params(axis="y", length=0, labelleft=False)
    inset.grid(color="#ececec", linewidth=0.6)
    inset.set_axisbelow(True)
    inset.spines[:].set(visible=True, color="#b0b0b0", linewidth=0.6)
    axes.hlines(
        range(count), ends[:count], INSET, "#ececec", lw=0.6, transform=axes.get_yaxis_transform()
    )


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
