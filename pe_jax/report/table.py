"""The table of a metric and a group of runs: means over replicas with 95 % intervals.

A cell keeps the values that it is the mean of: bold marks and differences from a baseline are
computed from the table alone. sheets.py lays a table out, sheet.py prints it.

Reference rows are compared with the models by eye, and have no rank, no bold and no test. In a
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
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np

from pe_jax.metric import Metric, SampleMetric
from pe_jax.record import AS_TRAINED, SENTENCES, Reason, Replica, Result, Way
from pe_jax.report import groups, labels, stats
from pe_jax.report.sheet import Note
from pe_jax.report.study import Evaluated, Group, Missing, Scores, Study

SOLVED = 99.0
"""Percent right from which on a seed, or the mean of a model, solves the training length; beyond
it, it is `stats.SOLVED_BEYOND`."""
CROPPED, TRAINED_AT = "cropped", "trained at E"
"""The methods of reference rows of text."""
CROP = ("same_targets", "nonoverlapping")
"""The metrics that score the same tokens at every length."""
COLUMNS = 7
"""How many lengths a table of samples has at most."""
MODELS, SHOWN = 100, 12
"""Of more than MODELS models none is ranked, and figures and the terminal have the SHOWN best: the
lines of more cannot be told apart, and take minutes to draw.
"""
MOST_FREQUENT = "most frequent"
NAMES = {MOST_FREQUENT: "most frequent target", "bayes": "Bayes"}
ABSENT = Missing(Reason.NOT_EVALUATED, SENTENCES[Reason.NOT_EVALUATED])


@dataclass(frozen=True)
class Cell:
    """A mean of values by replica and the half width of its 95 % interval."""

    values: Mapping[Any, float] = field(default_factory=dict, repr=False)
    mean: float = math.nan
    half: float = math.nan
    n: int = 0
    reason: str = ""  # why replicas are missing, for a footnote
    lost: bool = False  # the model cannot serve the length: too many positions, or not finite
    best: bool = False  # prints bold: no test tells it from the best of its column

    @classmethod
    def of(cls, scores: Scores, replicas: Sequence[Replica] = ()) -> Cell:
        """The cell of scores, of which each of `replicas` should have one."""
        missing = {r: scores.missing.get(r, ABSENT) for r in replicas if r not in scores.values}
        each = "; ".join(f"{replica} {why.sentence}" for replica, why in missing.items())
        reasons = {why.sentence for why in missing.values()}
        reason = each if len(reasons) > 1 else "".join(reasons)
        if missing and scores.values:
            reason = f"n={len(scores.values)} of {len(replicas)}: {each}"
        kinds = {why.reason for why in missing.values()}
        lost = bool(kinds) and kinds <= {Reason.BEYOND_POSITIONS, Reason.NOT_FINITE}
        interval = stats.interval([*scores.values.values()])
        return cls(scores.values, *interval, reason, lost and not scores.values)


@dataclass(frozen=True, eq=False)
class TableRow:
    """One model as trained or scored in another way, a reference, or a method without a model.

    `gain` is the value at the longest length minus the one at the training length, paired over
    replicas; `effective` and `censored` are those of `stats.effective_length` on the means, of
    samples in percent of `stats.solved_length`, and `beyond` is the mean over all lengths beyond
    training.
    """

    run: str
    label: str
    way: Way
    cells: tuple[Cell, ...]
    gain: Cell
    effective: int | None
    censored: bool
    replicas: int = 0  # how many scores a cell should be the mean of
    names: tuple[str, ...] = ()  # what a user may call it, the most exact first
    parameters: int | None = None  # numbers that its encodings have learned
    ms_per_step: float | None = None
    seconds: float | None = None  # of a window of the longest length, the median over places
    rate: float | None = None  # the learning rate, of several the chosen one
    rate_edge: str = ""  # "lowest" or "highest" where the rate is that of those tried
    solved: int | None = None  # of a task: how many seeds solve the training length
    compared: bool = True  # with others beyond the training length: of a task only if it is solved
    rank: stats.Rank | None = None  # over lengths beyond training, of models as trained
    beyond: Cell | None = None
    method: str = ""  # of a method without a model its name, or CROPPED or TRAINED_AT
    together: bool = False  # whether all swaps stand in one block: where a table has one model

    @property
    def trained(self) -> bool:
        """Whether it is a model as trained, on the task that it was trained on."""
        return not self.way and not self.method

    @property
    def candidate(self) -> bool:
        """Whether it may be bold and have a baseline: a model as trained, or a swap of a single
        model.
        """
        return self.trained or bool(self.way and self.together)

    @property
    def cost(self) -> float | None:
        """Milliseconds of a training step; of a pretrained model `seconds`."""
        return self.ms_per_step if self.seconds is None else self.seconds

    @property
    def summary(self) -> Cell:
        """The headline number: `beyond`, or the gain."""
        return self.gain if self.beyond is None else self.beyond

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

    def column(self, i: int, rows: Sequence[TableRow]) -> list[Mapping[Replica, float]]:
        """The values of rows at the i-th length; none of a row that is not `compared` there."""
        near = self.lengths[i] <= self.train_length
        return [row.cells[i].values if row.compared or near else {} for row in rows]


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


def shortened(table: Table, baseline: str | None = None) -> Table:
    """The table; of more than MODELS models, with the SHOWN best, and the one called `baseline`."""
    trained = [row for row in table.rows if row.trained]
    shown = {row.run for row in trained[:SHOWN]} | {r.run for r in trained if r.label == baseline}
    if len(trained) <= MODELS:
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
    own = {run.id: study.evaluated[run.id, metric.name] for run in runs}
    every = tuple(sorted({length for one in own.values() for length in one.lengths}))
    samples = isinstance(metric, SampleMetric)
    columns = _column_lengths(every, group.train_length) if samples else every
    kind = own[runs[0].id].replicas[0].kind
    alone = len(runs) == 1 and (kind != "seed" or not samples)
    empty = Table(metric, group, runs, (), columns, every, kind)
    rows = sorted(
        (
            _row(study, empty, run, way, own[run.id], alone)
            for run in runs
            for way in own[run.id].ways
        ),
        key=lambda row: _order(row, metric.sign),
    )
    candidates = [row for row in rows if row.candidate]
    marked = _ranked(study, empty, _marked(empty, candidates))
    rows = [*marked, *_references(study, empty, marked), *rows[len(marked) :]]
    for row in _methods(empty):
        ends = [i for i, other in enumerate(rows, 1) if other.block == row.block]
        rows.insert(ends[-1] if ends else len(rows), row)
    return replace(empty, rows=tuple(rows))


def _row(
    study: Study, table: Table, result: Result, way: Way, own: Evaluated, alone: bool
) -> TableRow:
    metric, train, columns = table.metric, result.train.length, table.lengths
    scores = {n: study.scores[result.id, way, metric.name, n] for n in (*table.evaluated, train)}
    cells = tuple(Cell.of(scores[n], own.replicas) for n in columns)
    start, end = scores[train], scores[columns[-1]]
    beyond, solved, compared = None, None, True
    effective, censored = None, False
    if in_percent(metric):
        beyond = Cell.of(mean([scores[n] for n in table.evaluated if n > train]), own.replicas)
        # a lack of memory does not tell what the model can
        known = [n for n in table.evaluated if n == train or _is_tried(scores[n])]
        values = [[scores[n].values.get(r, math.nan) for r in own.replicas] for n in known]
        effective, censored = stats.solved_length(known, values, train)
        if own.replicas[0].kind == "seed" and (start.values or start.missing):
            right = list(start.values.values())
            solved = sum(value >= SOLVED for value in right)
            compared = bool(right) and statistics.fmean(right) >= SOLVED
    elif getattr(metric, "compares", "") != "divergence":  # which is 0 at the training length
        served = [
            metric.sign * math.inf if cell.lost and n > train else cell.mean
            for n, cell in zip(columns, cells, strict=True)
        ]
        effective, censored = stats.effective_length(columns, served, train, sign=metric.sign)
    shared = sorted(start.values.keys() & end.values.keys())
    gains = {replica: end.values[replica] - start.values[replica] for replica in shared}
    label = labels.in_way(table.group.labels[result.id], way, result.train)
    spec = result.config.get("pe", {}).get("spec", "")
    return TableRow(
        run=result.id,
        label=label,
        way=way,
        cells=cells,
        gain=Cell.of(Scores(gains, end.missing | start.missing), own.replicas),
        effective=effective,
        censored=censored,
        replicas=len(own.replicas),
        names=(label, str(way)) if way else (label, result.label, spec),
        parameters=result.parameters.encoding if result.parameters and result.train.steps else None,
        ms_per_step=result.train.ms_per_step,
        seconds=end.seconds,
        rate=rate(result),
        rate_edge=_edge(result),
        solved=solved,
        compared=compared,
        beyond=beyond,
        together=alone,
    )


def rate(result: Result) -> float | None:
    """The learning rate; where several were tried, the chosen one. None in a config without one."""
    if result.rates:
        return min(result.rates, key=lambda tried: tried.mean).rate
    return result.config.get("train", {}).get("rate")


def _edge(result: Result) -> str:
    chosen, tried = rate(result), {one.rate for one in result.rates}
    if len(tried) < 2:
        return ""
    return "lowest" if chosen == min(tried) else "highest" if chosen == max(tried) else ""


def _is_tried(scores: Scores) -> bool:
    why = [missing.reason for missing in scores.missing.values()]
    return bool(scores.values) or any(reason is not Reason.OUT_OF_MEMORY for reason in why)


def mean(lengths: Sequence[Scores]) -> Scores:
    """The mean over lengths of each replica that has all of them."""
    shared = set.intersection(*(set(one.values) for one in lengths)) if lengths else set()
    return Scores(
        {r: sum(one.values[r] for one in lengths) / len(lengths) for r in sorted(shared)},
        {r: why for one in lengths for r, why in one.missing.items()},
    )


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
    def best(samples: Sequence[Mapping[Replica, float]]) -> list[bool]:
        marks = stats.best([*filter(None, samples)], table.metric.sign)
        bold = iter(stats.unless_many(marks))
        return [bool(sample) and next(bold) for sample in samples]

    columns = [best(table.column(i, rows)) for i in range(len(table.lengths))]
    last = best([row.beyond.values if row.beyond and row.compared else {} for row in rows])
    return [
        replace(
            row,
            cells=tuple(replace(c, best=b) for c, b in zip(row.cells, marks, strict=True)),
            beyond=row.beyond and replace(row.beyond, best=end),
        )
        for row, marks, end in zip(rows, zip(*columns, strict=True), last, strict=True)
    ]


def _ranked(study: Study, table: Table, rows: list[TableRow]) -> list[TableRow]:
    ranked = [row for row in rows if row.trained and row.compared]
    longer = [n for n in table.evaluated if n > table.train_length]
    metric = table.metric.name
    every = [study.evaluated[run.id, metric].replicas for run in table.runs]
    replicas = sorted(set.intersection(*map(set, every)))
    if not 2 <= len(ranked) <= MODELS or not longer or not replicas:
        return rows
    scores = [[study.scores[row.run, AS_TRAINED, metric, n] for n in longer] for row in ranked]
    values = [[[one.values.get(r, math.nan) for one in own] for r in replicas] for own in scores]
    ranks = stats.reciprocal_ranks(table.metric.sign * np.array(values))
    by_row = dict(zip(ranked, ranks, strict=True))
    return [replace(row, rank=by_row.get(row)) for row in rows]


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
        found = [_cropped(row, place, lengths) for row in named or best]
    for id, longer in table.group.oracles.items():
        ids = {run.train.length: run.id for run in longer}
        if ids.keys().isdisjoint(lengths):  # not evaluated at its own training length
            continue
        label = longer[0].label
        if id in models:
            label, ids[train] = models[id].label, id
        found.append(_trained_at(study, table, label, ids))
    return found


def _cropped(row: TableRow, place: int, lengths: Sequence[int]) -> TableRow:
    cells = [replace(cell, best=False) for cell in row.cells]
    return replace(
        row,
        label=f"{row.label}, cropped to {lengths[place]}",
        cells=(*cells[:place], *[cells[place]] * (len(lengths) - place)),
        gain=Cell.of(Scores(dict.fromkeys(cells[place].values, 0.0))),
        effective=lengths[-1],
        censored=True,
        rank=None,
        method=CROPPED,
    )


def _trained_at(study: Study, table: Table, label: str, ids: Mapping[int, str]) -> TableRow:
    metric, train, lengths = table.metric, table.train_length, table.lengths
    why = {n: f"no run of it is trained at {n}" for n in lengths}
    why[train] = f"no one run of it that is trained at {train} is shown"
    replicas = {
        n: study.evaluated[id, metric.name].replicas
        for n, id in ids.items()
        if (id, metric.name) in study.evaluated
    }
    scores = {n: study.scores[id, AS_TRAINED, metric.name, n] for n, id in ids.items()}
    cells = [
        Cell.of(scores[n], replicas.get(n, ())) if n in scores else Cell(reason=why[n])
        for n in lengths
    ]
    ends = [scores.get(n, Scores()).values for n in (lengths[-1], train)]
    means = [cell.mean for cell in cells]
    effective, censored = stats.effective_length(lengths, means, train, sign=metric.sign)
    return TableRow(
        run="",
        label=f"{label}, trained at E",
        way=AS_TRAINED,
        cells=tuple(cells),
        gain=Cell({}, *stats.paired(*ends)),
        effective=effective,
        censored=censored,
        replicas=max(map(len, replicas.values()), default=0),
        method=TRAINED_AT,
    )


def _methods(table: Table) -> list[TableRow]:
    # On the task as trained first, then on its variants; the most frequent target first.
    known = [
        (way, name, values)
        for (metric, way, name), values in table.group.methods.items()
        if metric == table.metric.name
    ]
    known.sort(key=lambda one: (str(one[0]), one[1] != MOST_FREQUENT, one[1]))
    return [_method(table, *one) for one in known]


def _method(table: Table, way: Way, name: str, values: Mapping[int, float]) -> TableRow:
    def cell(known: Sequence[float]) -> Cell:
        if not known or any(map(math.isnan, known)):
            return Cell(reason="not evaluated")
        return Cell(mean=sum(known) / len(known), n=1)

    train, every = table.train_length, table.evaluated
    at = {n: values.get(n, math.nan) for n in (*every, train)}
    gain, beyond = Cell(), None
    if in_percent(table.metric):
        effective, censored = stats.solved_length(every, [[at[n]] for n in every], train)
        beyond = cell([at[n] for n in every if n > train])
    else:
        means, sign = [at[n] for n in every], table.metric.sign
        effective, censored = stats.effective_length(every, means, train, sign=sign)
        gain = cell([at[every[-1]] - at[train]])
    return TableRow(
        run="",
        label=", ".join(filter(None, [f"no model: {NAMES.get(name, name)}", str(way)])),
        way=way,
        cells=tuple(cell([at[n]]) for n in table.lengths),
        gain=gain,
        effective=effective,
        censored=censored,
        beyond=beyond,
        method=name,
    )
