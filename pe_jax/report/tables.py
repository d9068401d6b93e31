"""From results to the extrapolation table of a metric, as numbers: means over seeds with 95 %
intervals. `formats` prints a table.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pe_jax.record import Result
from pe_jax.report import labels, sentences, stats
from pe_jax.report.cells import Row, Table, by_seed, cell, described, gain, ordered, value


def metrics(results: Iterable[Result]) -> list[str]:
    """The metrics that the results have rows of: those of METRICS first, in its order."""
    return ordered(row.metric for result in results for row in result.rows)


def extrapolation(results: Sequence[Result], metric: str = "same_targets") -> Table:
    """The table of one metric, ordered within its blocks by the mean at the longest length, the
    best first.

    `best` marks the best mean of a column among the models as trained, and every mean that is the
    same to two decimals. A ValueError says when no result has the metric.
    """
    scored = [row for result in results for row in result.rows if row.metric == metric]
    if not scored:
        known = ", ".join(metrics(results)) or "none"
        raise ValueError(f"no record has the metric {metric!r}; the records have: {known}")
    lengths = tuple(sorted({row.length for row in scored}))
    sign = described(metric).sign
    label = labels.names(results)
    rows = [
        _row(result, label[result.id], metric, lengths, swap)
        for result in results
        for swap in sorted({row.swap for row in result.rows if row.metric == metric})
    ]
    ordered = sorted(rows, key=lambda row: _order(row, sign))
    trained = _with_best([row for row in ordered if not row.swap], sign)
    trained = _with_ranks(trained, results, metric, lengths)
    train_lengths = tuple(sorted({result.train.length for result in results}))
    whole = (*trained, *(row for row in ordered if row.swap))
    table = Table(metric, lengths, train_lengths, whole)
    return replace(table, notes=sentences.notes(results, table))


def _row(result: Result, label: str, metric: str, lengths: Sequence[int], swap: str) -> Row:
    length, sign = result.train.length, described(metric).sign
    cells = tuple(cell(result, metric, column, swap) for column in lengths)
    served = [sign * math.inf if c.beyond else c.mean for c in cells]
    effective, censored = stats.effective_length(lengths, served, length, sign=sign)
    return Row(
        run=result.id,
        label=labels.swapped(label, swap, length),
        swap=swap,
        cells=cells,
        gain=gain(result, metric, lengths[-1], swap),
        effective=effective,
        censored=censored,
        parameters=result.parameters.encoding if result.parameters else None,
        ms_per_step=result.train.ms_per_step,
    )


def _order(row: Row, sign: int) -> tuple[Any, ...]:
    return (
        _natural(row.swap),
        *((not c.n, sign * c.mean if c.n else 0.0) for c in reversed(row.cells)),
        row.label,
    )


def _natural(text: str) -> list[tuple[int, str]]:
    """A key that puts "memory 48" before "memory 192"."""
    return [(int(part) if part.isdecimal() else -1, part) for part in re.split(r"(\d+)", text)]


def _with_best(rows: list[Row], sign: int) -> list[Row]:
    columns = zip(*(row.cells for row in rows), strict=True)
    best = [
        min((round(c.mean, 2) for c in column if c.n), key=lambda mean: sign * mean, default=None)
        for column in columns
    ]
    return [
        replace(
            row,
            cells=tuple(
                replace(c, best=c.n > 0 and round(c.mean, 2) == mean)
                for c, mean in zip(row.cells, best, strict=True)
            ),
        )
        for row in rows
    ]


def _with_ranks(
    rows: list[Row], results: Sequence[Result], metric: str, lengths: Sequence[int]
) -> list[Row]:
    by_id = {result.id: result for result in results}
    seeds = sorted(set.intersection(*(set(result.seeds) for result in results)))
    trained = max(result.train.length for result in results)
    beyond = [length for length in lengths if length > trained]
    if len(rows) < 2 or not seeds or not beyond:
        return rows
    values = np.full((len(rows), len(seeds), len(beyond)), math.nan)
    for i, row in enumerate(rows):
        for k, length in enumerate(beyond):
            scored = by_seed(by_id[row.run], metric, length)
            values[i, :, k] = [value(scored[s]) if s in scored else math.nan for s in seeds]
    ranks = stats.reciprocal_ranks(described(metric).sign * values)
    return [replace(row, rank=rank) for row, rank in zip(rows, ranks, strict=True)]
