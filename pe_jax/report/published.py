"""Scores beside published ones: `references` reads these, `against` prints the tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pe_jax.record import Result
from pe_jax.report import agreement, cells, groups, labels, tables
from pe_jax.report.cells import Cell, described
from pe_jax.report.fitting import does, fits, nothing, spec_of, variant
from pe_jax.report.references import BEYOND, Entry, Reference
from pe_jax.report.words import join

NEAR = 2.0
"""Within so many points of chance a score is taken to be a guess."""
CLOSE = 0.05
"""A multiple of the training length is any length within this part of it."""


class Column(NamedTuple):
    """Where scores are held against each other."""

    at: str
    swap: str
    """The variant of the task."""
    unit: str
    """Of the published numbers."""
    metric: str
    """Ours; "" if the runs have none in which the same direction is better."""


@dataclass(frozen=True)
class Line:
    """An encoding: the published numbers, NaN where there is none, and ours, in each column."""

    spec: str
    """With what is swapped in, if anything: "rope, rerope"."""
    published: tuple[float, ...]
    ours: tuple[Cell, ...]
    run: str = ""  # "": there is none
    more: int = 0  # runs that the reference's spec fits as well


@dataclass(frozen=True)
class Agreement:
    """How far the order of the encodings that both have is the published one, in a column.

    `guesses` are the sides of which all values lie within noise of `chance`: their order says
    nothing.
    """

    n: int
    rho: float
    critical: float
    pairs: agreement.Pairs
    chance: float = math.nan
    guesses: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """In a word: "agrees", "not shown", "3 of 6 pairs", or why there is none."""
        if self.n < 2:
            return "n/a"
        if self.guesses:
            return f"guesses: {join(self.guesses)}"
        if math.isnan(self.rho):
            return "all equal"
        if self.n < agreement.FEWEST:
            return f"{self.pairs.alike} of {self.pairs.of} pairs"
        return "agrees" if self.rho > self.critical - 1e-9 else "not shown"


@dataclass(frozen=True)
class Held:
    """One task of a reference, and one group of results that may be ranked."""

    reference: str
    task: str
    entries: tuple[Entry, ...]
    results: tuple[Result, ...]
    heading: str
    """What sets the group apart; "": nothing."""
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]
    agreements: tuple[Agreement, ...]

    @property
    def title(self) -> str:
        """As in "reverse_string, beside chomsky"."""
        return ": ".join(filter(None, [f"{self.task}, beside {self.reference}", self.heading]))


def hold(results: Sequence[Result], references: Sequence[Reference]) -> list[Held]:
    """Each task of the references that results have, a table for each group of results that may be
    ranked; where one of them shows an order, only those that do. ValueError for a reference of
    which nothing is found.
    """
    found = []
    for reference in references:
        here = list(_held(results, reference))
        if not here:
            raise ValueError(nothing(results, reference))
        found += [one for one in here if any(a.n > 1 for a in one.agreements)] or here
    return found


def _held(results: Sequence[Result], reference: Reference) -> Iterator[Held]:
    for task in reference.tasks:
        entries = tuple(entry for entry in reference.entries if entry.task == task)
        for group in groups.groups([result for result in results if does(result, task)]):
            metrics = tables.metrics(group.results)
            columns = tuple(
                dict.fromkeys(Column(e.at, e.variant, e.unit, _metric(e, metrics)) for e in entries)
            )
            lines = _lines(entries, group.results, columns)
            if not any(line.run and not all(map(math.isnan, line.published)) for line in lines):
                continue
            agreements = [_agreement(i, c, lines, group.results) for i, c in enumerate(columns)]
            heading = groups.heading([c for c in group.apart if not c.name.startswith("corpus")])
            yield Held(
                *(reference.name, task, entries, group.results, heading),
                *(columns, lines, tuple(agreements)),
            )


def _metric(entry: Entry, metrics: Sequence[str]) -> str:
    """The metric in the unit of a published number, else the first one of its direction."""
    alike = [name for name in metrics if described(name).unit == entry.unit]
    same = [name for name in metrics if described(name).better == entry.better]
    return next(iter([*alike, *same]), "")


def _lines(
    entries: Sequence[Entry], results: Sequence[Result], columns: Sequence[Column]
) -> tuple[Line, ...]:
    values = {(e.spec, e.swapped, e.at, e.variant): e.value for e in entries}
    lines, used = [], set[str]()
    for spec, swap in dict.fromkeys((entry.spec, entry.swapped) for entry in entries):
        fitting = sorted(
            (result for result in results if fits(result, spec)),
            key=lambda result: (spec_of(result) != spec, result.id),
        )
        used |= {result.id for result in fitting}
        published = tuple(values.get((spec, swap, c.at, c.swap), math.nan) for c in columns)
        ours = fitting[0] if fitting else None
        found = tuple(_cell(ours, column, swap) if ours else Cell() for column in columns)
        name = ", ".join(filter(None, [spec, swap]))
        lines.append(Line(name, published, found, ours.id if ours else "", len(fitting[1:])))
    called = labels.names(results)
    for result in results:
        if result.id not in used:
            found = tuple(_cell(result, column) for column in columns)
            lines.append(Line(called[result.id], (math.nan,) * len(columns), found, result.id))
    return tuple(lines)


def _lengths(result: Result, column: Column) -> list[int]:
    """The lengths of a column at which the result was scored."""
    scored = sorted({row.length for row in result.rows if row.metric == column.metric})
    train = result.train.length
    if column.at == BEYOND:
        return [length for length in scored if length > train]
    if column.at.endswith("x"):
        goal = float(column.at[:-1]) * train
        near = min(scored, key=lambda length: abs(length - goal), default=math.inf)
        return [int(near)] if abs(near - goal) <= CLOSE * goal else []
    return [int(column.at)] if int(column.at) in scored else []


def _cell(result: Result, column: Column, swapped: str = "") -> Cell:
    lengths = _lengths(result, column)
    wanted = variant(swapped or column.swap)
    swaps = sorted({row.swap for row in result.rows})
    swap = next((swap for swap in swaps if variant(swap) == wanted), None)
    if not lengths or swap is None:
        return Cell()
    if column.at == BEYOND:
        return cells.beyond(result, column.metric, lengths, swap)
    return cells.cell(result, column.metric, lengths[0], swap)


def _agreement(
    i: int, column: Column, lines: Sequence[Line], results: Sequence[Result]
) -> Agreement:
    both = [
        (line.published[i], line.ours[i])
        for line in lines
        if line.ours[i].n and not math.isnan(line.published[i])
    ]
    published, means = [p for p, _ in both], [cell.mean for _, cell in both]
    chance = _chance(results[0], column)
    sides = {
        "published": [abs(p - chance) <= NEAR for p in published],
        "ours": [abs(c.mean - chance) <= max(NEAR, c.half) for _, c in both],
    }
    guesses = tuple(side for side, near in sides.items() if near and all(near))
    n = len(both)
    pairs = agreement.pairs(published, means)
    rho = agreement.spearman(published, means)
    return Agreement(n, rho, agreement.critical(n), pairs, chance, guesses)


def _chance(result: Result, column: Column) -> float:
    """What a guess at random scores in a column; of whole samples, what the most frequent targets
    do. NaN for text, where no score is that of a guess.
    """
    if column.metric == "accuracy" and result.train.labels:
        return 100 / result.train.labels
    if not cells.of_samples(column.metric):
        return math.nan
    wanted, lengths = variant(column.swap), _lengths(result, column)
    known = [
        one.value
        for one in result.baselines
        if (one.name, one.metric) == ("most frequent", column.metric)
        and one.length in lengths
        and variant(one.swap) == wanted
    ]
    return sum(known) / len(known) if known else 0.0
