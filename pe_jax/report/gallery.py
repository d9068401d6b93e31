"""Which figures a study has: those of each table of its first metric, with their captions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pe_jax.record import Result
from pe_jax.report import captions, figures, improvement, learning
from pe_jax.report.baseline import Versus
from pe_jax.report.cells import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TRAINING = ("training", "rates")
"""The kinds of figures that show how the models were trained."""


@dataclass(frozen=True)
class Drawn:
    """A figure of a table's models."""

    name: str
    """As of its files: its kind, with a number after the first table's, as in "curves-2"."""
    kind: str
    table: Table
    figure: Figure
    caption: str


def drawn(
    results: Sequence[Result], reported: Sequence[Table], compared: Sequence[Versus], width: float
) -> list[Drawn]:
    """The figures of the tables `reported` of the results, as far as the results have what they
    show: curves, positions, improvement, training and rates.

    Models that must not be ranked share no figure. Positions are compared with the baseline that
    the table has in `compared`. `width` is in inches.
    """
    first = [table for table in reported if table.metric == reported[0].metric]
    by_id = {result.id: result for result in results}
    found = []
    for number, table in enumerate(first, 1):
        own = [by_id[row.run] for row in table.rows if row.trained]
        base = next((versus.baseline for versus in compared if versus.table is table), None)
        made = {kind: figure for kind, figure in _figures(own, table, base, width) if figure}
        said = captions.captions(own, table, made, base)
        ending = f"-{number}" if number > 1 else ""
        found += [Drawn(kind + ending, kind, table, made[kind], said[kind]) for kind in made]
    return found


def _figures(
    results: Sequence[Result], table: Table, baseline: str | None, width: float
) -> Iterator[tuple[str, Figure | None]]:
    yield "curves", figures.curves(results, table.metric, width)
    yield "positions", figures.positions(results, width, baseline)
    yield "improvement", improvement.matrix(results, table)
    yield "training", learning.training(results, width)
    yield "rates", learning.rates(results, table.metric, width)
