"""From results to the extrapolation table of a metric, as numbers: means over replicas with 95 %
intervals. `sheets` lays a table out, `sheet` prints it.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pe_jax.record import Reason, Replica, Result, Way
from pe_jax.report import groups, labels, notes, reference_rows, stats
from pe_jax.report.cells import (
    SOLVED,
    Table,
    TableRow,
    beyond,
    by_replica,
    cell,
    column_lengths,
    compared,
    describe,
    described,
    edge,
    gain,
    in_percent,
    means_beyond,
    of_samples,
    ordered,
    rate,
    seconds,
    values,
)
from pe_jax.report.sheet import Note
from pe_jax.report.words import count

MODELS, SHOWN = 100, 12
"""Of more than MODELS models none is ranked, and figures and the terminal have the SHOWN best: the
lines of more cannot be told apart, and take minutes to draw.
"""


def metrics(results: Iterable[Result]) -> list[str]:
    """The metrics that the results have rows of: those of text first, then by their mean place
    among a result's metrics, then in the order of METRICS. Registers the users' metrics of the
    results (`cells.describe`).
    """
    results = list(results)
    describe(results)
    places: dict[str, list[int]] = {}
    for result in results:
        for place, name in enumerate(dict.fromkeys(row.metric for row in result.rows)):
            places.setdefault(name, []).append(place)
    return sorted(ordered(places), key=lambda n: (of_samples(n), statistics.fmean(places[n])))


def study(results: Sequence[Result]) -> list[Table]:
    """The tables of every metric and group of the results, by metric. ValueError where the results
    hold no numbers.
    """
    models = [result for group in groups.groups(results) for result in group.results]
    found = [table for metric in metrics(models) for table in grouped(results, metric)]
    if not found:
        raise ValueError(f"the {count(len(results), 'record')} hold no numbers to report")
    return found


def headlines(reported: Iterable[Table]) -> list[Table]:
    """The first table of each group, in the order of the tables."""
    first: list[Table] = []
    for table in reported:
        if table.apart not in [other.apart for other in first]:
            first.append(table)
    return first


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


def grouped(results: Sequence[Result], metric: str = "same_targets") -> list[Table]:
    """The tables of one metric, one for each group of results that may be ranked (`groups`).
    ValueError where no result has the metric.
    """
    describe(results)
    found = [
        _table(group, metric)
        for group in groups.groups(results)
        if any(result.replicas(metric) for result in group.results)
    ]
    if not found:
        known = ", ".join(metrics(results)) or "none"
        raise ValueError(f"no record has the metric {metric!r}; the records have: {known}")
    return found


def _table(group: groups.Group, metric: str) -> Table:
    """The table of a group, ordered within its blocks by the mean at the longest length, the best
    first.

    `best` marks the models as trained that no test tells apart from the best of their column
    (`stats.best`); where there is one model, of it and its swaps. In a column where these are more
    than a third of the rows, `stats.unless_many`, none is marked.
    """
    results = [result for result in group.results if result.replicas(metric)]
    every = tuple(
        sorted({row.length for result in results for row in result.rows if row.metric == metric})
    )
    train, sign = results[0].train, described(metric).sign
    lengths = column_lengths(every, train.length) if of_samples(metric) else every
    label = labels.names(results)
    of = results[0].replicas(metric)[0].kind
    alone = len(results) == 1 and (of != "seed" or not of_samples(metric))
    rows = [
        _row(result, label[result.id], metric, lengths, every, way, alone)
        for result in results
        for way in sorted({row.way for row in result.rows if row.metric == metric}, key=str)
    ]
    whole = sorted(rows, key=lambda row: _order(row, sign))  # models as trained are the first
    trained = sum(not row.way for row in whole)
    candidates = len(whole) if alone else trained
    whole[:candidates] = _with_best(whole[:candidates], results, metric, lengths, every)
    whole[:trained] = _with_ranks(whole[:trained], results, metric, every)
    references = reference_rows.rows(results, whole[:trained], metric, lengths, group.oracles)
    whole[candidates:candidates] = references
    for row in reference_rows.task_rows(results, metric, lengths, every):
        ends = [i for i, other in enumerate(whole, 1) if other.block == row.block]
        whole.insert(ends[-1] if ends else len(whole), row)
    table = Table(
        metric, lengths, train.length, tuple(whole), (), group.apart, train.tokens, every, of
    )
    said = [Note("What is doubtful", why) for why in group.misfits]
    return replace(table, notes=(*notes.notes(results, table), *said))


def _row(
    result: Result,
    label: str,
    metric: str,
    lengths: Sequence[int],
    every: Sequence[int],
    way: Way,
    together: bool,
) -> TableRow:
    """The row of a result in one way, with cells at `lengths`; it was scored at `every` length."""
    length, sign = result.train.length, described(metric).sign
    cells = tuple(cell(result, metric, column, way) for column in lengths)
    if in_percent(metric):
        columns = {n: by_replica(result, metric, n, way) for n in every}
        known = [  # a lack of memory does not tell what the model can
            n
            for n, rows in columns.items()
            if n == length or any(r.reason is not Reason.OUT_OF_MEMORY for r in rows.values())
        ]
        replicas, scored = result.replicas(metric), [values(columns[n]) for n in known]
        found = [[of_length.get(r, math.nan) for r in replicas] for of_length in scored]
        effective, censored = stats.solved_length(known, found, length)
    elif getattr(described(metric), "compares", "") == "divergence":  # it is 0 at that length
        effective, censored = None, False
    else:
        served = [
            sign * math.inf if c.lost and n > length else c.mean
            for n, c in zip(lengths, cells, strict=True)
        ]
        effective, censored = stats.effective_length(lengths, served, length, sign=sign)
    solved, enough = _solved(result, metric, way)
    learned = result.parameters if result.train.steps else None
    return TableRow(
        run=result.id,
        label=labels.in_way(label, way, result.train),
        way=way,
        replicas=len(result.replicas(metric)),
        cells=cells,
        gain=gain(result, metric, lengths[-1], way),
        effective=effective,
        censored=censored,
        parameters=learned.encoding if learned else None,
        ms_per_step=result.train.ms_per_step,
        seconds=seconds(result, metric, lengths[-1], way),
        together=together,
        rate=rate(result),
        rate_edge=edge(result),
        solved=solved,
        compared=enough,
        beyond=beyond(result, metric, every, way) if in_percent(metric) else None,
    )


def _solved(result: Result, metric: str, way: Way) -> tuple[int | None, bool]:
    """`TableRow.solved` and `TableRow.compared` of a row."""
    at_train = by_replica(result, metric, result.train.length, way)
    if not in_percent(metric) or not at_train or result.replicas(metric)[0].kind != "seed":
        return None, True
    right = list(values(at_train).values())
    return sum(one >= SOLVED for one in right), bool(right) and statistics.fmean(right) >= SOLVED


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


def _with_best(
    rows: list[TableRow],
    results: Sequence[Result],
    metric: str,
    lengths: Sequence[int],
    every: Sequence[int],
) -> list[TableRow]:
    by_id, sign = {result.id: result for result in results}, described(metric).sign
    runs = [(row, by_id[row.run]) for row in rows]

    def marked(samples: list[dict[Replica, float]]) -> list[bool]:
        bold = iter(stats.unless_many(stats.best([*filter(None, samples)], sign)))
        return [bool(sample) and next(bold) for sample in samples]

    columns = [[compared(row, run, metric, length) for row, run in runs] for length in lengths]
    means = [means_beyond(run, metric, every, row.way) if row.compared else {} for row, run in runs]
    found = []
    bold = zip(*map(marked, [*columns, means]), strict=True)
    for row, (*marks, last) in zip(rows, bold, strict=True):
        cells = tuple(replace(c, best=b) for c, b in zip(row.cells, marks, strict=True))
        found.append(
            replace(row, cells=cells, beyond=row.beyond and replace(row.beyond, best=last))
        )
    return found


def _with_ranks(
    rows: list[TableRow], results: Sequence[Result], metric: str, lengths: Sequence[int]
) -> list[TableRow]:
    ranked = [row for row in rows if row.compared]
    if not 2 <= len(ranked) <= MODELS:
        return rows
    scores = _scores_beyond(ranked, results, metric, lengths)
    if not scores.size:
        return rows
    ranks = iter(stats.reciprocal_ranks(scores))
    return [replace(row, rank=next(ranks)) if row.compared else row for row in rows]


def _scores_beyond(
    rows: Sequence[TableRow], results: Sequence[Result], metric: str, lengths: Sequence[int]
) -> np.ndarray:
    """The values of rows of models as trained at lengths beyond training, with a sign by which
    lower is better: [rows, replicas, lengths], of the replicas that all results have. NaN: no
    value.
    """
    by_id = {result.id: result for result in results}
    replicas = sorted(set.intersection(*(set(result.replicas(metric)) for result in results)))
    longer = [length for length in lengths if length > results[0].train.length]
    scores = np.full((len(rows), len(replicas), len(longer)), math.nan)
    for i, row in enumerate(rows):
        for k, length in enumerate(longer):
            scored = values(by_replica(by_id[row.run], metric, length))
            scores[i, :, k] = [scored.get(replica, math.nan) for replica in replicas]
    return described(metric).sign * scores
