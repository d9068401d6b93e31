"""Which figures a study has, with their captions: those of all its groups of results together, and
those of the first table of each group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pe_jax.record import Result
from pe_jax.report import captions, depth, figures, learning, multiples, tables
from pe_jax.report.baseline import Versus
from pe_jax.report.cells import Table
from pe_jax.report.overview import Overview

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TRAINING = ("training", "rates")
"""The kinds of figures that show how the models were trained."""


@dataclass(frozen=True)
class Drawn:
    """A figure of a table's models, or of a whole study."""

    name: str
    """As of its files: its kind, with a number after the first table's, as in "curves-2"."""
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
) -> list[Drawn]:
    """The figures of the tables `reported` of the results, as far as the results have what they
    show: tasks of an `overview`, and of each group of results curves, positions, depth, training
    and rates.

    Models that must not be ranked share no line. Positions are compared with the baseline that
    the table has in `compared`. `width` is in inches.
    """
    by_id = {result.id: result for result in results}
    found = []
    if overview and (figure := multiples.tasks(results, overview, width)):
        found.append(Drawn("tasks", "tasks", None, figure, captions.of_tasks(overview)))
    for number, table in enumerate(tables.headlines(reported), 1):
        base = next((versus.baseline for versus in compared if versus.table is table), None)
        whole, table = table, tables.first(table, base)
        own = [by_id[row.run] for row in table.rows if row.trained]
        made = {kind: figure for kind, figure in _figures(own, table, base, width) if figure}
        said = captions.captions(own, table, made, base)
        ending = f"-{number}" if number > 1 else ""
        for kind, figure in made.items():
            caption = " ".join(filter(None, [said[kind], tables.left_out(whole, table)]))
            found.append(Drawn(kind + ending, kind, whole, figure, caption))
    return found


def _figures(
    results: Sequence[Result], table: Table, baseline: str | None, width: float
) -> Iterator[tuple[str, Figure | None]]:
    yield "curves", figures.curves(results, table.metric, width)
    yield "positions", figures.positions(results, width, baseline)
    yield "depth", depth.heat(results, width)
    yield "training", learning.training(results, width)
    yield "rates", learning.rates(results, table.metric, width)
