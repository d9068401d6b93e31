"""The table of a metric and a group of runs: means over replicas with 95 % intervals.

Bold marks and differences from a baseline are computed from the values in its cells. sheets.py lays
a table out, sheet.py prints it.

Reference rows are compared with the models by eye, and have no bold and no test. In a
table of text they show what a longer context is worth:

A, cropped to L       the value of A at the training length L, at every longer length: what A scores
                      where it never sees more than L tokens at once
A, trained at E       at each length E the value at E of A trained at E: the runs of the study whose
                      `run.oracle_of` is L, and at L the value of A itself

A is the model with such runs, else the model with the best value at L. In a table of samples they
are the methods without a model, such as the most frequent answer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from pe_jax.metric import Metric, SampleMetric
from pe_jax.record import AS_TRAINED, Reason, Result, Way
from pe_jax.report import groups, labels, stats
from pe_jax.report.sheet import Note
from pe_jax.report.study import ABSENT, BITS, HEADROOM, Cell, Group, Study, mean, minus

SOLVED, SOLVED_BEYOND = 99.0, 90.0
"""Percent right from which on a seed, or the mean of a model, solves the training length; and a
seed a length beyond it."""
NEAR_BAYES = 0.01
"""Bits above the Bayes-optimal prediction up to which drawn targets are solved."""
CROPPED, TRAINED_AT = "cropped", "trained at E"
"""The methods of reference rows of text."""
CROP = ("same_targets", "nonoverlapping", "masked_tokens", "first_choices")
"""The metrics that score the same tokens at every length."""
COLUMNS = 7
"""How many lengths a table of samples has at most."""
MODELS, SHOWN = 100, 12
"""Of more than MODELS models, figures and the terminal have the SHOWN best: the lines of more
cannot be distinguished, and take minutes to draw.
"""
MOST_FREQUENT = "most frequent"
NAMES = {MOST_FREQUENT: "most frequent target", "bayes": "Bayes"}
UNTRIED = {Reason.OUT_OF_MEMORY, Reason.NOT_EVALUATED}
"""Reasons that do not tell what a model can."""


@dataclass(frozen=True, eq=False)
class TableRow:
    """One model as trained or scored in another way, a reference, or a method without a model.

    `change` is the value at the longest length minus the one at the training length, paired over
    replicas, and `beyond`, of a metric in percent, the mean over all lengths beyond training;
    `effective` and `censored` are `stats.effective_length`, or in percent the longest length that
    more than half of the seeds solve.
    """

    label: str
    way: Way
    cells: tuple[Cell, ...]
    change: Cell
    effective: int | None
    censored: bool
    beyond: Cell | None
    replicas: int  # how many scores a cell should be the mean of
    run: str = ""  # the id
    names: tuple[str, ...] = ()  # what a user may call it, the most exact first
    parameters: int | None = None  # numbers that its encodings have learned
    ms_per_step: float | None = None
    seconds: float | None = None  # of a window of the longest length, the median over places
    rate: float | None = None  # the learning rate, of several the chosen one
    solved: int | None = None  # of a task: how many seeds solve the training length
    compared: bool = True  # with others beyond the training length: of a task only if it is solved
    method: str = ""  # of a method without a model its name, or CROPPED or TRAINED_AT
    together: bool = False  # whether all swaps stand in one block: where a table has one model

    @property
    def trained(self) -> bool:
        """Whether it is a model as trained, on the task that it was trained on."""
        return not self.way and not self.method

    @property
    def candidate(self) -> bool:
        """Whether it is ranked: a model as trained, or a swap of a single model."""
        return self.trained or bool(self.way and self.together)

    @property
    def summary(self) -> Cell:
        """The headline number: `beyond`, or the change."""
        return self.change if self.beyond is None else self.beyond

    @property
    def block(self) -> str:
        """The block of the table in which the row stands. On a variant of the task, methods without
        a model stand with the models, on the task as trained in a block of their own.
        """
        if self.way and self.together:
            return "swapped in"
        if self.method in (CROPPED, TRAINED_AT):
            return "reference"
        return str(self.way) or ("no model" if self.method else "as trained")


@dataclass(frozen=True)
class Table:
    """The rows of one metric and group in the order they print: models as trained, the best first,
    reference rows, then a block for each other way (swap, variant, memory).
    """

    metric: Metric
    group: Group
    runs: tuple[Result, ...]  # those of the group that have the metric
    rows: tuple[TableRow, ...]
    lengths: tuple[int, ...]  # of the columns: of samples, which are scored at many, a few
    evaluated: tuple[int, ...]  # all lengths with values
    replicate: str  # what a cell is the mean over: "seed", "place" or "sample"
    notes: tuple[Note, ...] = ()

    @property
    def train_length(self) -> int:
        return self.group.train_length

    @property
    def tokens(self) -> int | None:
        """Tokens of a sample of the training length; None: as many as this length."""
        return self.runs[0].train.tokens

    @property
    def blocks(self) -> list[tuple[str, list[TableRow]]]:
        """The rows by their `TableRow.block`, in order."""
        return [(name, list(rows)) for name, rows in groupby(self.rows, lambda row: row.block)]

    @property
    def of_swaps(self) -> bool:
        """Whether it compares one model with its swaps."""
        return any(row.way and row.together for row in self.rows)

    @property
    def heading(self) -> str:
        """What sets its group apart, as in "trained at 64 tokens, 350 steps"; "": nothing."""
        return groups.heading(self.group.apart)

    @property
    def title(self) -> str:
        """As in "Bits per byte, same targets (lower is better): 350 steps"."""
        return ": ".join(filter(None, [self.metric.title, self.heading]))

    def column(self, i: int, rows: Sequence[TableRow]) -> list[Cell]:
        """The cells of rows at the i-th length; empty of a row that is not `compared` there."""
        near = self.lengths[i] <= self.train_length
        return [row.cells[i] if row.compared or near else Cell() for row in rows]


def in_percent(metric: Metric) -> bool:
    """Whether it is a metric of samples of which 100 is the best value."""
    return isinstance(metric, SampleMetric) and metric.percent


def tables(study: Study) -> list[Table]:
    """The tables of every metric and group, by metric."""
    return [
        _table(study, group, metric)
        for metric in study.metrics.values()
        for group in study.groups
        if any((run.id, metric.name) in study.evaluated for run in group.runs)
    ]


def headlines(tables: Iterable[Table]) -> list[Table]:
    """The first table of each group, in the order of the tables."""
    first: dict[int, Table] = {}
    for table in tables:
        first.setdefault(id(table.group), table)
    return [*first.values()]


def shortened(table: Table, baseline: str | None = None, most: int = MODELS) -> Table:
    """The table; of more than `most` models, with the SHOWN best, and the one called `baseline`."""
    trained = [row for row in table.rows if row.trained]
    shown = {row.run for row in trained[:SHOWN]} | {r.run for r in trained if r.label == baseline}
    shown |= {""}  # reference rows
    if len(trained) <= most:
        return table
    return replace(table, rows=tuple(row for row in table.rows if row.run in shown))


def left_out(table: Table, shown: Table) -> str:
    """Which of the models of a table are shown, in a sentence; "" for all."""
    every, some = (sum(row.trained for row in one.rows) for one in (table, shown))
    if every == some:
        return ""
    return f"Shown: {some} of {every:,} models, the best first; --row chooses others."


def _column_lengths(lengths: Sequence[int], train: int) -> tuple[int, ...]:
    # Those nearest to the training length and its multiples by powers of two, and the longest.
    if len(lengths) <= COLUMNS:
        return tuple(lengths)
    wanted = [train * 2**power for power in range(COLUMNS - 1) if train * 2**power < lengths[-1]]
    near = {min(lengths, key=lambda n, goal=goal: abs(n - goal)) for goal in wanted}
    return tuple(sorted(near | {lengths[-1]}))


def _table(study: Study, group: Group, metric: Metric) -> Table:
    runs = tuple(run for run in group.runs if (run.id, metric.name) in study.evaluated)
    evaluated = {run.id: study.evaluated[run.id, metric.name] for run in runs}
    every = tuple(sorted({length for one in evaluated.values() for length in one.lengths}))
    samples = isinstance(metric, SampleMetric)
    columns = _column_lengths(every, group.train_length) if samples else every
    kind = evaluated[runs[0].id].replicas[0].kind
    alone = len(runs) == 1 and (kind != "seed" or not samples)
    empty = Table(metric, group, runs, (), columns, every, kind)
    rows = [
        replace(_scored(study, empty, run, way), together=alone)
        for run in runs
        for way in evaluated[run.id].ways
    ]
    rows.sort(key=lambda row: _order(row, metric.sign))
    marked = _marked(empty, [row for row in rows if row.candidate])
    rows = [*marked, *_references(study, empty, marked), *rows[len(marked) :]]
    for row in _methods(empty):
        ends = [i for i, other in enumerate(rows, 1) if other.block == row.block]
        rows.insert(ends[-1] if ends else len(rows), row)
    return replace(empty, rows=tuple(rows))


def _row(
    table: Table, label: str, way: Way, cells: Mapping[int, Cell], method: str = ""
) -> TableRow:
    # `cells` are by all evaluated lengths and that of training.
    metric, train = table.metric, table.train_length
    shown = tuple(cells[n] for n in table.lengths)
    beyond, reach = None, stats.Reach(None, False)
    if in_percent(metric):
        beyond = mean([cells[n] for n in table.evaluated if n > train])
        held = {
            n: 2 * sum(v >= SOLVED_BEYOND for v in cells[n].values.values()) > cells[n].replicas
            for n in table.evaluated
            if n == train
            or cells[n].values
            or {m.reason for m in cells[n].missing.values()} - UNTRIED
        }
        reach = stats.reach(held, train)
    elif getattr(metric, "compares", metric.name) not in ("divergence", "choices", "above_bayes"):
        worst = metric.sign * math.inf
        served = {
            n: worst if cells[n].lost and n > train else cells[n].mean for n in table.evaluated
        }
        reach = stats.effective_length(served, train, sign=metric.sign)
    change, replicas = minus(shown[-1], cells[train]), max(cell.replicas for cell in shown)
    return TableRow(label, way, shown, change, *reach, beyond, replicas, method=method)


def _scored(
    study: Study, table: Table, result: Result, way: Way, crop: int | None = None
) -> TableRow:
    # The row of a run; with `crop`, what it scores where it never sees more tokens at once.
    metric, train = table.metric, table.train_length
    cells = {
        n: study.scores[result.id, way, metric.name, min(n, crop or n)]
        for n in (*table.evaluated, train)
    }
    label = labels.in_way(table.group.labels[result.id], way, result.train)
    row = _row(table, f"{label}, cropped to {crop}" if crop else label, way, cells)
    solved, compared = None, True
    of_seeds = table.replicate == "seed" and (result.id, way, metric.name, train) in study.scores
    if in_percent(metric) and metric != HEADROOM and of_seeds:
        solved = sum(value >= SOLVED for value in cells[train].values.values())
        compared = cells[train].mean >= SOLVED
    elif metric.name in (BITS, "above_bayes", HEADROOM.name):
        bits = study.scores.get((result.id, way, BITS, train), Cell()).mean
        bayes = table.group.methods.get((BITS, way, "bayes"), {}).get(train, math.inf)
        compared = not bits > bayes + NEAR_BAYES
    spec = result.config.get("pe", {}).get("spec", "")
    return replace(
        row,
        run=result.id,
        names=(label, str(way)) if way else (label, result.label, spec),
        parameters=result.parameters.encoding if result.parameters and result.train.steps else None,
        ms_per_step=result.train.ms_per_step,
        seconds=study.scores[result.id, way, metric.name, table.lengths[-1]].seconds,
        rate=rate(result),
        solved=solved,
        compared=compared,
        method=CROPPED if crop else "",
    )


def rate(result: Result) -> float | None:
    """The learning rate; where several were tried, the chosen one. None in a config without one."""
    if result.rates:
        return min(result.rates, key=lambda tried: tried.mean).rate
    return result.config.get("train", {}).get("rate")


def _order(row: TableRow, sign: int) -> tuple[Any, ...]:
    return (
        natural(row.block if row.way else ""),
        not row.compared,
        *((not c.n, sign * c.mean if c.n else 0.0) for c in reversed(row.cells)),
        natural(row.label),
    )


def natural(text: str) -> list[tuple[int, str]]:
    """A key that puts "memory 48" before "memory 192"."""
    return [(int(part) if part.isdecimal() else -1, part) for part in re.split(r"(\d+)", text)]


def _marked(table: Table, rows: Sequence[TableRow]) -> list[TableRow]:
    # In bold, what no test tells from the best of its column.
    def best(cells: Sequence[Cell]) -> list[bool]:
        marks = stats.best([cell.values for cell in cells if cell.n], table.metric.sign)
        bold = iter(stats.unless_many(marks))
        return [bool(cell.n) and next(bold) for cell in cells]

    columns = [best(table.column(i, rows)) for i in range(len(table.lengths))]
    last = best([row.beyond if row.beyond and row.compared else Cell() for row in rows])
    return [
        replace(
            row,
            cells=tuple(replace(c, best=b) for c, b in zip(row.cells, marks, strict=True)),
            beyond=row.beyond and replace(row.beyond, best=end),
        )
        for row, marks, end in zip(rows, zip(*columns, strict=True), last, strict=True)
    ]


# Reference rows


def _references(study: Study, table: Table, rows: Sequence[TableRow]) -> list[TableRow]:
    metric, train, lengths = table.metric, table.train_length, table.lengths
    if isinstance(metric, SampleMetric) or lengths[-1] <= train:
        return []
    found: list[TableRow] = []
    models = {row.run: row for row in rows if row.trained}
    if train in lengths and metric.name in CROP:
        place = lengths.index(train)
        known = [row for row in models.values() if row.cells[place].n]
        best = sorted(known, key=lambda row: metric.sign * row.cells[place].mean)[:1]
        named = [models[id] for id in table.group.oracles if id in models]
        found = [
            _scored(study, table, study.runs[row.run], AS_TRAINED, train) for row in named or best
        ]
    for id, longer in table.group.oracles.items():
        ids = {run.train.length: run.id for run in longer}
        if ids.keys().isdisjoint(lengths):  # not evaluated at its own training length
            continue
        label = longer[0].label
        if id in models:
            label, ids[train] = models[id].label, id
        cells = {n: Cell.empty(f"no run of it is trained at {n}") for n in lengths}
        cells[train] = Cell.empty(f"no one run of it that is trained at {train} is shown")
        cells |= {n: study.scores[id, AS_TRAINED, metric.name, n] for n, id in ids.items()}
        found.append(_row(table, f"{label}, trained at E", AS_TRAINED, cells, TRAINED_AT))
    return found


def _methods(table: Table) -> list[TableRow]:
    # On the task as trained first, then on its variants; the most frequent target first.
    known = [
        (way, name, values)
        for (metric, way, name), values in table.group.methods.items()
        if metric == table.metric.name
    ]
    known.sort(key=lambda one: (str(one[0]), one[1] != MOST_FREQUENT, one[1]))
    rows = []
    for way, name, values in known:
        cells = dict.fromkeys((*table.evaluated, table.train_length), Cell.empty(ABSENT.sentence))
        cells |= {n: Cell({name: value}) for n, value in values.items() if not math.isnan(value)}
        label = ", ".join(filter(None, [f"no model: {NAMES.get(name, name)}", str(way)]))
        rows.append(_row(table, label, way, cells, name))
    return rows
