"""The figures of a study, with their captions: a metric against evaluation length and against
position, heat maps of depth, training, learning rates, tasks.

A figure shows at most as many models as `table.shortened` leaves. All figures are made with
matplotlib's object interface (no pyplot, no global state).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pe_jax.metric import Metric, SampleMetric
from pe_jax.record import AS_TRAINED, Progress, Replica, Result, Way
from pe_jax.report import drawing, labels, stats
from pe_jax.report.drawing import WIDTH, Plane
from pe_jax.report.groups import draws
from pe_jax.report.phrases import capital, join, short
from pe_jax.report.study import HEADROOM, Binned, Cell, Study, minus
from pe_jax.report.style import Drawn, Line, Look, looks
from pe_jax.report.table import CROP, CROPPED, MOST_FREQUENT, SHOWN, TRAINED_AT, Table, in_percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable

TRAINED = "#d55e00"  # the colour of what marks a training length
DASHES = {TRAINED_AT: ":", MOST_FREQUENT: ":", "bayes": "--"}  # of lines without a model
CLIP = 0.1  # bits: how far from 0 gains are drawn
Points = list[tuple[float, float, float]]
"""(x, mean, half) at each x that has a value."""


def of_table(study: Study, table: Table, baseline: str | None = None) -> list[Drawn]:
    """The figures of the models of a table, as far as they have something to draw. `positions` are
    differences to the run with the id `baseline`.
    """
    runs, metric = [study.runs[row.run] for row in table.rows if row.trained], table.metric
    drawn = (
        curves(study, runs, metric, table),
        positions(study, runs, baseline),
        heat(study, runs),
        training(runs),
        rates(runs),
    )
    return [figure for figure in drawn if figure]


# A metric against evaluation length


def curves(
    study: Study, runs: Sequence[Result], metric: Metric, table: Table | None = None
) -> Drawn | None:
    """A metric against evaluation length: a line for each encoding, with 95 % intervals over seeds;
    of a single model, a line for each way in which it was evaluated, as it is and with each swap.
    Scores at places of a text are drawn minus the model's value at the training length, paired over
    places, since the places differ by more than the ways do.

    The `reference_lines` of the table are drawn, too. Where a model that was trained at a longer
    length is better there, all are drawn minus their values at the training length L, paired over
    seeds: the gain over cropping the text to L. Its axis ends at most CLIP from 0, since models
    that fail would flatten what others gain. None when no value was computed.
    """
    evaluated = [
        study.evaluated[key] for r in runs if (key := (r.id, metric.name)) in study.evaluated
    ]
    if not evaluated:
        return None
    kind = evaluated[0].replicas[0].kind
    references = reference_lines(table) if table else []
    oracles = [line for line in references if line.look.marker == "D"]
    at_L = [line for line in oracles if line.x[0] == runs[0].train.length]
    gained = metric.name in CROP and metric.sign > 0 and any(min(o.mean) < o.mean[0] for o in at_L)
    if table and gained:
        references = reference_lines(table, gained)
    paired = gained or kind == "place"
    lengths = sorted({length for one in evaluated for length in one.lengths})
    models = [(run, run.id, AS_TRAINED) for run in runs]
    if len(runs) == 1:
        models = [(_as_model(run, way), run.id, way) for run in runs for way in evaluated[0].ways]
    points = []
    for run, id, way in models:
        start = study.scores[id, AS_TRAINED, metric.name, run.train.length].values
        points.append(_means(study, id, way, metric, lengths, start if paired else None))
    if not any(points):
        return None
    samples = isinstance(metric, SampleMetric)
    share = in_percent(metric) and metric != HEADROOM and not paired
    trained = sorted({run.train.length for run in runs})
    minus = f",\nminus those {'cropped to' if gained else 'at'} {trained[0]}" if paired else ""
    axes = Plane(
        x=f"evaluation length{'' if samples else ' (tokens)'}; trained at {join(trained)}",
        y=f"{metric.measured}{minus}\n{_better(metric)}",
        unit="{}" if samples else "{} tokens",
        ticks=_ticks(trained[0], lengths) if samples else lengths,
        trained=trained,
        top=CLIP if gained else math.inf,
        zero=paired,
    )
    drawn = lines([run for run, _, _ in models], points, share, "+" * paired)
    value = "its value" if gained else "that of the model as it is"
    minus = f", minus {value} at {trained[0]}, paired over {kind}s"
    return Drawn(
        "curves",
        f"{metric.title} against evaluation length{minus if paired else ''}: means over "
        f"{kind}s with their 95 % intervals."
        + f" Below 0 are gains over cropping the text; the axis ends at most {CLIP:g} from 0."
        * gained
        + " Grey diamonds: trained at the length E of each point." * bool(oracles),
        drawing.draw([*drawn.values(), *references], axes),
    )


def _as_model(result: Result, way: Way) -> Result:
    # The facts that label and colour a line, as if the way were a model of its own.
    label = labels.in_way("", way, result.train) or result.label
    spec = {"pe": {"spec": str(way)}} if way else {}
    return replace(
        result, id=f"{result.id} {way}".strip(), label=label, config=result.config | spec
    )


def reference_lines(table: Table, gained: bool = False) -> list[Line]:
    """A grey line for each row "trained at E" of the table, and for each method without a model, on
    the task as trained, at the lengths that they have; minus the value at the training length,
    paired over seeds, if `gained`.
    """
    start = table.lengths.index(table.train_length) if gained else 0
    return [
        Line.through(
            points,
            row.label,
            Look("#808080", DASHES.get(row.method, "-."), "D" * (row.method == TRAINED_AT)),
            sign="+" * gained,
        )
        for row in table.rows
        if row.method not in ("", CROPPED) and not row.way
        for cells in [[minus(c, row.cells[start]) if gained else c for c in row.cells]]
        if (points := _points(zip(table.lengths, cells, strict=True)))
    ]


def lines(
    runs: Sequence[Result], points: Sequence[Points], percent: bool = False, sign: str = ""
) -> dict[str, Line]:
    """A line for each run that has points (x, mean, half), by the run's id (`Line.through`)."""
    names, look = labels.names(runs), looks(runs)
    return {
        run.id: Line.through(own, names[run.id], look[run.id], percent, sign)
        for run, own in zip(runs, points, strict=True)
        if own
    }


# A metric against the position in a window


def positions(study: Study, runs: Sequence[Result], baseline: str | None = None) -> Drawn | None:
    """The difference to a baseline against the position in a window of the longest length, paired
    over seeds, with 95 % bands: what is hard in the text is hard for both, and cancels.

    The metric is the first of text that models as trained have curves of. The baseline is the run
    with this id, else the best at the end of the window, since minus a model that fails beyond the
    training length all lines would bend. Encodings without a curve at that length are left out.
    None without two curves to compare. Places before L / 16 are left out: few tokens stand there.
    """
    metric = study.curve_metric(runs, samples=False)
    if metric is None:
        return None
    ids = {run.id for run in runs}
    longest = max(
        length
        for id, way, name, length in study.curves
        if id in ids and not way and name == metric.name
    )
    of_each = [study.curves.get((r.id, AS_TRAINED, metric.name, longest), {}) for r in runs]
    ends = {
        run.id: metric.sign * stats.interval([*list(curve.values())[-1].values()]).mean
        for run, curve in zip(runs, of_each, strict=True)
        if curve
    }
    base = baseline
    if base not in ends:
        base = min(ends, key=lambda id: (math.isnan(ends[id]), ends[id]))
    of_base = study.curves[base, AS_TRAINED, metric.name, longest]
    trained = sorted({run.train.length for run in runs})
    places = [at for at in of_base if 16 * at >= trained[0]]
    changes = [
        _points((at, stats.paired(own[at], of_base[at])) for at in places if at in own)
        for own in of_each
    ]
    drawn = [*lines(runs, changes, sign="+").values()]
    if len(drawn) < 2:
        return None
    name = labels.names(runs)[base]
    axes = Plane(
        x=f"position in a window of {longest} tokens; trained at {join(trained)}",
        y=f"{metric.unit}, minus those of {short(name)}\n{_better(metric)}",
        unit="{} tokens",
        ticks=[4**power for power in range(int(np.log2(longest)) // 2 + 1)],
        trained=trained,
        zero=True,
    )
    caption = (
        f"{capital(metric.unit)} against the position in the longest window, minus those of {name} "
        "at the same tokens, paired over seeds: means with their 95 % intervals. Vertical lines: "
        "training lengths."
    )
    return Drawn("positions", caption, drawing.draw(drawn, axes))


# Heat maps: how often a model is right at each length and depth, or what it scores by the first
# metric that has curves by depth, a panel for each encoding


HEAT_COLUMNS = 4
HEAT_HEIGHT = 1.25  # inches of a panel with its name
HATCHED: dict[str, Any] = dict(
    facecolor="#efefef", edgecolor="#b0b0b0", hatch="/////", linewidth=0, zorder=0
)

DepthGrid = dict[int, tuple[np.ndarray, np.ndarray]]
"""By length, the edges of the bins of depth and the mean over replicas in each; NaN: no value."""


def heat(study: Study, runs: Sequence[Result]) -> Drawn | None:
    """The curves of samples of the models as trained, and of a single model with each swap, too: a
    column for each length, depth downwards, and the mean over replicas as colour. Cells without a
    value are hatched, and an upright line stands after the lengths of training. None where no run
    has such curves.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    metric, names, alone = study.curve_metric(runs, True), labels.names(runs), len(runs) == 1
    grids: dict[str, DepthGrid] = {}
    for run in runs:
        for (id, way, of, length), curve in study.curves.items():
            if metric and (id, of) == (run.id, metric.name) and any(curve.values()):
                if alone or not way:
                    name = labels.in_way("" if alone else names[id], way, run.train) or names[id]
                    grids.setdefault(name, {})[length] = _depth_bins(curve)
    if not metric or not grids:
        return None
    lengths = sorted({length for grid in grids.values() for length in grid})
    means = np.concatenate([means for grid in grids.values() for _, means in grid.values()])
    most = 100 if in_percent(metric) else float(np.nanmax(means))
    bright_is_high = metric.better == "higher"
    colours = ScalarMappable(Normalize(0, most), "viridis" if bright_is_high else "viridis_r")
    count, columns = len(grids), min(HEAT_COLUMNS, len(grids))
    width = WIDTH if columns > 2 else WIDTH * (0.28 + 0.25 * columns)
    with drawing.panels(count, columns, width, HEAT_HEIGHT, 0.4, True) as (figure, panels):
        for axes, (name, grid) in zip(panels, grids.items(), strict=True):
            _heat_panel(axes, grid, lengths, runs[0].train.length, colours)
            drawing.name_panel(axes, name, width / columns)
        bar = figure.colorbar(
            colours, ax=panels, shrink=0.9, aspect=12 * math.ceil(count / columns)
        )
        bar.set_label("right (in %)" if in_percent(metric) else metric.unit)
        figure.supxlabel("evaluation length")
        figure.supylabel("depth (in %)")
    caption = (
        f"{'Share of right answers' if in_percent(metric) else metric.title} at each evaluation "
        "length, by the depth in the sample of what is to be found (0: its first token): means. "
        "Right of the vertical line: longer than in training. Hatched: no value."
    )
    return Drawn("depth", caption, figure)


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


def training(runs: Sequence[Result]) -> Drawn | None:
    """Validation bits at the training length against steps: means over the seeds that have a
    finite value, with 95 % bands.

    Of text a logarithmic axis that ends at 8 bits, where a model that knows nothing stands; of
    tasks, whose bits may come near 0, a linear one. None where no run has values of several steps.
    """
    caption = "during training: means over the seeds that have a finite value"
    points = [_training_points(run.train.progress) for run in runs]
    axes = Plane(x="training step", unit="step {}", base=0)
    return _of_validation("training", caption, runs, points, axes)


def rates(runs: Sequence[Result]) -> Drawn | None:
    """Validation bits at the training length against the learning rates that were tried: means
    over seeds with 95 % bands. The lowest is chosen; a rate at which a seed diverged has no value.
    None without such runs.
    """
    caption = (
        "against the learning rate (the lowest is chosen; a rate at which a seed diverged has no "
        "value): means over seeds"
    )
    points = [
        _points(
            (one.rate, stats.interval([value for value in one.valid.values() if value is not None]))
            for one in sorted(run.rates, key=lambda one: one.rate)
            if math.isfinite(one.mean)
        )
        for run in runs
    ]
    ticks = sorted({x for own in points for x, _, _ in own})
    axes = Plane(x="learning rate", unit="rate {}", ticks=ticks, base=10)
    return _of_validation("rates", caption, runs, points, axes)


def _of_validation(
    name: str,
    caption: str,
    runs: Sequence[Result],
    points: Sequence[Points],
    axes: Plane,
) -> Drawn | None:
    if not any(points):
        return None
    drawn_samples = draws(runs[0])
    scored = f"validation bits per {'token' if drawn_samples else 'byte'}"
    axes = replace(axes, y=f"{scored}\n(lower is better)", top=UNIFORM, log_y=not drawn_samples)
    caption = f"{capital(scored)} at the training length {caption} with their 95 % intervals."
    return Drawn(name, caption, drawing.draw([*lines(runs, points).values()], axes))


def _training_points(progress: Sequence[Progress]) -> Points:
    # (step, mean, half) over the seeds; none where only one step was scored.
    values: dict[float, list[float]] = {}
    for seed in progress:
        for step, value in zip(seed.step, seed.valid, strict=True):
            values.setdefault(step, [])
            if value is not None and math.isfinite(value):
                values[step].append(value)
    if len(values) < 2:
        return []
    return _points((step, stats.interval(values[step])) for step in sorted(values))


# Several tasks: a panel for each


TASKS_COLUMNS = 3
TASKS_HEIGHT = 1.45  # inches of a panel


def tasks(study: Study, tables: Sequence[Table], labels: Sequence[str]) -> Drawn | None:
    """A panel for each of several tasks, by their tables: the means of a metric against length
    with their 95 % intervals, the training length as an upright line, and in grey the methods
    without a model. The axis begins at the lowest of these means: at chance, where none is worse.

    It shows the first of the models with these labels, as many as other figures. None without at
    least two tasks of metrics in percent.
    """
    shown, first = [table for table in tables if in_percent(table.metric)], labels[:SHOWN]
    if len(shown) < 2:
        return None
    runs = {
        row.label: study.runs[row.run]
        for table in reversed(shown)
        for row in table.rows
        if row.trained and row.label in first
    }
    look, handles, low = looks([*runs.values()]), dict[str, Any](), 100.0
    columns = 2 if len(shown) in (2, 4) else TASKS_COLUMNS
    height = TASKS_HEIGHT * (1.5 if len(shown) <= columns else 1)  # higher in a single row
    with drawing.panels(len(shown), columns, WIDTH, height, 0.25, sharey=True) as (figure, panels):
        for axes, table in zip(panels, shown, strict=True):
            drawn = [
                Line.through(points, row.label, look[runs[row.label].id], True)
                for row in reversed(table.rows)  # the best are drawn last, above the others
                if row.trained and row.label in first
                if (points := _means(study, row.run, AS_TRAINED, table.metric, table.evaluated))
            ]
            drawn = [*reference_lines(table), *drawn]
            ticks = _ticks(table.train_length, table.evaluated)
            drawing.fill(axes, drawn, Plane(ticks=ticks, trained=[table.train_length]), (0, 100))
            low = min([low, *(float(line.mean.min()) for line in drawn)])
            drawing.name_panel(axes, table.group.name, WIDTH / columns)
            handles |= {line.label: artist for line, artist in zip(drawn, axes.lines, strict=False)}
        panels[0].set_ylim(1.04 * low - 4, 104 - 0.04 * low)
        figure.supxlabel("evaluation length")
        units = sorted({table.metric.unit for table in shown})
        figure.supylabel("; ".join(units).replace(", ", ",\n"))
        order = sorted(handles, key=lambda label: [*first, label].index(label))
        drawing.legend(figure, {label: handles[label] for label in order})
    caption = (
        "Each task, by the first metric of its table, against evaluation length: means over seeds "
        "with their 95 % intervals. Vertical line: the longest length of training. Grey: without a "
        "model."
    )
    if len(labels) > SHOWN:
        caption += f" Shown: the first {SHOWN} of {len(labels)} models of the overview."
    return Drawn("tasks", caption, figure)


# What several figures share


def _points(intervals: Iterable[tuple[float, stats.Interval | Cell]]) -> Points:
    return [(x, one.mean, one.half) for x, one in intervals if one.n]


def _means(
    study: Study,
    id: str,
    way: Way,
    metric: Metric,
    lengths: Iterable[int],
    minus: Mapping[Replica, float] | None = None,
) -> Points:
    # by length, minus other values where these are given, paired over replicas
    scores = {n: study.scores[id, way, metric.name, n].values for n in lengths}
    return _points(
        (n, stats.interval([*own.values()]) if minus is None else stats.paired(own, minus))
        for n, own in scores.items()
    )


def _ticks(train: int, lengths: Sequence[int]) -> Sequence[float]:
    # the doublings of the training length where there are several
    doubled = drawing.doublings(train, lengths[0], lengths[-1])
    return doubled if len(doubled) > 2 else lengths


def _better(metric: Metric) -> str:
    # the direction of a metric, below its name on an axis
    return f"({metric.better} is better)"
