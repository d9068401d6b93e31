"""Builders of sheets: of scores, of differences from a baseline, and of the overview."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from pe_jax.report.baseline import Against, Versus
from pe_jax.report.cells import Cell, Table, TableRow, described
from pe_jax.report.overview import Overview, SameOrder
from pe_jax.report.sheet import Note, Printed, Sheet, number
from pe_jax.report.stats import critical
from pe_jax.report.words import count, each, plusminus


def printed(cell: Cell, sign: str = "") -> Printed:
    """A cell as it prints: its mean ± the half width of its interval, or "n/a" with the reason."""
    text = plusminus(cell.mean, cell.half, sign)
    return Printed(text, cell.mean, cell.reason, cell.best)


def lengths(table: Table) -> list[str]:
    """The titles of the columns of lengths, each with its multiple of the training length."""
    times = [n / table.train_length for n in table.lengths]
    return [
        f"{n} ({x:.3g}x)" if x < 1000 else f"{n} ({x:,.0f}x)"
        for n, x in zip(table.lengths, times, strict=True)
    ]


def _between(table: Table) -> list[str]:
    """The titles of the lengths that a line without room for all lacks first: neither that of
    training nor the longest.
    """
    ends = table.train_length, table.lengths[-1]
    return [t for n, t in zip(table.lengths, lengths(table), strict=True) if n not in ends]


def extrapolation(tables: Iterable[Table]) -> list[Sheet]:
    """Models against evaluation length. The label of a metric's first table is tab:METRIC, of its
    second tab:METRIC-2.
    """
    found, numbers = [], Counter[str]()
    for table in tables:
        numbers[table.metric] += 1
        again = f"-{numbers[table.metric]}" if numbers[table.metric] > 1 else ""
        found.append(_extrapolation(table, f"tab:{table.metric}{again}"))
    return found


def _extrapolation(table: Table, label: str) -> Sheet:
    samples = any(row.beyond for row in table.rows)
    counted = any(row.parameters is not None for row in table.rows)
    seeds = any(row.solved is not None for row in table.rows)
    told = ["gain", "effective length"]
    if samples:
        told = [f"mean beyond {table.train_length}", described(table.metric).reach]
    told += [f"seeds that solve {table.train_length}"] * seeds
    cost = "ms a step" if table.replicate == "seed" else "seconds a window"
    columns = ["encoding", *lengths(table), *told, *["parameters"] * counted, cost]
    return Sheet(
        table.title,
        tuple(columns),
        tuple(
            (name, tuple(_row(row, counted, seeds) for row in rows)) for name, rows in table.blocks
        ),
        table.notes,
        tuple(_numbers(table, row) for row in table.rows),
        caption=_caption(table),
        label=label,
        spare=(*columns[: len(table.lengths) : -1], *_between(table)),
    )


def _row(row: TableRow, counted: bool, seeds: bool) -> tuple[Printed, ...]:
    effective = number(row.effective, "≥ {}" if row.censored else "{}")
    if row.effective == 0:
        effective = Printed("none", 0)
    return (
        Printed(row.label, row.label, run=row.run),
        *map(printed, row.cells),
        printed(row.summary, "" if row.beyond else "+"),
        effective,
        *[number(row.solved, f"{{}} of {row.replicas}")] * seeds,
        *[number(row.parameters)] * counted,
        number(row.cost, "{:.1f}"),
    )


def _caption(table: Table) -> str:
    """As in "Bits per byte, same targets (lower is better), of models trained at 64 tokens, by
    evaluation length: mean over 3 seeds ± half of the 95 % interval."
    """
    of = [row.replicas for row in table.rows if row.trained]
    spread = "" if max(of, default=1) < 2 else " ± half of the 95 % interval"
    over = f": mean over {each(of, table.replicate)}{spread}" if of and max(of) > 1 else ""
    unit = "" if table.tokens else " tokens"
    heading = f" ({table.heading})" if table.heading else ""
    metric = described(table.metric).title
    return (
        f"{metric}, of models trained at {table.train_length}{unit}, by evaluation "
        f"length{heading}{over}."
    )


def _numbers(table: Table, row: TableRow) -> dict[str, Any]:
    """A row of the CSV: mean_E, half_E and n_E for a length E."""
    found: dict[str, Any] = {
        "metric": table.metric,
        **{condition.name: condition.value for condition in table.apart},
        "encoding": row.label,
        "run": row.run,
        "way": str(row.way),
        "rate": row.rate,
        "rate_edge": row.rate_edge,
    }
    for length, cell in zip(table.lengths, row.cells, strict=True):
        found |= {f"mean_{length}": cell.mean, f"half_{length}": cell.half, f"n_{length}": cell.n}
    rank, beyond = row.rank or (math.nan,) * 3, row.beyond
    if beyond:
        found |= {"beyond_mean": beyond.mean, "beyond_half": beyond.half, "beyond_n": beyond.n}
    return found | {
        "gain_mean": row.gain.mean,
        "gain_half": row.gain.half,
        "gain_n": row.gain.n,
        "effective_length": row.effective,
        **({} if row.solved is None else {"solved_seeds": row.solved}),
        "censored": row.censored,
        "reciprocal_rank": rank[0],
        "reciprocal_rank_low": rank[1],
        "reciprocal_rank_high": rank[2],
        "encoding_parameters": row.parameters,
        "ms_per_step": row.ms_per_step,
        **({} if row.seconds is None else {"seconds": row.seconds}),
        "not_computed": _reasons(row.cells),
    }


def differences(versus: Versus) -> Sheet:
    """Models minus the baseline; in the CSV p is adjusted by Holm's method."""
    table = versus.table
    return Sheet(
        versus.title,
        ("encoding", *lengths(table)),
        (
            (
                "",
                tuple(
                    (
                        Printed(row.label, row.label, run=row.run),
                        *(_difference(cell, versus.margin) for cell in cells),
                    )
                    for row, cells in versus.rows
                ),
            ),
        ),
        (difference_note(versus),),
        tuple(
            {
                "metric": table.metric,
                **{condition.name: condition.value for condition in table.apart},
                "baseline": versus.baseline,
                "encoding": row.label,
                "run": row.run,
                "length": length,
                "difference": cell.change.mean,
                "half": cell.change.half,
                "n": cell.change.n,
                "p": cell.p,
                "verdict": cell.verdict,
                "margin": versus.margin,
                "p_within": cell.p_within,
            }
            for row, cells in versus.rows
            for length, cell in zip(table.lengths, cells, strict=True)
        ),
        spare=tuple(_between(table)),
        left=True,
    )


def _difference(cell: Against, margin: float | None) -> Printed:
    """As in "−0.120 ± 0.010 better", "+0.002 ± 0.001 equivalent within 0.01", "equal", or the
    number alone.
    """
    change = cell.change
    if cell.verdict == "equal":
        return Printed("equal", change.mean)
    told = [cell.verdict] if cell.verdict in ("better", "worse") else []
    if cell.equivalent:
        told.append(f"equivalent within {margin:g}")
    parts = plusminus(change.mean, change.half, sign="+"), ", ".join(told)
    return Printed(" ".join(filter(None, parts)), change.mean)


def difference_note(versus: Versus) -> Note:
    """How to read the differences."""
    metric = described(versus.table.metric)
    shared = [cell.change.n for _, cells in versus.rows for cell in cells]
    solve = any(not row.compared for row in versus.table.rows)
    why = f", or one of them does not solve {versus.table.train_length}" if solve else ""
    of, row = versus.table.replicate, "row" if versus.table.of_swaps else "model"
    side = "below" if metric.better == "lower" else "above"
    missing = f" n/a: the two share no {of} with a value there{why}." if 0 in shared else ""
    if max(shared) < 2:
        few = f"one shared {of} allows no tests" if max(shared) else f"they share no {of}"
        text = f"Each {row} minus {versus.baseline}; {few}.{missing}"
    else:
        half, test, stricter = "", "McNemar's exact test", ""
        if not versus.answers:
            half, test = ", ± half of the 95 % interval by Student's t", "a paired t test"
            stricter = "; that is stricter than an interval without 0"
        text = (
            f"Each {row} minus {versus.baseline}, paired over {of}s{half}: {side} 0 the {row} is "
            f"better. Better and worse are said where {test} tells it from {versus.baseline} at "
            f"5 %, two-sided, corrected by Holm's method for the {count(len(versus.rows), row)} of "
            f"a column{stricter}. Equal: the same values to the bit.{_equivalent(versus)}{missing}"
        )
    return Note("How to read the differences", text, general=True)


def _equivalent(versus: Versus) -> str:
    """What the margin of a comparison is, and how it is tested."""
    if versus.margin is None:
        return ""
    tests = "two one-sided paired t tests"
    if versus.answers:
        tests = "exact tests of the share of questions that are answered differently"
    return (
        f" Equivalent within {versus.margin:g}: {tests} at 5 %, corrected in the same way, show "
        "that the mean difference lies within this margin."
    )


def overview(found: Overview) -> Sheet:
    """Encodings against groups of results."""
    columns = ["\n".join(column.lines) for column in found.columns]
    rows = [
        (
            Printed(label, label),
            *(
                printed(cell, "+" if column.difference else "")
                for column, cell in zip(found.columns, cells, strict=True)
            ),
        )
        for label, cells in found.rows
    ]
    return Sheet(
        "Overview",
        ("encoding", *columns),
        (("", tuple(rows)),),
        found.notes,
        tuple(
            {"encoding": label}
            | {
                f"{column.title}, {name}": value
                for column, cell in zip(found.columns, cells, strict=True)
                for name, value in (("mean", cell.mean), ("half", cell.half), ("n", cell.n))
            }
            | {"not_computed": _reasons(cells)}
            for label, cells in found.rows
        ),
        label="tab:overview",
    )


def orders(found: Sequence[SameOrder]) -> Sheet:
    """Whether the order of the encodings in one group of results is that of another."""
    multiples = tuple(dict.fromkeys(at for one in found for at in one.rho))
    absent = Cell(reason="not a length of both")
    rows = tuple(
        (
            Printed(groups := f"{one.first}; {one.second}", groups),
            number(one.n),
            printed(Cell(critical(one.n))),
            *(printed(Cell(one.rho[at]) if at in one.rho else absent) for at in multiples),
        )
        for one in found
    )
    how = (
        "Spearman's rho between the means of the encodings that both groups have, at the same "
        "multiple of their training lengths: 1 is the same order. From the critical value on it is "
        "significant, one-sided at 5 %: one of 20 random orders reaches it."
    )
    titles = "groups", "n", "5 % critical", *multiples
    note = Note("How to read the agreement", how)
    numbers = tuple(
        {"first": one.first, "second": one.second, "n": one.n, "critical": critical(one.n)}
        | {f"rho_{at}": one.rho.get(at) for at in multiples}
        for one in found
    )
    return Sheet("Order of the encodings in two groups", titles, (("", rows),), (note,), numbers)


def _reasons(cells: Sequence[Cell]) -> str:
    """Why values are missing."""
    return "; ".join(dict.fromkeys(cell.reason for cell in cells if cell.reason))
