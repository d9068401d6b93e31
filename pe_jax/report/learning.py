"""The figures of a study's training: validation while training, and against the learning rate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pe_jax.record import Progress, Result
from pe_jax.report import labels, panels, plane, stats
from pe_jax.report.cells import cell, described
from pe_jax.report.figures import MOST, NOISY, better
from pe_jax.report.groups import draws
from pe_jax.report.plane import Plane
from pe_jax.report.style import Line, looks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
        return panels.draw(sorted(lines, key=lambda line: line.mean.min()), axes, width)
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
