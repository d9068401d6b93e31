"""All groups of a study side by side: a row for each encoding and, for each group of results that
may be ranked, the headline of its table. Here as numbers; sheets.py prints it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pe_jax.record import Result
from pe_jax.report import groups, tables
from pe_jax.report.cells import Cell, Table, TableRow, described, of_samples
from pe_jax.report.notes import UNSOLVED
from pe_jax.report.sheet import Note
from pe_jax.report.stats import FEWEST, spearman
from pe_jax.report.words import join


@dataclass(frozen=True)
class Column:
    """A column of the overview: one number of each encoding in one group of results."""

    group: str
    """As in "reverse string" (`groups.names`)."""
    what: str
    """As in "accuracy in %"."""
    where: str
    """As in "beyond 40"."""
    sign: int
    """1 if lower is better, else -1."""
    difference: bool = False

    @property
    def lines(self) -> list[str]:
        """Its title in lines, with an arrow that points to what is better, as in "reverse string:",
        "accuracy in %", "beyond 40 ↑".
        """
        return [f"{self.group}:", self.what, f"{self.where} {'↓' if self.sign > 0 else '↑'}"]

    @property
    def title(self) -> str:
        """Its lines in one."""
        return " ".join(self.lines)


class SameOrder(NamedTuple):
    """How far two groups of models of text order the encodings that both have alike."""

    first: str
    second: str
    n: int
    """Encodings that both have."""
    rho: dict[str, float]
    """Spearman's rho of their values, by the length as a multiple of the training length, "4x"."""


@dataclass(frozen=True)
class Overview:
    """A cell for each column of each encoding, by its label without what sets groups apart."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    notes: tuple[Note, ...]
    tasks: tuple[Table, ...]
    """The tables of tasks whose samples are scored, each by its first metric."""
    orders: tuple[SameOrder, ...] = ()


def overview(
    results: Sequence[Result], reported: Sequence[Table], ranked: bool = True
) -> Overview | None:
    """The overview of the tables `reported` of the results; None where they are of one group.

    The best rows come first (`_ranked`), or, if not `ranked`, they are in the order of the results.
    """
    headlines = tables.headlines(reported)
    if len(headlines) < 2:
        return None
    trained = [{row.label: row for row in table.rows if row.trained} for table in headlines]
    names = _ranked(trained, headlines) if ranked else _as_given(trained, results)
    columns, found = [], []
    groups_called = called(results, headlines)
    for name, table, own in zip(groups_called, headlines, trained, strict=True):
        for column, cells in _told(name, table, own):
            columns.append(column)
            found.append([cells.get(label, Cell(reason=f"no run on {name}")) for label in names])
    rows = zip(names, zip(*found, strict=True), strict=True)
    tasks = tuple(table for table in headlines if of_samples(table.metric))
    return Overview(
        *(tuple(columns), tuple(rows), tuple(_notes(headlines, groups_called, ranked)), tasks),
        tuple(_orders(dict(zip(groups_called, headlines, strict=True)))),
    )


def called(results: Sequence[Result], reported: Sequence[Table]) -> list[str]:
    """A short name for the group of each of the tables."""
    by_id = {result.id: result for result in results}
    firsts = [next(row.run for row in table.rows if row.run) for table in reported]
    return groups.names([by_id[run] for run in firsts])


def _told(
    name: str, table: Table, rows: Mapping[str, TableRow]
) -> Iterator[tuple[Column, dict[str, Cell]]]:
    """The columns of a group's table, with their cells by label."""
    metric = described(table.metric)
    if table.of_swaps:  # bold is the best of the model and its swaps, which are no rows here
        rows = {label: _unmarked(row) for label, row in rows.items()}
    if any(row.beyond for row in rows.values()):
        cells = {label: row.summary for label, row in rows.items()}
        yield Column(name, metric.unit, f"beyond {table.train_length}", metric.sign), cells
        return
    longest = f"at {table.lengths[-1]}"
    ends = {label: row.cells[-1] for label, row in rows.items()}
    yield Column(name, metric.unit, longest, metric.sign), ends
    if table.lengths[-1] > table.train_length:
        gains = {label: row.gain for label, row in rows.items()}
        yield Column(name, "gain", longest, metric.sign, difference=True), gains


def _orders(by_name: Mapping[str, Table]) -> Iterator[SameOrder]:
    """Every two tables of text, by the names of their groups, with the same metric and as many
    encodings in common as a test of their order needs.
    """
    for (first, one), (second, other) in itertools.combinations(by_name.items(), 2):
        if one.metric == other.metric and not of_samples(one.metric):
            mine, theirs = _values(one), _values(other)
            shared = [label for label in mine if label in theirs]
            if len(shared) >= FEWEST:
                multiples = [at for at in _multiples(one) if at in _multiples(other)]
                rho = {
                    at: spearman(
                        [mine[label][at] for label in shared],
                        [theirs[label][at] for label in shared],
                    )
                    for at in multiples
                }
                yield SameOrder(first, second, len(shared), rho)


def _multiples(table: Table) -> list[str]:
    """Its lengths as multiples of the training length, as in "4x"."""
    return [f"{length / table.train_length:g}x" for length in table.lengths]


def _values(table: Table) -> dict[str, dict[str, float]]:
    """Of each model as trained, by its label, the means at all lengths, by the multiple; without
    models that lack one.
    """
    return {
        row.label: dict(zip(_multiples(table), (cell.mean for cell in row.cells), strict=True))
        for row in table.rows
        if row.trained and all(cell.n for cell in row.cells)
    }


def _unmarked(row: TableRow) -> TableRow:
    cells = tuple(replace(cell, best=False) for cell in row.cells)
    return replace(row, cells=cells, beyond=row.beyond and replace(row.beyond, best=False))


def _ranked(trained: Sequence[Mapping[str, TableRow]], headlines: Sequence[Table]) -> list[str]:
    """The labels by the share of the models of a group that are better, mean over the groups. Of a
    label without a value in a group all its models are better.
    """
    places: dict[str, float] = {}
    for own, table in zip(trained, headlines, strict=True):
        sign = described(table.metric).sign
        score = {
            label: sign * cell.mean
            for label, row in own.items()
            for cell in [row.beyond or row.cells[-1]]
            if cell.n and row.compared
        }
        for label in {label for other in trained for label in other}:
            mine = score.get(label, math.inf)
            better = sum(other < mine for other in score.values()) / max(1, len(score))
            places[label] = places.get(label, 0) + better
    return sorted(places, key=lambda label: (places[label], label))


def _as_given(trained: Sequence[Mapping[str, TableRow]], results: Sequence[Result]) -> list[str]:
    label = {row.run: label for own in trained for label, row in own.items()}
    return list(dict.fromkeys(label[result.id] for result in results if result.id in label))


def _notes(headlines: Sequence[Table], names: Sequence[str], ranked: bool) -> Iterator[Note]:
    samples = any(row.beyond for table in headlines for row in table.rows)
    text = [table for table in headlines if not all(row.beyond for row in table.rows)]
    columns = ["↑: higher is better; ↓: lower is better."]
    if samples:
        columns.append(
            "Beyond a length: the mean over all evaluated lengths beyond it, the training length."
        )
    if text:
        columns.append(
            "At a length: the value at the longest evaluated length. Gain: this value minus the "
            f"one at the training length, paired over {join(f'{t.replicate}s' for t in text)}."
        )
    yield Note("How to read the columns", " ".join(columns))
    bold = "the best among the models as trained and what is not told apart from it"
    yield Note(
        "What bold means",
        f"Bold: of each column {bold}, as in the tables of the groups; none where more than a "
        "third of the rows would be.",
    )
    told = []
    for name, table in zip(names, headlines, strict=True):
        trained = [row for row in table.rows if row.trained]
        if aside := [row.label for row in trained if not row.compared]:
            told.append(f"{name}: {join(aside) if len(aside) < len(trained) else 'every model'}")
    if told:
        yield Note("What is not compared", f"Not compared, since {UNSOLVED}: {'; '.join(told)}.")
    yield Note(
        "How to read the rows",
        "A row is an encoding. "
        + (
            "Rows are ordered by the share of the models of a group that are better, mean over the "
            "groups (all are better than one that has no value or is not compared)."
            if ranked
            else ""
        ),
    )
