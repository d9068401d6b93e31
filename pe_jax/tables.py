"""From run records to the extrapolation table of a metric, as numbers.

Values are bits per byte, lower is better, means over seeds with 95 % intervals. `pe_jax.render`
prints a table; `frame` gives the raw rows of all records to pandas.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pe_jax import captions, labels, stats

if TYPE_CHECKING:
    import pandas

Record = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """A mean over n seeds and the half width of its interval; `reason`: why seeds are missing."""

    mean: float = math.nan
    half: float = math.nan
    n: int = 0
    reason: str = ""
    best: bool = False


@dataclass(frozen=True)
class Row:
    """One model, as trained (swap "") or with a swap: a cell a length, and what follows from them.

    `gain` is the value at the longest length minus the one at the training length, paired over
    seeds; `effective` and `censored` are those of `stats.effective_length` on the means; `rank` is
    over the lengths beyond training, for models as trained.
    """

    run: str
    label: str
    swap: str
    cells: tuple[Cell, ...]
    gain: Cell
    effective: int | None
    censored: bool
    parameters: int | None
    ms_per_step: float | None
    rank: stats.Rank | None = None


@dataclass(frozen=True)
class Table:
    """The rows of one metric in the order they print: the models as trained, then the swaps."""

    metric: str
    lengths: tuple[int, ...]
    train_lengths: tuple[int, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()


def value(row: Record) -> float:
    """The number of a record's row, NaN where it was not computed or is not finite."""
    number = row["value"]
    return float(number) if number is not None and math.isfinite(number) else math.nan


def metrics(records: Iterable[Record]) -> list[str]:
    """The metrics of the records: the known ones first, in the order of captions.PROTOCOL."""
    found = {row["metric"] for record in records for row in record["rows"]}
    return [m for m in captions.PROTOCOL if m in found] + sorted(found - captions.PROTOCOL.keys())


def frame(records: Iterable[Record]) -> pandas.DataFrame:
    """Every row of every record in long format, one number (or reason for none) a line."""
    import pandas

    columns = ["run", "label", "seed", "swap", "metric", "length", "value", "reason"]
    rows = [
        {"run": record["id"], "label": record["label"], "swap": "", "reason": ""}
        | row
        | {"value": value(row), "train_length": record["train"]["length"]}
        for record in records
        for row in record["rows"]
    ]
    return pandas.DataFrame(rows, columns=[*columns, "train_length"])


def by_seed(record: Record, metric: str, length: int, swap: str = "") -> dict[int, Record]:
    """The rows of one cell, by seed."""
    wanted = (metric, length, swap)
    return {
        row["seed"]: row
        for row in record["rows"]
        if (row["metric"], row["length"], row.get("swap", "")) == wanted
    }


def cell(record: Record, metric: str, length: int, swap: str = "") -> Cell:
    """Mean and interval over the seeds that have a value, and why the others have none."""
    rows = by_seed(record, metric, length, swap)
    found = _values(rows)
    return _explained(stats.interval(list(found.values())), found, rows, record["seeds"])


def _gain(record: Record, metric: str, longest: int, swap: str) -> Cell:
    start = by_seed(record, metric, record["train"]["length"], swap)
    end = by_seed(record, metric, longest, swap)
    before, after = _values(start), _values(end)
    blame = end | {seed: row for seed, row in start.items() if seed not in before}
    seeds = before.keys() & after.keys()
    return _explained(stats.paired(after, before), seeds, blame, record["seeds"])


def _values(rows: dict[int, Record]) -> dict[int, float]:
    return {seed: value(row) for seed, row in rows.items() if not math.isnan(value(row))}


def _explained(
    found: stats.Interval, have: Iterable[int], rows: dict[int, Record], seeds: Sequence[int]
) -> Cell:
    have = set(have)
    why = {
        seed: (rows[seed].get("reason") or "not finite") if seed in rows else "not evaluated"
        for seed in seeds
        if seed not in have
    }
    each = "; ".join(f"seed {seed} {reason}" for seed, reason in why.items())
    if why and found.n:
        return Cell(*found, f"n={found.n} of {len(seeds)}: {each}")
    return Cell(*found, each if len(set(why.values())) > 1 else "".join(set(why.values())))


def _row(record: Record, label: str, metric: str, lengths: Sequence[int], swap: str) -> Row:
    length, ms = record["train"]["length"], record["train"].get("ms_per_step")
    cells = tuple(cell(record, metric, column, swap) for column in lengths)
    served = [math.inf if c.reason.startswith("beyond") else c.mean for c in cells]
    effective, censored = stats.effective_length(lengths, served, length)
    return Row(
        run=record["id"],
        label=labels.swapped(label, swap, length),
        swap=swap,
        cells=cells,
        gain=_gain(record, metric, lengths[-1], swap),
        effective=effective,
        censored=censored,
        parameters=record.get("parameters", {}).get("encoding"),
        ms_per_step=None if ms is None else float(ms),
    )


def extrapolation(records: Sequence[Record], metric: str = "same_targets") -> Table:
    """The table of one metric, ordered within its blocks by the mean at the longest length.

    `best` marks the lowest mean of a column among the models as trained, and every mean that is
    the same to two decimals. A ValueError says when no record has the metric.
    """
    rows = [row for record in records for row in record["rows"] if row["metric"] == metric]
    if not rows:
        known = ", ".join(metrics(records)) or "none"
        raise ValueError(f"no record has the metric {metric!r}; the records have: {known}")
    lengths = tuple(sorted({row["length"] for row in rows}))
    label = labels.names(records)
    found = [
        _row(record, label[record["id"]], metric, lengths, swap)
        for record in records
        for swap in sorted({r.get("swap", "") for r in record["rows"] if r["metric"] == metric})
    ]
    ordered = sorted(found, key=_order)
    trained = _with_best([row for row in ordered if not row.swap])
    trained = _with_ranks(trained, records, metric, lengths)
    rows = (*trained, *(row for row in ordered if row.swap))
    train_lengths = tuple(sorted({record["train"]["length"] for record in records}))
    table = Table(metric, lengths, train_lengths, rows)
    return replace(table, notes=captions.notes(records, table))


def _order(row: Row) -> tuple[Any, ...]:
    return (
        _natural(row.swap),
        *((not c.n, c.mean if c.n else 0.0) for c in reversed(row.cells)),
        row.label,
    )


def _natural(text: str) -> list[tuple[int, str]]:
    """A key that puts "memory 48" before "memory 192"."""
    return [(int(part) if part.isdecimal() else -1, part) for part in re.split(r"(\d+)", text)]


def _with_best(rows: list[Row]) -> list[Row]:
    columns = zip(*(row.cells for row in rows), strict=True)
    low = [min((round(c.mean, 2) for c in column if c.n), default=None) for column in columns]
    return [
        replace(
            row,
            cells=tuple(
                replace(c, best=c.n > 0 and round(c.mean, 2) == best)
                for c, best in zip(row.cells, low, strict=True)
            ),
        )
        for row in rows
    ]


def _with_ranks(
    rows: list[Row], records: Sequence[Record], metric: str, lengths: Sequence[int]
) -> list[Row]:
    by_id = {record["id"]: record for record in records}
    seeds = sorted(set.intersection(*(set(record["seeds"]) for record in records)))
    trained = max(record["train"]["length"] for record in records)
    beyond = [length for length in lengths if length > trained]
    if len(rows) < 2 or not seeds or not beyond:
        return rows
    values = np.full((len(rows), len(seeds), len(beyond)), math.nan)
    for i, row in enumerate(rows):
        for k, length in enumerate(beyond):
            found = by_seed(by_id[row.run], metric, length)
            values[i, :, k] = [value(found[s]) if s in found else math.nan for s in seeds]
    ranks = stats.reciprocal_ranks(values)
    return [replace(row, rank=rank) for row, rank in zip(rows, ranks, strict=True)]
