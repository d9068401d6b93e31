"""The figures of a study: scores against evaluation length and against position, a row of dots for
each of many encodings, training, heat maps of length and depth, a panel for each of several tasks,
bars of the swaps of one model.

All figures are made with matplotlib's object interface (no pyplot, no global state).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pe_jax.metric import Metric
from pe_jax.record import AS_TRAINED, Curve, Progress, Replica, Result, Way
from pe_jax.report import cells, labels, plane, reference_rows, stats
from pe_jax.report.baseline import chosen
from pe_jax.report.cells import Table, cell, curve_metric, described, in_percent, of_samples
from pe_jax.report.groups import draws
from pe_jax.report.overview import Overview, called
from pe_jax.report.plane import CUT, Plane
from pe_jax.report.style import STYLE, Line, Look, looks
from pe_jax.report.words import plusminus, short

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
    return plane.draw_panels(others, axes, width)


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


DOTS_ROW = 0.145  # inches
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
        figure = Figure((width, 0.75 + DOTS_ROW * len(rows)), layout="constrained")
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


# Training: validation while training, and against the learning rate


UNIFORM = 8.0  # bits per byte of a model that knows nothing: what is worse has diverged


def validation(results: Sequence[Result]) -> str:
    """What was scored while training: "validation bits per byte", of tasks that draw their samples
    "validation bits per token".
    """
    return f"validation bits per {'token' if draws(results[0]) else 'byte'}"


def training(results: Sequence[Result], width: float = 5.5) -> Figure | None:
    """Validation bits at the training length against steps: means over the seeds that have a
    finite value, with 95 % bands; a cross where a seed has none from there on.

    Of text a logarithmic axis that ends at 8 bits, where a model that knows nothing stands; of
    tasks, whose bits may come near 0, a linear one. More than 8 encodings have a panel each.
    `width` is in inches. None where no result has values of several steps, and for more than 16
    encodings, whose panels would be alike.
    """
    called, look = labels.short(results), looks(results)
    lines = []
    for result in results:
        by_step = _by_step(result.train.progress)
        points = [(step, stats.interval(list(own.values()))) for step, own in by_step.items()]
        points = [(step, i.mean, i.half) for step, i in points if i.n]
        if len(by_step) > 1 and points:
            broken = tuple(filter(None, map(_broken, result.train.progress)))
            line = Line.through(points, called[result.id], look[result.id])
            lines.append(replace(line, broken=broken))
    if len(lines) > MOST:
        return None
    axes = Plane(
        x="training step",
        y=f"{validation(results)}\n(lower is better)",
        unit="step {}",
        base=0,
        top=UNIFORM,
        log_y=not draws(results[0]),
    )
    return _drawn(lines, axes, width, NOISY)


def rates(results: Sequence[Result], metric: str, width: float = 5.5) -> Figure | None:
    """Bits per byte at the training length against the learning rate: means over seeds with 95 %
    bands; a rate at which a seed diverged has no value.

    Of the results that have tried several rates, by validation text, with a ring around the rate
    that was chosen; where none has, of those that differ in their rate alone, by `metric`. More
    than 16 encodings have a panel each. `width` is in inches. None without such results.
    """
    tried = any(result.rates for result in results)
    shown = described(metric)
    lines = list(_tried(results) if tried else _alone(results, metric))
    axes = Plane(
        x="learning rate",
        y=f"{validation(results)}\n(lower is better)"
        if tried
        else f"{shown.measured}\n{better(shown)}",
        unit="rate {}",
        ticks=sorted({float(x) for line in lines for x in line.x}),
        base=10,
        markers=True,
        top=UNIFORM if tried else None,
        log_y=tried and not draws(results[0]),
    )
    return _drawn(lines, axes, width, MOST)


def _tried(results: Sequence[Result]) -> Iterator[Line]:
    called, look = labels.short(results), looks(results)
    for result in results:
        points = [
            (one.rate, *stats.interval(list(_finite(one.valid).values()))[:2])
            for one in sorted(result.rates, key=lambda one: one.rate)
            if math.isfinite(one.mean)
        ]
        if points:
            best = min(result.rates, key=lambda one: one.mean)
            line = Line.through(points, called[result.id], look[result.id])
            yield replace(line, ringed=(best.rate, best.mean))


def _alone(results: Sequence[Result], metric: str) -> Iterator[Line]:
    """A line for each label whose results differ in `train.rate` and in nothing else."""
    by_rest: dict[str, dict[float, Result]] = {}
    for result in results:
        rest = labels.settings(result.config)
        rate = rest.pop("train.rate", None)
        if rate is not None:
            by_rest.setdefault(f"{result.label} {sorted(rest.items())}", {})[rate] = result
    firsts = [next(iter(by_rate.values())) for by_rate in by_rest.values()]
    look = looks(firsts)
    for by_rate, first in zip(by_rest.values(), firsts, strict=True):
        cells = {rate: cell(by_rate[rate], metric, first.train.length) for rate in sorted(by_rate)}
        points = [(rate, c.mean, c.half) for rate, c in cells.items() if not c.reason]
        if len(points) > 1:
            yield Line.through(points, labels.on_one_line(first.label), look[first.id])


def _drawn(lines: Sequence[Line], axes: Plane, width: float, most: int) -> Figure | None:
    if len(lines) > most:
        return plane.draw_panels(sorted(lines, key=lambda line: line.mean.min()), axes, width)
    return plane.draw(lines, axes, width)


def _by_step(progress: Sequence[Progress]) -> dict[int, dict[int, float]]:
    """The finite values by step and seed."""
    found: dict[int, dict[int, float]] = {}
    for one in progress:
        for step, value in zip(one.step, one.valid, strict=True):
            found.setdefault(step, {}).update(_finite({one.seed: value}))
    return dict(sorted(found.items()))


def _broken(progress: Progress) -> tuple[float, float] | None:
    """(step, value) of the last finite value of a seed that does not end with one."""
    known = [
        (float(step), value)
        for step, value in zip(progress.step, progress.valid, strict=True)
        if value is not None and math.isfinite(value)
    ]
    ends = known and known[-1][0] == progress.step[-1]
    return None if ends or not known else known[-1]


def _finite(valid: Mapping[int, float | None]) -> dict[int, float]:
    return {k: v for k, v in valid.items() if v is not None and math.isfinite(v)}


# Heat maps: how often a model is right at each length and depth, or what it scores by the first
# metric that is drawn by depth, a panel for each encoding


HEAT_COLUMNS = 4
HEAT_HEIGHT = 1.15  # inches of a panel with its name
FEW, MANY = 6, 14  # how many lengths have room below a panel: level, and turned upright
TRAINED, CMAP = "#d55e00", "viridis"

Grid = dict[int, tuple[np.ndarray, np.ndarray]]
"""By length, the edges of the bins of depth and the mean over replicas in each; NaN: no value."""


def heat(results: Sequence[Result], width: float) -> Figure | None:
    """The curves of samples of the models as trained, and of a single model with each swap, too: a
    column for each length, depth downwards, and the mean over replicas as colour. Cells without a
    value are hatched, and an upright line stands after the lengths of training.

    `width` is in inches. None where no result has such curves.
    """
    import matplotlib
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

    metric = curve_metric(results, samples=True) or ""
    grids = _grids(results, metric)
    if not grids:
        return None
    lengths = sorted({length for grid in grids.values() for length in grid})
    means = np.concatenate([means for grid in grids.values() for _, means in grid.values()])
    ends = (0, 100) if in_percent(metric) else (0, float(np.nanmax(means)))
    cmap = CMAP if described(metric).better == "higher" else f"{CMAP}_r"  # bright: found
    columns = min(HEAT_COLUMNS, len(grids))
    rows = math.ceil(len(grids) / columns)
    with matplotlib.rc_context(STYLE):
        width = width if columns > 2 else width * (0.28 + 0.25 * columns)
        figure = Figure((width, HEAT_HEIGHT * rows + 0.4), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        for i, (axes, (name, own)) in enumerate(zip(grid.ravel(), grids.items(), strict=False)):
            _heat_panel(axes, own, lengths, ends, cmap)
            axes.tick_params(labelbottom=i + columns >= len(grids))  # no panel stands below it
            _mark_training(axes, lengths, results[0].train.length)
            axes.set_title(plane.wrapped(short(name)), fontsize=5.5, pad=3)
        for axes in grid.ravel()[len(grids) :]:
            axes.set_visible(False)
        colours = ScalarMappable(Normalize(*ends), cmap)
        bar = figure.colorbar(colours, ax=grid, shrink=0.9, aspect=25 * rows / 2, pad=0.015)
        bar.set_label("right (in %)" if in_percent(metric) else described(metric).unit)
        bar.outline.set_linewidth(0.6)
        bar.ax.tick_params(labelsize=6.5, length=2)
        figure.supxlabel("evaluation length", fontsize=8)
        figure.supylabel("depth (in %)", fontsize=8)
    return figure


def _grids(results: Sequence[Result], metric: str) -> dict[str, Grid]:
    """The grid of each panel by its name, which of a single model's swap is the swap."""
    names, found = labels.names(results), {}
    for result in results:
        by_sample = any(replica.kind == "sample" for replica in result.replicas(metric))
        ways = dict.fromkeys(curve.way for curve in result.curves if curve.metric == metric)
        for way in ways if by_sample else [AS_TRAINED]:
            if grid := _grid(result, metric, way):
                name = "" if way and len(results) == 1 else names[result.id]
                found[labels.in_way(name, way, result.train)] = grid
    return found


def _grid(result: Result, metric: str, way: Way) -> Grid:
    values: dict[int, dict[float, list[float]]] = {}
    for curve in result.curves:
        if curve.metric == metric and curve.way == way:
            own = values.setdefault(curve.length, {})
            for depth, value in zip(curve.position, curve.value, strict=True):
                kept = own.setdefault(depth, [])
                if value is not None and math.isfinite(value):
                    kept.append(value)
    return {length: _column(own) for length, own in values.items() if any(own.values())}


def _column(values: Mapping[float, Sequence[float]]) -> tuple[np.ndarray, np.ndarray]:
    depths = sorted(values)
    middles = [(a + b) / 2 for a, b in zip(depths, depths[1:], strict=False)]
    means = [np.mean(values[depth]) if values[depth] else math.nan for depth in depths]
    return 100 * np.array([0, *middles, 1]), np.array(means)


def _heat_panel(
    axes: Axes, grid: Grid, lengths: Sequence[int], ends: tuple[float, float], cmap: str
) -> None:
    from matplotlib.colors import Normalize
    from matplotlib.patches import Rectangle

    axes.add_patch(
        Rectangle(
            (0, 0),
            1,
            1,
            transform=axes.transAxes,
            facecolor="#efefef",
            edgecolor="#b0b0b0",
            hatch="/////",
            linewidth=0,
            zorder=0,
        )
    )
    for i, length in enumerate(lengths):
        if length in grid:
            edges, means = grid[length]
            cells = np.ma.masked_invalid(means[:, None])
            norm = Normalize(*ends)
            axes.pcolormesh([i - 0.5, i + 0.5], edges, cells, norm=norm, cmap=cmap, zorder=1)
    ticks = range(0, len(lengths), math.ceil(len(lengths) / MANY))
    turn = 90 if len(lengths) > FEW else 0
    axes.set_xticks(list(ticks), [f"{lengths[i]}" for i in ticks], rotation=turn)
    axes.set(xlim=(-0.5, len(lengths) - 0.5), ylim=(100, 0), yticks=[0, 50, 100])
    axes.tick_params(labelsize=5.5, length=2, pad=2)


def _mark_training(axes: Axes, lengths: Sequence[int], train: int) -> None:
    after = sum(length <= train for length in lengths)
    if 0 < after < len(lengths):
        axes.axvline(after - 0.5, color=TRAINED, linewidth=1.2, zorder=2)


# Several tasks: a panel for each


TASKS_COLUMNS = 3
TASKS_WIDTH = 5.5  # inches of the figure
LETTERS = 34  # of a name in the legend
TASKS_HEIGHT = 1.35  # inches of a panel with its name
LEGEND_ROW, HANDLE, LETTER = 0.14, 0.5, 0.058  # inches of the legend: a row, a stroke and a letter
GREY = Look("#c8c8c8", "-", "")
PERCENT = (-4.0, 104.0)
CHANCE: dict[str, Any] = dict(color="#808080", linewidth=0.8, linestyle=(0, (1, 2)), zorder=0)


def tasks(results: Sequence[Result], overview: Overview, width: float) -> Figure | None:
    """A panel for each task of the study: the means of the first metric of its table against
    length with their 95 % bands, the training length as an upright line, and as a dotted one what
    the most frequent target of each place scores; of a task whose results lack that, a token
    guessed at random.

    The first 16 encodings of the overview have lines of their own, the others grey ones. `width` is
    in inches, 5.5 at least. None without at least two tasks.
    """
    import matplotlib
    from matplotlib.figure import Figure

    shown = overview.tasks
    if len(shown) < 2:
        return None
    look = colours(results, overview)
    by_id = {result.id: result for result in results}
    width = max(width, TASKS_WIDTH)
    with matplotlib.rc_context({**STYLE, "lines.linewidth": 1.1, "lines.markersize": 2}):
        columns = 2 if len(shown) in (2, 4) else TASKS_COLUMNS
        rows = math.ceil(len(shown) / columns)
        figure = Figure((width, TASKS_HEIGHT * rows + 0.25), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False, sharey=True).ravel().tolist()
        for axes, table, name in zip(grid, shown, called(results, shown), strict=False):
            _task_panel(axes, table, name, look, by_id)
        for i, axes in enumerate(grid):
            axes.set_visible(i < len(shown))
            axes.tick_params(labelsize=6.5, length=2, pad=2)
        units = sorted({described(table.metric).unit for table in shown})
        figure.supxlabel("evaluation length", fontsize=8)
        figure.supylabel("; ".join(units), fontsize=8)
        _tasks_legend(figure, look, chance=any(table.metric == "accuracy" for table in shown))
    return figure


def colours(results: Sequence[Result], overview: Overview) -> dict[str, Look]:
    """The look of each encoding that was trained on a task, by its label, in the order of the
    overview: the look of the first of its results, and GREY after the first 16 encodings.
    """
    by_id = {result.id: result for result in results}
    runs: dict[str, Result] = {}
    for table in overview.tasks:
        for row in table.rows:
            if row.trained:
                runs.setdefault(row.label, by_id[row.run])
    found = looks(list(runs.values()))
    order = [label for label, _ in overview.rows if label in runs]
    return {label: found[runs[label].id] if i < MOST else GREY for i, label in enumerate(order)}


def _task_panel(
    axes: Axes, table: Table, name: str, look: Mapping[str, Look], by_id: Mapping[str, Result]
) -> None:
    lines, train = [], table.train_length
    for row in reversed(table.rows):  # the best are drawn last, above the others
        if row.trained:
            found = [(n, cell(by_id[row.run], table.metric, n)) for n in table.evaluated]
            points = [(n, own.mean, own.half) for n, own in found if own.n]
            if points:
                line = Line.through(points, row.label, look[row.label])
                lines.append(replace(line, bounds=(0.0, 100.0)))
    lines.sort(key=lambda line: line.look is not GREY)
    first, last = table.evaluated[0], table.evaluated[-1]
    log = last >= 4 * first
    shown = Plane(
        x="",
        y="",
        unit="{}",
        base=2 if log else 0,
        ticks=plane.doublings(train, first, last) if log else None,
        trained=[train],
    )
    plane.fill(axes, lines, shown, PERCENT)
    axes.set_title(plane.wrapped(short(name)), fontsize=7.5, pad=3)
    axes.set_yticks([0, 25, 50, 75, 100])
    own = [by_id[row.run] for row in table.rows if row.trained]
    known = [n for result in own if (n := result.train.labels)]
    by_place = reference_rows.NAMES[reference_rows.MOST_FREQUENT]
    for line in reference_rows.task_lines(own, table.metric):
        if line.label == by_place:
            axes.plot(line.x, line.mean, **CHANCE)
            return
    if table.metric == "accuracy" and known:
        axes.axhline(100 / max(known), **CHANCE)


def _tasks_legend(figure: Figure, look: Mapping[str, Look], chance: bool) -> None:
    """A legend above the panels, in as many columns as fit; the figure becomes higher by it."""
    from matplotlib.lines import Line2D

    own = {short(name, LETTERS): one for name, one in look.items() if one is not GREY}
    styles: dict[str, dict[str, Any]] = {
        name: dict(color=one.colour, linestyle=one.dash) for name, one in own.items()
    }
    if len(own) < len(look):
        styles[f"{len(look) - len(own)} others"] = dict(color=GREY.colour)
    if chance:
        styles["no model"] = CHANCE
    handles = [Line2D([], [], label=name, **style) for name, style in styles.items()]
    longest = max(map(len, styles))
    columns = max(1, int(figure.get_figwidth() / (HANDLE + LETTER * longest)))
    rows = math.ceil(len(handles) / columns)
    figure.set_figheight(figure.get_figheight() + LEGEND_ROW * rows)
    figure.legend(
        handles=handles,
        loc="outside upper center",
        ncols=columns,
        frameon=False,
        fontsize=7,
        handlelength=2.4,
        columnspacing=1.2,
        labelspacing=0.25,
    )


# Swaps of a single model that is scored at places of a text: by how much each differs from the
# model as it is at its training length, as bars, a panel for each evaluation length


BARS_ROW = 0.17  # inches
BETTER, WORSE, OPEN = "#0072b2", "#d55e00", "#9a9a9a"
BARS_FAR = 4.0
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
    order = sorted(ways, key=lambda way: _bar_rank(every[way, lengths[-1]].mean, sign))
    last = [_bar_end(every[way, lengths[-1]]) for way in ways]
    limit = _bar_limit(last, [_bar_end(one) for one in every.values()])
    with matplotlib.rc_context(STYLE):
        figure = Figure((width, 0.75 + BARS_ROW * len(order)), layout="constrained")
        panels = figure.subplots(1, len(lengths), squeeze=False, sharey=True, sharex=True)[0]
        for axes, length in zip(panels, lengths, strict=True):
            for y, way in enumerate(order):
                _bar(
                    axes, y, every[way, length], limit, sign, f"{_bar_name(result, way)}\n{length}"
                )
            trained = " (trained)" if length == result.train.length else ""
            axes.set_title(f"{length} tokens{trained}", fontsize=7)
            axes.axvline(0, color="black", linewidth=0.6)
            axes.grid(axis="x", color="#ececec", linewidth=0.6)
            axes.set_axisbelow(True)
            axes.tick_params(axis="y", length=0)
            axes.tick_params(axis="x", labelsize=6.5)
            axes.spines["left"].set_visible(False)
        names = [short(_bar_name(result, way)) for way in order]
        panels[0].set_yticks(range(len(order)), names, fontsize=7)
        panels[0].set(xlim=(-limit, limit), ylim=(len(order) - 0.4, -0.6))
        panels[0].locator_params(axis="x", nbins=4)
        unit = cells.described(metric).unit
        figure.supxlabel(f"{unit} minus those as it is at {result.train.length}", fontsize=8)
    return figure


def _bar_name(result: Result, way: Way) -> str:
    return labels.in_way("", way, result.train) if way else "as it is"


def _bar_rank(mean: float, sign: int) -> tuple[bool, float]:
    return math.isnan(mean), sign * mean


def _bar_end(one: stats.Interval) -> float:
    """How far from 0 a bar reaches with its interval; NaN without a value."""
    return abs(one.mean) + float(np.nan_to_num(one.half))


def _bar_limit(last: Sequence[float], ends: Sequence[float]) -> float:
    """Where the axes end: a little beyond the longest bar of at most BARS_FAR times the length of
    the median bar of the last panel.
    """
    known = [end for end in last if not math.isnan(end)]
    usual = [end for end in ends if known and end <= BARS_FAR * statistics.median(known)]
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
