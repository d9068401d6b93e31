"""Which figures a study has, with their captions: those of all its groups of results together, and
those of the first table of each group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pe_jax.record import Result
from pe_jax.report import bars, depth, figures, labels, learning, multiples, plane, tables
from pe_jax.report.baseline import Versus
from pe_jax.report.cells import Table, curve_metric, described, in_percent
from pe_jax.report.groups import draws
from pe_jax.report.overview import Overview

if TYPE_CHECKING:
    from matplotlib.figure import Figure


TRAINING = ("training", "rates")
"""The kinds of figures that show how the models were trained."""


@dataclass(frozen=True)
class StudyFigure:
    """A figure of a table's models, or of a whole study."""

    name: str
    """The name of its files: its kind, numbered from the second table on, as in "curves-2"."""
    kind: str
    table: Table | None
    """None: it is of the whole study."""
    figure: Figure
    caption: str


def drawn(
    results: Sequence[Result],
    reported: Sequence[Table],
    compared: Sequence[Versus],
    width: float,
    overview: Overview | None = None,
) -> list[StudyFigure]:
    """The figures of the tables `reported` of the results, as far as the results have what they
    show: tasks of an `overview`, and of each group of results curves, positions, depth, training
    and rates.

    Each group, whose models may be ranked, has figures of its own. Positions are compared with the
    baseline of the table in `compared`, where a user has named it. `width` is in inches.
    """
    by_id = {result.id: result for result in results}
    found = []
    if overview and (figure := multiples.tasks(results, overview, width)):
        found.append(StudyFigure("tasks", "tasks", None, figure, of_tasks(overview)))
    for number, table in enumerate(tables.headlines(reported), 1):
        against = next((versus for versus in compared if versus.table is table), None)
        shown = tables.first(table, against.baseline if against else None)
        base = against.baseline if against and against.named else None
        own = [by_id[row.run] for row in shown.rows if row.trained]
        made = {kind: figure for kind, figure in _figures(own, shown, base, width) if figure}
        said = captions(own, shown, made, base)
        ending = f"-{number}" if number > 1 else ""
        for kind, figure in made.items():
            caption = " ".join(filter(None, [said[kind], tables.left_out(table, shown)]))
            found.append(StudyFigure(kind + ending, kind, table, figure, caption))
    return found


def _figures(
    results: Sequence[Result], table: Table, baseline: str | None, width: float
) -> Iterator[tuple[str, Figure | None]]:
    if len(results) == 1 and figures.is_paired(results, table.metric):
        yield "differences", bars.bars(results[0], table.metric, width)
    else:
        yield "curves", figures.curves(results, table.metric, width)
    yield "positions", figures.positions(results, width, baseline)
    yield "depth", depth.heat(results, width)
    yield "training", learning.training(results, width)
    yield "rates", learning.rates(results, table.metric, width)


# Captions


CUT = (
    "An arrow head at the frame: the line of its colour, or its interval, goes on beyond the axes."
)


def captions(
    results: Sequence[Result],
    table: Table,
    drawn: Mapping[str, Figure],
    baseline: str | None = None,
) -> dict[str, str]:
    """A caption for each of the figures `drawn` of the results, by kind, with what sets their table
    apart from others; `positions` are differences to `baseline` (`figures.against`).
    """
    said = {
        "curves": f"{described(table.metric).title} against evaluation length"
        f"{_minus(results, table)}: means over {table.replicate}s with their 95 % "
        "intervals.",
        "differences": f"{described(table.metric).title}: by how much each swap differs from the "
        f"model as it is at {table.train_length} tokens, paired over places, with 95 % intervals. "
        "Grey: the interval holds 0; blue: better; orange: worse. The best at the longest length "
        "come first; a bar that leaves the axes has its number.",
        "positions": " ".join(_positions(results, baseline)),
        "depth": f"{_by_depth(results)} at each evaluation length, by the depth in the sample "
        f"of what is to be found (0: its first token): means over {table.replicate}s. Right of the "
        "upright line: longer than in training. Hatched: no value.",
        "training": f"{_validation(results)} at the training length while training: means over "
        "the seeds that have a finite value, with their 95 % intervals. A cross: a seed has none "
        "from there on. The axis ends at 8 bits or below"
        f"{'' if draws(results[0]) else ': a model that knows nothing has 8'}.",
        "rates": " ".join(_rates(results, table.metric)),
    }
    heading = f" {table.heading[:1].upper()}{table.heading[1:]}." if table.heading else ""
    return {
        name: said[name] + (f" {CUT}" if plane.is_cut(figure) else "") + heading
        for name, figure in drawn.items()
    }


def _by_depth(results: Sequence[Result]) -> str:
    metric = curve_metric(results, samples=True)
    if metric is None or in_percent(metric):
        return "How often a model is right"
    return described(metric).title


def _minus(results: Sequence[Result], table: Table) -> str:
    if not figures.is_paired(results, table.metric):
        return ""
    return f", minus that of the model as it is at {table.train_length}, paired over places"


def of_tasks(overview: Overview) -> str:
    """The caption of the figure of several tasks."""
    others = len(overview.rows) - multiples.MOST
    grey = f" Grey: the {others} last of the overview." if others > 0 else ""
    return (
        "Every task, by the first metric of its table, against evaluation length: means over "
        f"seeds with their 95 % intervals. Upright line: the longest length of training.{grey}"
    )


def _positions(results: Sequence[Result], baseline: str | None) -> Iterator[str]:
    metric, base = figures.position_metric(results), figures.against(results, baseline)
    if metric and base:
        name = labels.short(results)[base.id]
        unit = metric.unit[:1].upper() + metric.unit[1:]
        yield (
            f"{unit} against the position in the longest window, minus those of {name} at the same "
            "tokens, paired over seeds: means with their 95 % intervals. Upright lines: training "
            "lengths."
        )


def _validation(results: Sequence[Result]) -> str:
    return learning.validation(results).capitalize()


def _rates(results: Sequence[Result], metric: str) -> Iterator[str]:
    what = described(metric).title
    if any(result.rates for result in results):
        yield f"{_validation(results)} at the training length against the learning rate"
        yield "(a ring: the rate that was chosen; a rate at which a seed diverged has no value):"
    else:
        yield f"{what} at the training length against the learning rate:"
    yield "means over seeds with their 95 % intervals."
