"""The reference rows of a table, with which its models are compared by eye. In a table of text they
show what a longer context is worth:

A, cropped to L       the value of A at the training length L, at every longer length: what A scores
                      where it never sees more than L tokens at once
A, trained at E       at each length E the value at E of A trained at E: the runs of the study whose
                      `run.oracle_of` is L, and at L the value of A itself

A is the model with such runs, else the model with the best value at L. In a table of samples they
are the methods without a model, such as the most frequent answer. Reference rows have no rank, no
bold and no test.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pe_jax.record import AS_TRAINED, Replica, Result, Way
from pe_jax.report import headroom, stats
from pe_jax.report.cells import (
    CROPPED,
    TRAINED_AT,
    Cell,
    Table,
    TableRow,
    by_replica,
    cell,
    described,
    in_percent,
    of_samples,
    values,
)
from pe_jax.report.headroom import LEAST
from pe_jax.report.style import Line, Look

CROP = ("same_targets", "nonoverlapping")
"""The metrics that score the same tokens at every length."""


def rows(
    results: Sequence[Result],
    trained: Sequence[TableRow],
    metric: str,
    lengths: Sequence[int],
    oracles: Sequence[Result],
) -> list[TableRow]:
    """The reference rows of the models as trained, whose rows are `trained`. `lengths` are those of
    the cells; `oracles` are runs of longer training lengths.
    """
    length = results[0].train.length
    if of_samples(metric) or lengths[-1] <= length:
        return []
    by_run = {row.run: row for row in trained}
    by_id = {result.id: result for result in results}
    by_model = headroom.by_model(oracles, results)
    found = []
    if length in lengths and metric in CROP:
        place, sign = lengths.index(length), described(metric).sign
        known = [row for row in trained if row.cells[place].n]
        best = sorted(known, key=lambda row: sign * row.cells[place].mean)[:1]
        named = [by_run[model] for model in by_model if model in by_run]
        found = [_cropped(row, length, lengths) for row in named or best]
    for model, longer in by_model.items():
        runs, label = {oracle.train.length: oracle for oracle in longer}, longer[0].label
        if {*runs}.isdisjoint(lengths):  # not evaluated at its own training length here
            continue
        if row := by_run.get(model):
            label, runs[length] = row.label, by_id[row.run]
        found.append(_trained_at(label, runs, metric, lengths, length))
    return found


def _cropped(row: TableRow, train: int, lengths: Sequence[int]) -> TableRow:
    at_train = replace(row.cells[lengths.index(train)], best=False)
    cells = [
        at_train if length > train else replace(known, best=False)
        for length, known in zip(lengths, row.cells, strict=True)
    ]
    return replace(
        row,
        label=f"{row.label}, cropped to {train}",
        cells=tuple(cells),
        gain=Cell(*stats.interval([0.0] * at_train.n)),
        effective=lengths[-1],
        censored=True,
        rank=None,
        method=CROPPED,
    )


def _trained_at(
    label: str, runs: Mapping[int, Result], metric: str, lengths: Sequence[int], train: int
) -> TableRow:
    """The row of the runs of a model by their training lengths."""
    why = {n: f"no run of it is trained at {n}" for n in lengths}
    why[train] = f"no one run of it that is trained at {train} is shown"
    cells = [cell(runs[n], metric, n) if n in runs else Cell(reason=why[n]) for n in lengths]
    ends: list[dict[Replica, float]] = [
        values(by_replica(runs[n], metric, n)) if n in runs else {} for n in (lengths[-1], train)
    ]
    sign = described(metric).sign
    effective, censored = stats.effective_length(lengths, [c.mean for c in cells], train, sign=sign)
    return TableRow(
        run="",
        label=f"{label}, trained at E",
        way=AS_TRAINED,
        replicas=max(len(run.replicas(metric)) for run in runs.values()),
        cells=tuple(cells),
        gain=Cell(*stats.paired(*ends)),
        effective=effective,
        censored=censored,
        method=TRAINED_AT,
    )


# Notes on reference rows


TIMES = 4
"""Where a context so many times as long gains less than LEAST, a study measures robustness."""


def note(table: Table) -> Iterator[str]:
    """What the reference rows of text are, where the table has some."""
    methods = {row.method for row in table.rows}
    if CROPPED in methods:
        yield (
            f"A, cropped to {table.train_length}: the value of A at {table.train_length} at every "
            "longer length, what it scores where it never sees more tokens at once."
        )
    if TRAINED_AT in methods:
        yield (
            "A, trained at E: at each length E the value of A trained at windows of E, on the same "
            "text for as many steps: what the longer context is worth to a model that has learned "
            "with it."
        )
    if methods & {CROPPED, TRAINED_AT}:
        yield "Rows of reference have no rank, no bold and no test."


def worth(results: Sequence[Result], table: Table) -> Iterator[str]:
    """How much better a model trained at a longer length is than the one cropped to `train`."""
    lengths, train = table.lengths, table.train_length
    if not results[0].train.steps or table.metric != "same_targets" or lengths[-1] <= train:
        return
    oracles = [row for row in table.rows if row.method == TRAINED_AT]
    if not oracles:
        yield (
            "What a longer context is worth on this text is not measured: no run of the study is "
            "trained at a longer length (run.oracle_of)."
        )
    for row in oracles:
        served = [n for n, c in zip(lengths, row.cells, strict=True) if c.n and n >= train]
        if train not in served or served == [train]:
            continue
        far = TIMES * train if TIMES * train in served else served[-1]
        start, end = (row.cells[lengths.index(n)].mean for n in (train, far))
        gained = start - end
        unit = described(table.metric).unit
        label = row.label.removesuffix(", trained at E")
        little = (
            f" A longer context is worth less than {LEAST:g} on this text: the table shows "
            "robustness to far tokens, not the use of them."
        )
        yield (
            f"{label} trained at {far} scores {abs(gained):.3f} {unit} "
            f"{'below' if gained >= 0 else 'above'} {label} cropped to {train}."
            f"{little * (0 <= gained < LEAST)}"
        )


# Methods without a model


MOST_FREQUENT, SYMBOL = "most frequent", "most frequent symbol"
NAMES = {MOST_FREQUENT: "most frequent target", "bayes": "Bayes"}
SAID = {
    "bayes": "the prediction that is best on average, given the tokens so far",
    MOST_FREQUENT: "the target that its place has most often in other samples",
    "3-gram": "how often each label came behind the last three tokens in other samples",
    SYMBOL: "the target that all places of other samples together have most often",
    "guess": "a simple method of the task's own",
}
DASHES = {MOST_FREQUENT: ":", SYMBOL: (0, (1, 3)), "bayes": "--"}


def task_rows(
    results: Sequence[Result], metric: str, lengths: Sequence[int], every: Sequence[int]
) -> list[TableRow]:
    """A row for each method with values of this metric: on the task as trained first, then on its
    variants, the most frequent target before other methods. Cells are at `lengths`, of `every`
    length scored.
    """
    scores, train = _scores(results, metric), results[0].train.length
    order = sorted(scores, key=lambda pair: (str(pair[0]), pair[1] != MOST_FREQUENT, pair[1]))
    return [
        _row(name, way, scores[way, name], lengths, every, train, metric) for way, name in order
    ]


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


def task_lines(results: Sequence[Result], metric: str) -> list[Line]:
    """A grey line for each method with values of this metric, on the task as trained."""
    scores = _scores(results, metric)
    values = {name: by_length for (way, name), by_length in scores.items() if not way}
    return [
        Line.through(
            [(length, value, math.nan) for length, value in sorted(points.items())],
            NAMES.get(name, name),
            Look("#808080", DASHES.get(name, "-."), ""),
        )
        for name, points in sorted(values.items())
    ]


def _scores(results: Sequence[Result], metric: str) -> dict[tuple[Way, str], dict[int, float]]:
    """The values of each method by length, by the way of evaluation and the method's name.

    The samples are the same for all results of a table, and so are the values: the first result in
    the order of ids that has one gives it.
    """
    scores: dict[tuple[Way, str], dict[int, float]] = {}
    for result in sorted(results, key=lambda result: result.id):
        for one in result.baselines:
            if one.metric == metric:
                scores.setdefault((one.way, one.name), {}).setdefault(one.length, one.value)
    return scores


def task_note(table: Table) -> Iterator[str]:
    """What the rows without a model are, where the table has some."""
    names = dict.fromkeys(
        row.method for row in table.rows if row.method and row.block != "reference"
    )
    if names:
        told = "; ".join(f"{NAMES.get(name, name)}: {SAID.get(name, name)}" for name in names)
        yield f"No model: what a method that learns nothing scores on the same samples ({told})."


def _row(
    name: str,
    way: Way,
    values: dict[int, float],
    lengths: Sequence[int],
    every: Sequence[int],
    train: int,
    metric: str,
) -> TableRow:
    at = [values.get(length, math.nan) for length in every]
    gain, beyond = Cell(), None
    if in_percent(metric):
        effective, censored = stats.solved_length(every, [[value] for value in at], train)
        beyond = _cell([value for length, value in zip(every, at, strict=True) if length > train])
    else:
        sign = described(metric).sign
        effective, censored = stats.effective_length(every, at, train, sign=sign)
        gain = _cell([values.get(every[-1], math.nan) - values.get(train, math.nan)])
    return TableRow(
        run="",
        label=", ".join(filter(None, [f"no model: {NAMES.get(name, name)}", str(way)])),
        way=way,
        replicas=0,
        cells=tuple(_cell([values.get(length, math.nan)]) for length in lengths),
        gain=gain,
        effective=effective,
        censored=censored,
        beyond=beyond,
        method=name,
    )


def _cell(values: Sequence[float]) -> Cell:
    """The mean of a method's values, without an interval; no value where one is missing."""
    if not values or any(math.isnan(value) for value in values):
        return Cell(reason="not evaluated")
    return Cell(mean=sum(values) / len(values), n=1)
