"""Tables as sheets: of scores, the overview of several groups, of differences from a baseline and
of two studies.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from pe_jax.metric import Metric
from pe_jax.report import notes, stats
from pe_jax.report.differences import Comparison, Difference, Match, Versus
from pe_jax.report.groups import conditions, draws
from pe_jax.report.phrases import capital, each, plusminus, rounded
from pe_jax.report.sheet import FIRST, Note, Printed, Sheet, number
from pe_jax.report.study import Cell, Study
from pe_jax.report.table import Table, TableRow, headlines

BITS = (0.01, 0.03, 0.1)


def printed(cell: Cell, sign: str = "", documents: bool = False) -> Printed:
    """A cell as it prints: its mean ± half of its intervals, or "n/a" with the reason."""
    second = cell.over_documents.half if documents else math.nan
    text = plusminus(cell.mean, cell.half, sign, more=second)
    return Printed(text, cell.mean, cell.reason, cell.best)


def lengths(table: Table) -> list[str]:
    """The titles of the columns of lengths, each with its multiple of the training length."""
    times = [n / table.train_length for n in table.lengths]
    return [
        f"{n} ({x:.3g}x)" if x < 1000 else f"{n} ({x:,.0f}x)"
        for n, x in zip(table.lengths, times, strict=True)
    ]


def _between(table: Table) -> list[str]:
    # The lengths that are left out first: neither that of training nor the longest.
    ends = table.train_length, table.lengths[-1]
    return [t for n, t in zip(table.lengths, lengths(table), strict=True) if n not in ends]


def extrapolation(tables: Iterable[Table]) -> list[Sheet]:
    """Models against evaluation length. The label of a metric's first table is tab:METRIC, of its
    second tab:METRIC-2.
    """
    sheets, numbers = [], Counter[str]()
    for table in tables:
        numbers[table.metric.name] += 1
        again = f"-{numbers[table.metric.name]}" if numbers[table.metric.name] > 1 else ""
        sheets.append(_extrapolation(table, f"tab:{table.metric.name}{again}"))
    return sheets


def _extrapolation(table: Table, label: str) -> Sheet:
    samples = any(row.beyond for row in table.rows)
    counted = any(row.parameters is not None for row in table.rows)
    seeds = any(row.solved is not None for row in table.rows)
    held = any(row.effective is not None for row in table.rows)
    summary = ["change", "effective length"]
    if samples:
        summary = [f"mean beyond {table.train_length}", table.metric.reach]
    summary = [*summary[: 1 + held], *[f"seeds that solve {table.train_length}"] * seeds]
    timed = any(row.seconds is not None for row in table.rows)
    cost = [*["parameters"] * counted, *["seconds a window"] * timed]
    columns = ["encoding", *lengths(table), *summary, *cost]
    return Sheet(
        table.title,
        tuple(columns),
        tuple(
            (name, tuple(_row(r, seeds, held, counted, timed) for r in rows))
            for name, rows in table.blocks
        ),
        (*notes.facts(table), *table.notes, *notes.glossary(table)),
        tuple(_numbers(table, row) for row in table.rows),
        caption=_caption(table),
        label=label,
        spare=(*columns[: len(table.lengths) : -1], *_between(table)),
    )


def _row(row: TableRow, seeds: bool, held: bool, counted: bool, timed: bool) -> tuple[Printed, ...]:
    effective = number(row.effective, "≥ {}" if row.censored else "{}")
    if row.effective == 0:
        effective = Printed("none", 0)
    return (
        Printed(row.label, row.label, run=row.run),
        *(printed(cell, documents=bool(row.beyond)) for cell in row.cells),  # of the headroom
        printed(row.summary, "" if row.beyond else "+", documents=True),
        *[effective] * held,
        *[number(row.solved, f"{{}} of {row.replicas}")] * seeds,
        *[number(row.parameters)] * counted,
        *[number(row.seconds, "{:.1f}")] * timed,
    )


def _caption(table: Table) -> str:
    # Bits per byte, same targets (lower is better), of models trained at 64 tokens, by ...
    of = [row.replicas for row in table.rows if row.trained]
    spread = "" if max(of, default=1) < 2 else " ± half of the 95 % interval"
    over = f": mean over {each(of, table.replicate)}{spread}" if of and max(of) > 1 else ""
    unit = "" if table.tokens else " tokens"
    heading = f" ({table.heading})" if table.heading else ""
    return (
        f"{table.metric.title}, of models trained at {table.train_length}{unit}, by evaluation "
        f"length{heading}{over}."
    )


def _numbers(table: Table, row: TableRow) -> dict[str, Any]:
    """A row of the CSV: mean_E, half_E and n_E for a length E."""
    numbers: dict[str, Any] = {
        "metric": table.metric.name,
        **{condition.name: condition.value for condition in table.group.apart},
        "encoding": row.label,
        "run": row.run,
        "way": str(row.way),
        "rate": row.rate,
    }
    for length, cell in zip(table.lengths, row.cells, strict=True):
        numbers |= {f"mean_{length}": cell.mean, f"half_{length}": cell.half, f"n_{length}": cell.n}
        numbers |= {f"documents_{length}": cell.over_documents.half} if cell.sizes else {}
    if beyond := row.beyond:
        numbers |= {"beyond_mean": beyond.mean, "beyond_half": beyond.half, "beyond_n": beyond.n}
    return numbers | {
        "change_mean": row.change.mean,
        "change_half": row.change.half,
        "change_n": row.change.n,
        **({"change_documents": row.change.over_documents.half} if row.change.sizes else {}),
        "effective_length": row.effective,
        **({} if row.solved is None else {"solved_seeds": row.solved}),
        "censored": row.censored,
        "encoding_parameters": row.parameters,
        "ms_per_step": row.ms_per_step,
        **({} if row.seconds is None else {"seconds": row.seconds}),
        "not_computed": reasons(row.cells),
    }


def differences(versus: Versus) -> Sheet:
    """Models minus the baseline; in the CSV p is adjusted by Holm's method."""
    table, sign, margin = versus.table, versus.table.metric.sign, versus.margin
    terms = ["Difference", "Better, worse", "Equal"]
    terms += ["Equivalent"] * (margin is not None)
    terms += ["(±)"] * (table.replicate == "seed" and not draws(table.runs[0]))
    rows = [
        (Printed(row.label, row.label, run=row.run), *(_difference(d, sign, margin) for d in own))
        for row, own in versus.rows
    ]
    return Sheet(
        versus.title,
        ("encoding", *lengths(table)),
        (("", tuple(rows)),),
        notes.terms(terms, f"{table.replicate}s"),
        tuple(
            {
                "metric": table.metric.name,
                **{condition.name: condition.value for condition in table.group.apart},
                "baseline": versus.baseline,
                "encoding": row.label,
                "run": row.run,
                "length": length,
                "difference": one.change.mean,
                "half": one.change.half,
                "n": one.change.n,
                "documents": one.cell.over_documents.half,
                "p": one.p,
                "verdict": one.verdict(sign),
                "margin": margin,
                "p_within": one.p_within,
            }
            for row, differences in versus.rows
            for length, one in zip(table.lengths, differences, strict=True)
        ),
        spare=tuple(_between(table)),
        left=True,
    )


def _difference(one: Difference, sign: int, margin: float | None) -> Printed:
    # As in "−0.120 ± 0.010 better", "+0.002 ± 0.001 equivalent within 0.01", "equal".
    verdict = one.verdict(sign)
    if verdict == "equal":
        return Printed("equal", one.change.mean)
    said = [verdict] if verdict in ("better", "worse") else []
    if one.equivalent:
        said.append(f"equivalent within {margin:g}")
    text = plusminus(*one.change[:2], "+", more=one.cell.over_documents.half)
    return Printed(" ".join(filter(None, [text, ", ".join(said)])), one.change.mean)


def seeds(metric: Metric, scatter: Mapping[tuple[str, str, int, int], Sequence[float]]) -> Sheet:
    """Standard deviations of `differences.scatter`, and the seeds that tell each of BITS; with 0
    tests of two models that share no noise, whose difference has sqrt(2) times the deviation.
    """
    rows, numbers = [], []
    for (label, source, length, tests), values in scatter.items():
        s = statistics.stdev(values)
        pair = s if tests else math.sqrt(2) * s
        own = {"encoding": label, "over": source, "length": length, "n": len(values), "sd": s}
        own |= {f"{b:g} bits": stats.seeds_needed(pair, b, tests or 1) for b in BITS}
        rows.append(tuple(Printed(rounded(v) if v is s else f"{v}", v) for v in own.values()))
        numbers.append({"metric": metric.name} | own)
    term = "Seeds" if any(key[3] for key in scatter) else "Seeds of one model"
    title, terms = f"{metric.title}: seeds that tell a difference", notes.terms([term], "")
    return Sheet(title, tuple(own), (("", tuple(rows)),), terms, tuple(numbers))


def reasons(cells: Sequence[Cell]) -> str:
    """Why values are missing."""
    return "; ".join(dict.fromkeys(cell.reason for cell in cells if cell.reason))


# The overview: the groups of a study side by side, a row for each encoding and, for each group, the
# headline of its table


class Column(NamedTuple):
    """One number of each encoding in one group of runs."""

    lines: tuple[str, str, str]
    """As in ("reverse string:", "accuracy in %", "beyond 40 ↑"): the group, what, where. The arrow
    points to what is better."""
    cells: Mapping[str, Cell]
    """By the label of the row, without what sets groups apart."""
    sign: str = ""
    """ "+" of a difference."""


def overview(study: Study, tables: Sequence[Table], ranked: bool = True) -> Sheet | None:
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
    titles = {column.lines[1] for column in columns} | {c.lines[2].split()[0] for c in columns}
    summaries = {"change": "Change", "beyond": "Mean beyond"}
    terms = ["±", "Bold", *(term for title, term in summaries.items() if title in titles)]
    replicates = " or ".join(sorted({f"{table.replicate}s" for table in first}))
    rows, numbers = [], []
    for label in labels:
        cells = [
            column.cells.get(label, Cell.empty(f"no run on {column.lines[0][:-1]}"))
            for column in columns
        ]
        shown = [printed(cell, c.sign) for cell, c in zip(cells, columns, strict=True)]
        rows.append((Printed(label, label), *shown))
        values = {
            f"{' '.join(column.lines)}, {name}": getattr(cell, name)
            for cell, column in zip(cells, columns, strict=True)
            for name in ("mean", "half", "n")
        }
        numbers.append({"encoding": label} | values | {"not_computed": reasons(cells)})
    return Sheet(
        "Overview",
        ("encoding", *("\n".join(column.lines) for column in columns)),
        (("", tuple(rows)),),
        (
            Note("↑, ↓", "Higher, lower is better.", general=True),
            *notes.terms(terms, replicates),
        ),
        tuple(numbers),
        label="tab:overview",
    )


def _columns(table: Table, rows: Mapping[str, TableRow]) -> Iterator[Column]:
    name, unit = f"{table.group.name}:", table.metric.unit
    better = "↓" if table.metric.sign > 0 else "↑"
    # Bold of swaps is the best of the model and its swaps, which are no rows here.
    unmarked = {"best": False} if table.of_swaps else {}
    if any(row.beyond for row in rows.values()):
        cells = {label: replace(row.summary, **unmarked) for label, row in rows.items()}
        yield Column((name, unit, f"beyond {table.train_length} {better}"), cells)
        return
    longest = f"at {table.lengths[-1]} {better}"
    ends = {label: replace(row.cells[-1], **unmarked) for label, row in rows.items()}
    yield Column((name, unit, longest), ends)
    if table.lengths[-1] > table.train_length:
        changes = {label: row.change for label, row in rows.items()}
        yield Column((name, "change", longest), changes, sign="+")


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


# Two studies


def comparison(compared: Comparison, a: str, b: str) -> list[Sheet]:
    """A table for each metric of the folders `a` and `b`: the values, and B - A."""
    by_metric = groupby(compared.matches, attrgetter("metric.name"))
    facts = [Note("Studies", f"A: {a}, B: {b}.", True), *_facts(compared)]
    return [_comparison([*matches], facts) for _, matches in by_metric]


def _comparison(matches: Sequence[Match], facts: Sequence[Note]) -> Sheet:
    metric, by_name = matches[0].metric, groupby(matches, attrgetter("name"))
    blocks = tuple((name, tuple(map(_row_of_both, own))) for name, own in by_name)
    better = Counter(match.better or match.difference.verdict(1) for match in matches)
    sides = {"B": "better in B", "A": "better in A", "": "without a test"}
    counted = ", ".join(f"{better[key]} {sides.get(key, key)}" for key in better)
    both = ["(±)"] * any(match.difference.cell.sizes for match in matches)
    terms = notes.terms(["±", *both, "B − A"], "seeds, places or samples")
    return Sheet(
        metric.title,
        ("run", "length", "A", "B", "B − A", "better"),
        blocks,
        (Note("Differences", f"{capital(metric.words)}: {counted}.", True), *facts, *terms),
        tuple(map(_numbers_of_both, matches)),
    )


def _row_of_both(match: Match) -> tuple[Printed, ...]:
    a, b, change = match.cell_a, match.cell_b, match.difference.change
    more = match.difference.cell.over_documents.half
    return (
        Printed(match.name, match.name),
        Printed(str(match.length), match.length),
        Printed(plusminus(a.mean, a.half, digits=3), a.mean, a.reason),
        Printed(plusminus(b.mean, b.half, digits=3), b.mean, b.reason),
        Printed(plusminus(change.mean, change.half, sign="+", more=more), change.mean),
        Printed(match.better),
    )


def _numbers_of_both(match: Match) -> dict[str, Any]:
    sides = {"a": match.cell_a, "b": match.cell_b}
    change = match.difference.change
    return {
        "metric": match.metric.name,
        "run": match.label,
        "run_a": match.a.id,
        "run_b": match.b.id,
        "way": str(match.way),
        "length": match.length,
        **{
            f"{part}_{side}": getattr(cell, part)
            for side, cell in sides.items()
            for part in ("mean", "half", "n", "reason")
        },
        "difference": change.mean,
        "difference_half": change.half,
        "difference_n": change.n,
        "documents": match.difference.cell.over_documents.half,
        "better": match.better,
    }


def _facts(comparison: Comparison) -> list[Note]:
    changes = comparison.changes or ("none of config, text, commit, versions and device",)
    facts = [Note("Changed", f"{capital(change)}.", True) for change in changes]
    for side, only in (("A", comparison.only_a), ("B", comparison.only_b)):
        facts += [Note(f"Only in {side}", f"{', '.join(only)}.", True)] if only else []
    if any(match.a.corpus.hash != match.b.corpus.hash for match in comparison.matches):
        facts.append(Note(FIRST, "The texts differ, and with them the targets.", True))
    runs = [run for match in comparison.matches for run in (match.a, match.b)]
    if all(conditions(run)["eval.split"] == "valid" for run in runs):
        facts.append(Note(FIRST, "Validation text was scored.", True))
    return facts
