"""The figures of a study: a metric against evaluation length, the swaps of a single model, a metric
against position, heat maps of depth, training, learning rates, several tasks.

All figures are made with matplotlib's object interface (no pyplot, no global state).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pe_jax.metric import Metric, SampleMetric
from pe_jax.record import AS_TRAINED, Progress, Result, Way
from pe_jax.report import labels, plane, stats
from pe_jax.report.groups import draws
from pe_jax.report.overview import Overview
from pe_jax.report.plane import Plane
from pe_jax.report.study import HEADROOM, Binned, Cell, Group, Study
from pe_jax.report.style import Line, Look, looks
from pe_jax.report.table import MOST_FREQUENT, NAMES, TRAINED_AT, Table, in_percent
from pe_jax.report.words import plusminus, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure

MOST = 16  # curves in one plane
NOISY = 8  # curves in one plane that cross each other at many points
TRAINED = "#d55e00"  # the colour of what marks a training length
DASHES = {MOST_FREQUENT: ":", "most frequent symbol": (0, (1, 3)), "bayes": "--"}
NO_BOUNDS = (-math.inf, math.inf)
PERCENT = (0.0, 100.0)


# A metric against evaluation length


def curves(
    study: Study,
    runs: Sequence[Result],
    metric: Metric,
    width: float = 5.5,
    references: Sequence[Line] = (),
) -> Figure | None:
    """A metric against evaluation length: a line for each encoding, with its 95 % band over seeds;
    of a single model, a line for each way in which it was evaluated, as it is and with each swap.
    Scores at places of a text are drawn minus the model's value at the training length, paired over
    places, since the places differ by more than the ways do.

    `width` is in inches: 5.5 is the text width of most single-column papers. Where an encoding has
    no value at the longest length, its label says where it ends. The lines `references`
    (`oracle_lines`, `method_lines`) are grey. More than 16 encodings are drawn as a row of dots
    each (`_dots`), without these. None when no value was computed.
    """
    paired = is_paired(study, runs, metric)
    evaluated = [
        study.evaluated[key] for r in runs if (key := (r.id, metric.name)) in study.evaluated
    ]
    lengths = sorted({length for one in evaluated for length in one.lengths})
    models = [(run, run.id, AS_TRAINED) for run in runs]
    if len(runs) == 1 and evaluated:
        models = [(_as_model(run, way), run.id, way) for run in runs for way in evaluated[0].ways]
    points = []
    for run, id, way in models:
        minus = study.scores[id, AS_TRAINED, metric.name, run.train.length].values
        found = []
        for n in lengths:
            values = study.scores[id, way, metric.name, n].values
            interval = stats.interval([*values.values()])
            found.append((n, stats.paired(values, minus) if paired else interval))
        points.append(_points(found))
    if not any(points):
        return None
    name, samples = metric.measured, isinstance(metric, SampleMetric)
    share = in_percent(metric) and metric != HEADROOM and not paired
    bounds = PERCENT if share else NO_BOUNDS
    drawn = [*lines([run for run, _, _ in models], points, bounds).values()]
    trained = sorted({run.train.length for run in runs})
    doubled = plane.doublings(trained[0], lengths[0], lengths[-1])
    minus = f",\nminus those at {trained[0]}" if paired else ""
    axes = Plane(
        x="evaluation length" if samples else "evaluation length (tokens)",
        y=f"{name}{minus}\n{_better(metric)}",
        unit="{}" if samples else "{} tokens",
        ticks=doubled if samples and len(doubled) > 2 else lengths,
        trained=trained,
        markers=True,
    )
    if len(drawn) > MOST:
        return _dots(drawn, axes, f"{name}  {_better(metric)}", width, metric.sign)
    return plane.draw([*drawn, *references], axes, width)


def is_paired(study: Study, runs: Sequence[Result], metric: Metric) -> bool:
    """Whether `curves` draws differences: of scores at places of a text."""
    evaluated = study.evaluated.get((runs[0].id, metric.name))
    return evaluated is not None and evaluated.replicas[0].kind == "place"


def _as_model(result: Result, way: Way) -> Result:
    # The facts that label and colour a line, as if the way were a model of its own.
    label = labels.in_way("", way, result.train) or result.label
    spec = {"pe": {"spec": str(way)}} if way else {}
    return replace(
        result, id=f"{result.id} {way}".strip(), label=label, config=result.config | spec
    )


def oracle_lines(table: Table) -> list[Line]:
    """A grey line for each row "trained at E" of the table, at the lengths that it has."""
    return [
        Line.through(
            [(n, c.mean, math.nan) for n, c in zip(table.lengths, row.cells, strict=True) if c.n],
            row.label,
            Look("#808080", ":", "D"),
        )
        for row in table.rows
        if row.method == TRAINED_AT
    ]


def method_lines(group: Group, metric: Metric) -> list[Line]:
    """A grey line for each method without a model, on the task as trained."""
    return [
        Line.through(
            [(length, value, math.nan) for length, value in sorted(values.items())],
            NAMES.get(name, name),
            Look("#808080", DASHES.get(name, "-."), ""),
        )
        for (of, way, name), values in sorted(group.methods.items(), key=lambda one: one[0][2])
        if of == metric.name and not way
    ]


def lines(
    runs: Sequence[Result],
    points: Sequence[Sequence[tuple]],
    bounds: tuple[float, float] = NO_BOUNDS,
) -> dict[str, Line]:
    """A line for each run that has points (x, mean, half), by the run's id."""
    names, look = labels.short(runs), looks(runs)
    return {
        run.id: Line.through(own, names[run.id], look[run.id], bounds)
        for run, own in zip(runs, points, strict=True)
        if own
    }


# A row of dots for each encoding, where they are more than one plane can show


DOTS_ROW = 0.145  # inches
DOT: dict[str, Any] = dict(s=13, lw=0.7, zorder=3)


def _dots(lines: Sequence[Line], shown: Plane, name: str, width: float, sign: int) -> Figure:
    """The lines as rows, the best at the longest length first, then those that end before it.

    Lower is better with sign 1, higher with -1. The darker a dot, the longer the windows; a ring
    marks a length that was trained at. A bar is the 95 % interval at a row's longest length. `name`
    labels the axis of values, which is logarithmic where all are above 0; `width` is in inches.
    """
    from matplotlib import colormaps

    lengths = sorted({int(x) for line in lines for x in line.x})
    rows = _best_first(lines, sign)
    shades = colormaps["Blues"](np.linspace(0.35, 1, len(lengths)))
    colours = dict(zip(lengths, shades, strict=True))
    rings = {n: TRAINED if n in shown.trained else "none" for n in lengths}
    means = np.concatenate([line.mean for line in rows])
    low, high = float(means.min()), float(means.max())
    room = 0.03 * (high - low) or 1.0
    ends = (low / 1.03, high * 1.03) if low > 0 else (low - room, high + room)
    with plane.panels(1, 1, width, DOTS_ROW * len(rows), 0.4) as (figure, (axes,)):
        axes.set(xlim=ends, ylim=(len(rows) - 0.5, -0.7), xlabel=name)
        if low > 0:
            axes.set_xscale("log")
            plane.number_plainly(axes.xaxis)
        for y, line in enumerate(rows):
            axes.plot([line.mean.min(), line.mean.max()], [y, y], color="#d0d0d0", lw=0.8)
            interval = np.clip([line.low[-1], line.high[-1]], *ends)
            axes.plot(interval, [y, y], color=shades[-1], lw=0.8)
            fill, edges = [colours[int(x)] for x in line.x], [rings[int(x)] for x in line.x]
            dots = axes.scatter(line.mean, [y] * len(line.x), color=fill, edgecolors=edges, **DOT)
            dots.set_label(line.said(shown.unit))
        _name_rows(axes, [plane.name_to_end(row, lengths[-1]) for row in rows])
        for tick, row in zip(axes.get_yticklabels(), rows, strict=True):
            tick.set_color(row.look.ink)
        for n, ring in rings.items():
            label = f"{n} (trained)" if n in shown.trained else f"{n}"
            axes.scatter([], [], color=[colours[n]], edgecolors=ring, label=label, **DOT)
        plane.legend(figure, axes.collections[-len(lengths) :])
    return figure


# Swaps of a single model that is scored at places of a text: by how much each differs from the
# model as it is at its training length, as bars, a panel for each evaluation length


BARS_ROW = 0.17  # inches
BETTER, WORSE, OPEN = "#0072b2", "#d55e00", "#9a9a9a"
BARS_FAR = 4.0
"""The axes end at so many times the median reach of the bars at the longest length, so that one
model that fails does not hide the others.
"""


def bars(study: Study, result: Result, metric: Metric, width: float) -> Figure | None:
    """A row for each way, the best at the longest length first: its value minus that of the model
    as it is at the training length, paired over places, with the 95 % interval. Bars whose interval
    holds 0 are grey, others blue where they are better and orange where they are worse. `width` is
    in inches. None without the training length.
    """
    train, sign = result.train.length, metric.sign
    before = study.scores[result.id, AS_TRAINED, metric.name, train].values
    _, ways, lengths = study.evaluated[result.id, metric.name]
    if not before or len(lengths) < 2:
        return None
    changes = {
        (way, n): stats.paired(study.scores[result.id, way, metric.name, n].values, before)
        for way in ways
        for n in lengths
    }
    last = {way: changes[way, lengths[-1]] for way in ways}
    order = sorted(ways, key=lambda way: (math.isnan(last[way].mean), sign * last[way].mean))
    names = [labels.in_way("", way, result.train) or "as it is" for way in order]
    reach = {key: abs(c.mean) + float(np.nan_to_num(c.half)) for key, c in changes.items() if c.n}
    most = BARS_FAR * statistics.median(
        [reach[way, lengths[-1]] for way in ways if last[way].n] or [0]
    )
    limit = 1.1 * max((far for far in reach.values() if far <= most), default=0) or 1.0
    count, height = len(lengths), BARS_ROW * len(order)
    with plane.panels(count, count, width, height, 0.6, True, True) as (figure, panels):
        for axes, length in zip(panels, lengths, strict=True):
            for y, (way, name) in enumerate(zip(order, names, strict=True)):
                _bar(axes, y, changes[way, length], limit, sign, f"{name}\n{length}")
            trained = " (trained)" if length == train else ""
            axes.set_title(f"{length} tokens{trained}")
            axes.axvline(0, color="black", linewidth=0.6)
            _name_rows(axes, list(map(short, names)))
        panels[0].set(xlim=(-limit, limit), ylim=(len(order) - 0.4, -0.6))
        panels[0].locator_params(axis="x", nbins=4)
        figure.supxlabel(f"{metric.unit} minus those as it is at {train}")
    return figure


def _bar(axes: Axes, y: int, one: stats.Interval, limit: float, sign: int, label: str) -> None:
    """A bar with its interval. `label`, the name of the row and the length on two lines, is for the
    tooltips of a page.
    """
    if not one.n:
        axes.text(0, y, " n/a", fontsize=6, va="center")
        return
    half = float(np.nan_to_num(one.half))
    settled = abs(one.mean) > one.half  # not without an interval, whose half width is NaN
    colour = (BETTER if sign * one.mean < 0 else WORSE) if settled else OPEN
    axes.barh(y, one.mean, height=0.62, color=colour, zorder=2)
    axes.plot([one.mean - half, one.mean + half], [y, y], color="black", linewidth=0.8, zorder=3)
    label += f": {plusminus(one.mean, one.half, '+')}"
    axes.scatter([np.clip(one.mean, -limit, limit)], [y], s=4, color="black", zorder=3, label=label)


# A metric against the position in a window


def positions(
    study: Study, runs: Sequence[Result], width: float = 5.5, baseline: str | None = None
) -> Figure | None:
    """The difference to a baseline against the position in a window of the longest length, paired
    over seeds, with 95 % bands: what is hard in the text is hard for both, and cancels.

    The metric is the first of text that models as trained have curves of. `baseline` is a run's id;
    `against` says which model is compared with where it is None or has no such curve. Encodings
    without a curve at that length are left out. More than 8 have a panel each, the best at the end
    first. `width` is in inches. None without curves to compare.
    """
    metric = study.curve_metric(runs, samples=False)
    base = against(study, runs, baseline)
    if metric is None or base is None:
        return None
    longest = _longest(study, runs, metric)
    of_base, *of_each = (
        study.curves.get((run.id, AS_TRAINED, metric.name, longest), {}) for run in (base, *runs)
    )
    changes = [
        _points((at, stats.paired(own[at], of_base[at])) for at in own if at in of_base)
        for own in of_each
    ]
    drawn = [*lines(runs, changes).values()]
    if len(drawn) < 2:
        return None
    name = labels.short(runs)[base.id]
    axes = Plane(
        x=f"position in a window of {longest} tokens",
        y=f"{metric.unit}, minus those of {name}\n{_better(metric)}",
        unit="{} tokens",
        ticks=[4**power for power in range(int(np.log2(longest)) // 2 + 1)],
        trained=sorted({run.train.length for run in runs}),
        zero=True,
    )
    if len(drawn) <= NOISY:
        return plane.draw(drawn, axes, width)
    others = [line for line in drawn if line.label != name]
    return plane.draw_panels(_best_first(others, metric.sign), axes, width)


def against(study: Study, runs: Sequence[Result], baseline: str | None = None) -> Result | None:
    """The run that `positions` compares with, among those with a curve of the longest windows: the
    one with the id `baseline`, else the best at the end of the window, since minus a model that
    fails beyond the training length all lines would bend. None without curves.
    """
    metric = study.curve_metric(runs, samples=False)
    if metric is None:
        return None
    name, longest = metric.name, _longest(study, runs, metric)
    ends = {
        run.id: stats.interval([*list(curve.values())[-1].values()]).mean
        for run in runs
        if (curve := study.curves.get((run.id, AS_TRAINED, name, longest)))
    }
    if baseline in ends:
        return study.runs[baseline]
    worst = metric.sign * math.inf
    means = {id: worst if math.isnan(mean) else mean for id, mean in ends.items()}
    best = min(means, key=lambda id: metric.sign * means[id], default=None)
    return study.runs[best] if best else None


def _longest(study: Study, runs: Sequence[Result], metric: Metric) -> int:
    # The longest windows of which a model as trained has a curve.
    ids = {run.id for run in runs}
    return max(
        length
        for id, way, name, length in study.curves
        if id in ids and not way and name == metric.name
    )


# Heat maps: how often a model is right at each length and depth, or what it scores by the first
# metric that has curves by depth, a panel for each encoding


HEAT_COLUMNS = 4
HEAT_HEIGHT = 1.15  # inches of a panel with its name
HATCHED: dict[str, Any] = dict(
    facecolor="#efefef", edgecolor="#b0b0b0", hatch="/////", linewidth=0, zorder=0
)

DepthGrid = dict[int, tuple[np.ndarray, np.ndarray]]
"""By length, the edges of the bins of depth and the mean over replicas in each; NaN: no value."""


def heat(study: Study, runs: Sequence[Result], width: float) -> Figure | None:
    """The curves of samples of the models as trained, and of a single model with each swap, too: a
    column for each length, depth downwards, and the mean over replicas as colour. Cells without a
    value are hatched, and an upright line stands after the lengths of training.

    `width` is in inches. None where no run has such curves.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    metric = study.curve_metric(runs, samples=True)
    grids = _depth_grids(study, runs, metric) if metric else {}
    if not metric or not grids:
        return None
    lengths = sorted({length for grid in grids.values() for length in grid})
    means = np.concatenate([means for grid in grids.values() for _, means in grid.values()])
    most = 100 if in_percent(metric) else float(np.nanmax(means))
    bright_is_high = metric.better == "higher"
    colours = ScalarMappable(Normalize(0, most), "viridis" if bright_is_high else "viridis_r")
    count, columns = len(grids), min(HEAT_COLUMNS, len(grids))
    width = width if columns > 2 else width * (0.28 + 0.25 * columns)
    with plane.panels(count, columns, width, HEAT_HEIGHT, 0.4, True, True) as (figure, panels):
        for axes, (name, grid) in zip(panels, grids.items(), strict=True):
            _heat_panel(axes, grid, lengths, runs[0].train.length, colours)
            plane.name_panel(axes, name, width / columns)
        bar = figure.colorbar(
            colours, ax=panels, shrink=0.9, aspect=12 * math.ceil(count / columns)
        )
        bar.set_label("right (in %)" if in_percent(metric) else metric.unit)
        figure.supxlabel("evaluation length")
        figure.supylabel("depth (in %)")
    return figure


def _depth_grids(study: Study, runs: Sequence[Result], metric: Metric) -> dict[str, DepthGrid]:
    # By name, which of a single model with swaps is the swap alone.
    names, found = labels.names(runs), {}
    for run in runs:
        curves = {
            (way, length): curve
            for (id, way, of, length), curve in study.curves.items()
            if (id, of) == (run.id, metric.name)
        }
        by_sample = any(
            r.kind == "sample" for c in curves.values() for at in c.values() for r in at
        )
        ways = list(dict.fromkeys(way for way, _ in curves)) if by_sample else [AS_TRAINED]
        name = "" if len(runs) == 1 < len(ways) else names[run.id]
        for way in ways:
            grid = {
                length: _depth_bins(curve)
                for (of, length), curve in curves.items()
                if of == way and any(curve.values())
            }
            if grid:
                found[labels.in_way(name, way, run.train) or "as it is"] = grid
    return found


def _depth_bins(curve: Binned) -> tuple[np.ndarray, np.ndarray]:
    depths = list(curve)
    middles = [(a + b) / 2 for a, b in zip(depths, depths[1:], strict=False)]
    means = [stats.interval([*own.values()]).mean for own in curve.values()]
    return 100 * np.array([0, *middles, 1]), np.array(means)


def _heat_panel(
    axes: Axes, grid: DepthGrid, lengths: Sequence[int], train: int, colours: ScalarMappable
) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((0, 0), 1, 1, transform=axes.transAxes, **HATCHED))
    style: dict[str, Any] = dict(norm=colours.norm, cmap=colours.cmap, zorder=1)
    for i, length in enumerate(lengths):
        if length in grid:
            edges, means = grid[length]
            column = np.ma.masked_invalid(means[:, None])
            axes.pcolormesh([i - 0.5, i + 0.5], edges, column, **style)
    axes.set_xticks(range(len(lengths)), map(str, lengths))
    axes.set(xlim=(-0.5, len(lengths) - 0.5), ylim=(100, 0), yticks=[0, 50, 100])
    longer = sum(length <= train for length in lengths)  # the first column beyond training
    if 0 < longer < len(lengths):
        axes.axvline(longer - 0.5, color=TRAINED, linewidth=1.2, zorder=2)


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
    drawn = lines(results, [_training_points(result.train.progress) for result in results])
    drawn = [
        replace(drawn[result.id], broken=tuple(filter(None, map(_broken, result.train.progress))))
        for result in results
        if result.id in drawn
    ]
    if len(drawn) > MOST:
        return None
    axes = Plane(
        x="training step",
        y=f"{validation(results)}\n(lower is better)",
        unit="step {}",
        base=0,
        top=UNIFORM,
        log_y=not draws(results[0]),
    )
    return _in_one_plane_or_panels(drawn, axes, width, NOISY)


def rates(
    study: Study, runs: Sequence[Result], metric: Metric, width: float = 5.5
) -> Figure | None:
    """Bits per byte at the training length against the learning rate: means over seeds with 95 %
    bands; a rate at which a seed diverged has no value.

    Of the runs that have tried several rates, by validation text, with a ring around the rate
    that was chosen; where none has, of those that differ in their rate alone, by `metric`. More
    than 16 encodings have a panel each. `width` is in inches. None without such results.
    """
    tried = any(run.rates for run in runs)
    drawn = _lines_of_tried(runs) if tried else _lines_of_runs(study, runs, metric)
    axes = Plane(
        x="learning rate",
        y=f"{validation(runs)}\n(lower is better)"
        if tried
        else f"{metric.measured}\n{_better(metric)}",
        unit="rate {}",
        ticks=sorted({float(x) for line in drawn for x in line.x}),
        base=10,
        markers=True,
        top=UNIFORM if tried else None,
        log_y=tried and not draws(runs[0]),
    )
    return _in_one_plane_or_panels(drawn, axes, width, MOST)


def _training_points(progress: Sequence[Progress]) -> list[tuple[float, float, float]]:
    """(step, mean, half) over the seeds; none where only one step was scored."""
    values: dict[float, list[float]] = {}
    for seed in progress:
        for step, value in zip(seed.step, seed.valid, strict=True):
            values.setdefault(step, [])
            if value is not None and math.isfinite(value):
                values[step].append(value)
    if len(values) < 2:
        return []
    return _points((step, stats.interval(values[step])) for step in sorted(values))


def _broken(progress: Progress) -> tuple[float, float] | None:
    """(step, value) of the last finite value of a seed that does not end with one."""
    scored = list(zip(progress.step, progress.valid, strict=True))
    finite = [(x, y) for x, y in scored if y is not None and math.isfinite(y)]
    return finite[-1] if finite and finite[-1] != scored[-1] else None


def _lines_of_tried(results: Sequence[Result]) -> list[Line]:
    """A line for each result that has tried rates, with a ring around the chosen one."""
    points = [
        _points(
            (one.rate, stats.interval([value for value in one.valid.values() if value is not None]))
            for one in sorted(result.rates, key=lambda one: one.rate)
            if math.isfinite(one.mean)
        )
        for result in results
    ]
    drawn = lines(results, points)
    best = {r.id: min(r.rates, key=lambda tried: tried.mean) for r in results if r.id in drawn}
    return [replace(drawn[id], ringed=(one.rate, one.mean)) for id, one in best.items()]


def _lines_of_runs(study: Study, runs: Sequence[Result], metric: Metric) -> list[Line]:
    """A line for each label whose results differ in `train.rate` and in nothing else."""
    by_rest: dict[str, dict[float, Result]] = {}
    for run in runs:
        rest = labels.settings(run.config)
        rate = rest.pop("train.rate", None)
        if rate is not None and (run.id, metric.name) in study.evaluated:
            by_rest.setdefault(f"{run.label} {sorted(rest.items())}", {})[rate] = run
    firsts = [next(iter(by_rate.values())) for by_rate in by_rest.values()]
    look, found = looks(firsts), []
    for by_rate, first in zip(by_rest.values(), firsts, strict=True):
        scored = [
            (rate, _cell(study, run, metric, first.train.length))
            for rate, run in sorted(by_rate.items())
        ]
        points = _points((rate, one) for rate, one in scored if not one.reason)
        if len(points) > 1:
            name = labels.readable(first.label)
            found.append(Line.through(points, name, look[first.id]))
    return found


def _cell(study: Study, result: Result, metric: Metric, length: int) -> Cell:
    return study.scores[result.id, AS_TRAINED, metric.name, length]


def _in_one_plane_or_panels(
    lines: Sequence[Line], axes: Plane, width: float, most: int
) -> Figure | None:
    """All lines in one plane; more than `most` in a panel each, the lowest first."""
    if len(lines) > most:
        return plane.draw_panels(sorted(lines, key=lambda line: line.mean.min()), axes, width)
    return plane.draw(lines, axes, width)


# Several tasks: a panel for each


TASKS_COLUMNS = 3
TASKS_HEIGHT = 1.45  # inches of a panel
LETTERS = 34  # of a name in the legend
TASKS_ENDS = (-4.0, 104.0)  # of the axis of y
GREY = Look("#c8c8c8", "-", "")
CHANCE: dict[str, Any] = dict(color="#808080", linewidth=0.8, linestyle=(0, (1, 2)), zorder=0)


def tasks(study: Study, overview: Overview, width: float) -> Figure | None:
    """A panel for each task of the study: the means of the first metric of its table against
    length with their 95 % bands, the training length as an upright line, and as a dotted one what
    the most frequent target of each place scores; of a task whose runs lack that, a token
    guessed at random.

    The first 16 encodings of the overview have lines of their own, the others grey ones. `width` is
    in inches, 5.5 at least. None without at least two tasks.
    """
    from matplotlib.lines import Line2D

    shown = [table for table in overview.tasks if in_percent(table.metric)]
    if len(shown) < 2:
        return None
    look = _task_looks(study, overview)
    width = max(width, plane.LEAST_WIDTH)
    columns = 2 if len(shown) in (2, 4) else TASKS_COLUMNS
    drawing = plane.panels(len(shown), columns, width, TASKS_HEIGHT, 0.25, sharey=True)
    chance = False
    with drawing as (figure, panels):
        for axes, table in zip(panels, shown, strict=True):
            chance |= _task_panel(axes, study, table, look)
            plane.name_panel(axes, table.group.name, width / columns)
        units = sorted({table.metric.unit for table in shown})
        figure.supxlabel("evaluation length")
        figure.supylabel("; ".join(units).replace(", ", ",\n"))
        styles: dict[str, dict[str, Any]] = {
            short(label, LETTERS): dict(color=each.colour, linestyle=each.dash)
            for label, each in look.items()
            if each is not GREY
        }
        if len(styles) < len(look):
            styles[f"{len(look) - len(styles)} others"] = dict(color=GREY.colour)
        if chance:
            styles["no model"] = CHANCE
        plane.legend(figure, [Line2D([], [], label=name, **own) for name, own in styles.items()])
    return figure


def _task_looks(study: Study, overview: Overview) -> dict[str, Look]:
    """The look of each encoding that was trained on a task, by its label, in the order of the
    overview: the look of the first of its results, and GREY after the first 16 encodings.
    """
    runs: dict[str, Result] = {}
    for table in overview.tasks:
        for row in table.rows:
            if row.trained:
                runs.setdefault(row.label, study.runs[row.run])
    found = looks(list(runs.values()))
    order = [label for label in overview.labels if label in runs]
    return {label: found[runs[label].id] if i < MOST else GREY for i, label in enumerate(order)}


def _task_panel(axes: Axes, study: Study, table: Table, look: Mapping[str, Look]) -> bool:
    """Draws the lines of a task, and whether a dotted one of scores without a model, too."""
    drawn, train = [], table.train_length
    trained = [(row.label, study.runs[row.run]) for row in table.rows if row.trained]
    for label, run in reversed(trained):  # the best are drawn last, above the others
        points = _points((n, _cell(study, run, table.metric, n)) for n in table.evaluated)
        if points:
            drawn.append(Line.through(points, label, look[label], PERCENT))
    drawn.sort(key=lambda line: line.look is not GREY)
    first, last = table.evaluated[0], table.evaluated[-1]
    log = last >= 4 * first
    ticks = plane.doublings(train, first, last) if log else None
    plane.fill(axes, drawn, Plane(base=2 if log else 0, ticks=ticks, trained=[train]), TASKS_ENDS)
    axes.set_yticks([0, 25, 50, 75, 100])
    for line in method_lines(table.group, table.metric):
        if line.label == NAMES[MOST_FREQUENT]:
            axes.plot(line.x, line.mean, **CHANCE)
            return True
    symbols = [n for run in table.runs if (n := run.train.labels)]
    if table.metric.name == "accuracy" and symbols:
        axes.axhline(100 / max(symbols), **CHANCE)
        return True
    return False


# What several figures share


def _name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Names of rows left of the axes without a frame or ticks, and light lines at values of x."""
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#ececec", linewidth=0.6)
    axes.set_axisbelow(True)


def _best_first(lines: Sequence[Line], sign: int) -> list[Line]:
    """The lines that reach farthest first; of these, the best at the end first."""
    return sorted(lines, key=lambda line: (-line.x[-1], sign * line.mean[-1]))


def _points(
    found: Iterable[tuple[float, Cell | stats.Interval]],
) -> list[tuple[float, float, float]]:
    """(x, mean, half) at each x that has a value."""
    return [(x, one.mean, one.half) for x, one in found if one.n]


def _better(metric: Metric) -> str:
    """The direction of a metric, below its name on an axis."""
    return f"({metric.better} is better)"
