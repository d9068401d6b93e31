"""The overview: the groups of a study side by side, a row for each encoding and, for each group,
the headline of its table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pe_jax.metric import SampleMetric
from pe_jax.report import notes
from pe_jax.report.sheet import Note, Printed, Sheet
from pe_jax.report.sheets import printed, reasons
from pe_jax.report.study import Cell, Study
from pe_jax.report.table import Table, TableRow, headlines


@dataclass(frozen=True)
class Column:
    """One number of each encoding in one group of runs."""

    group: str
    """As in "reverse string" (`study.Group.name`)."""
    what: str
    """As in "accuracy in %"."""
    where: str
    """As in "beyond 40 ↑": the arrow points to what is better."""
    cells: Mapping[str, Cell]
    """By the label of the row, without what sets groups apart."""
    sign: str = ""
    """ "+" of a difference."""

    @property
    def lines(self) -> list[str]:
        return [f"{self.group}:", self.what, self.where]

    def cell(self, label: str) -> Cell:
        return self.cells.get(label, Cell.empty(f"no run on {self.group}"))


@dataclass(frozen=True)
class Overview:
    """The columns, and the labels of the rows."""

    columns: tuple[Column, ...]
    labels: tuple[str, ...]
    tasks: tuple[Table, ...]
    """The tables of tasks whose samples are scored, each by its first metric."""
    terms: tuple[Note, ...]


def overview(study: Study, tables: Sequence[Table], ranked: bool = True) -> Overview | None:
    """The overview of the study's tables; None where they are of one group.

    The rows are ordered by the share of the models of a group that are better, mean over the
    groups: all are better than one that has no value or is not compared. Not `ranked`, they are in
    the order of the runs.
    """
    first = headlines(tables)
    if len(first) < 2:
        return None
    trained = [{row.label: row for row in table.rows if row.trained} for table in first]
    if ranked:
        labels = _ranked(trained, first)
    else:
        label = {row.run: name for own in trained for name, row in own.items()}
        labels = list(dict.fromkeys(label[id] for id in study.runs if id in label))
    columns = [
        column for table, own in zip(first, trained, strict=True) for column in _columns(table, own)
    ]
    tasks = tuple(table for table in first if isinstance(table.metric, SampleMetric))
    titles = {column.what for column in columns} | {column.where.split()[0] for column in columns}
    terms = ["±", "Bold", *["Gain"] * ("gain" in titles), *["Mean beyond"] * ("beyond" in titles)]
    replicates = " or ".join(sorted({f"{table.replicate}s" for table in first}))
    known = notes.terms(terms, replicates)
    return Overview(tuple(columns), tuple(labels), tasks, known)


def _columns(table: Table, rows: Mapping[str, TableRow]) -> Iterator[Column]:
    name, metric = table.group.name, table.metric
    better = "↓" if metric.sign > 0 else "↑"
    if table.of_swaps:  # bold is the best of the model and its swaps, which are no rows here
        rows = {label: _unmarked(row) for label, row in rows.items()}
    if any(row.beyond for row in rows.values()):
        cells = {label: row.summary for label, row in rows.items()}
        yield Column(name, metric.unit, f"beyond {table.train_length} {better}", cells)
        return
    longest = f"at {table.lengths[-1]} {better}"
    ends = {label: row.cells[-1] for label, row in rows.items()}
    yield Column(name, metric.unit, longest, ends)
    if table.lengths[-1] > table.train_length:
        gains = {label: row.gain for label, row in rows.items()}
        yield Column(name, "gain", longest, gains, sign="+")


def _unmarked(row: TableRow) -> TableRow:
    cells = tuple(replace(cell, best=False) for cell in row.cells)
    return replace(row, cells=cells, beyond=row.beyond and replace(row.beyond, best=False))


def _ranked(trained: Sequence[Mapping[str, TableRow]], tables: Sequence[Table]) -> list[str]:
    places: dict[str, float] = {}
    for own, table in zip(trained, tables, strict=True):
        score = {
            label: table.metric.sign * cell.mean
            for label, row in own.items()
            for cell in [row.beyond or row.cells[-1]]
            if cell.n and row.compared
        }
        for label in {label for other in trained for label in other}:
            mine = score.get(label, math.inf)
            better = sum(other < mine for other in score.values()) / max(1, len(score))
            places[label] = places.get(label, 0) + better
    return sorted(places, key=lambda label: (places[label], label))


def sheet(found: Overview) -> Sheet:
    """Encodings against groups of runs."""
    rows = [
        (
            Printed(label, label),
            *(printed(column.cell(label), column.sign) for column in found.columns),
        )
        for label in found.labels
    ]
    return Sheet(
        "Overview",
        ("encoding", *("\n".join(column.lines) for column in found.columns)),
        (("", tuple(rows)),),
        (Note("↑, ↓", "Higher, lower is better.", general=True), *found.terms),
        tuple(
            {"encoding": label}
            | {
                f"{' '.join(column.lines)}, {name}": getattr(column.cell(label), name)
                for column in found.columns
                for name in ("mean", "half", "n")
            }
            | {"not_computed": reasons([column.cell(label) for column in found.columns])}
            for label in found.labels
        ),
        label="tab:overview",
    )
