"""Two sets of results, A and B: what changed between them, the differences of scores, and sheets.

Runs are matched by id, then by label where it is unique on both sides. A difference is B - A; its
95 % interval is paired over seeds, places or samples where both runs have the same ones, else
Welch's.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, product
from typing import Any

from pe_jax.record import Result, Way
from pe_jax.report import stats, tables, words
from pe_jax.report.cells import Cell, by_replica, cell, described, values
from pe_jax.report.groups import conditions
from pe_jax.report.labels import in_way, names, settings, short
from pe_jax.report.sheet import Note, Printed, Sheet
from pe_jax.report.words import capital, count, join, plusminus
from pe_jax.storage import records

MISSING = "not there"


@dataclass(frozen=True)
class MatchedRuns:
    """One run in A and in B."""

    label: str
    a: Result
    b: Result


@dataclass(frozen=True)
class Difference:
    """The cells of A and of B, and B - A, by one metric at one length, scored in one way."""

    match: MatchedRuns
    way: Way
    metric: str
    length: int
    a: Cell
    b: Cell
    change: stats.Interval
    paired: bool
    p: float | None
    """Of the same questions answered right or wrong, that of McNemar's exact test."""

    @property
    def name(self) -> str:
        return in_way(self.match.label, self.way, self.match.a.train)

    @property
    def better(self) -> str:
        """ "A" or "B" where the interval lies on its side of 0, or the test tells; else ""."""
        mean, half, _ = self.change
        if not (abs(mean) > half if self.p is None else self.p <= stats.LEVEL):
            return ""
        return "A" if described(self.metric).sign * mean > 0 else "B"


@dataclass(frozen=True)
class Comparison:
    """What two sets of records share and what they do not."""

    matches: tuple[MatchedRuns, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    changes: tuple[str, ...]
    differences: tuple[Difference, ...]

    @property
    def metrics(self) -> list[str]:
        return list(dict.fromkeys(difference.metric for difference in self.differences))


def compare(a: Sequence[Result], b: Sequence[Result]) -> Comparison:
    """The comparison of two sets of results; a ValueError says when they share no number."""
    matches = _matched(a, b)
    if not matches:
        known = [words.join(result.label for result in side) for side in (a, b)]
        raise ValueError(
            "A and B share no run (the same id, or a label that each has once): "
            f"A has {known[0]}; B has {known[1]}"
        )
    taken = {result.id for match in matches for result in (match.a, match.b)}
    only_a, only_b = (
        tuple(sorted(name for id, name in names(side).items() if id not in taken))
        for side in (a, b)
    )
    differences = tuple(_differences(matches))
    if not differences:
        shared = words.join(match.label for match in matches)
        raise ValueError(f"A and B share {shared}, but nothing that both were evaluated at")
    return Comparison(matches, only_a, only_b, tuple(_changes(matches)), differences)


def _matched(a: Sequence[Result], b: Sequence[Result]) -> tuple[MatchedRuns, ...]:
    by_id = [{run.id: run for run in side} for side in (a, b)]
    same = by_id[0].keys() & by_id[1].keys()
    pairs = [(by_id[0][id], by_id[1][id]) for id in same]
    left = [[run for run in side.values() if run.id not in same] for side in by_id]
    number = [Counter(run.label for run in side) for side in left]
    for x, y in product(*left):
        if x.label == y.label and number[0][x.label] == number[1][y.label] == 1:
            pairs.append((x, y))
    called = short([x for x, _ in pairs])
    return tuple(sorted((MatchedRuns(called[x.id], x, y) for x, y in pairs), key=lambda m: m.label))


def _differences(matches: Sequence[MatchedRuns]) -> Iterator[Difference]:
    for metric in tables.metrics([match.a for match in matches]):
        shared = [(match, *cell) for match in matches for cell in _shared(match, metric)]
        for match, way, length in sorted(shared, key=lambda cell: bool(cell[1])):
            yield _difference(match, way, metric, length)


def _shared(match: MatchedRuns, metric: str) -> list[tuple[Way, int]]:
    """(way, length) that both runs were evaluated at."""
    evaluated = [
        {(row.way, row.length) for row in run.rows if row.metric == metric}
        for run in (match.a, match.b)
    ]
    return sorted(
        evaluated[0] & evaluated[1], key=lambda pair: (tables.natural(str(pair[0])), pair[1])
    )


def _difference(match: MatchedRuns, way: Way, metric: str, length: int) -> Difference:
    runs = (match.a, match.b)
    of_a, of_b = (values(by_replica(run, metric, length, way)) for run in runs)
    paired = _paired(*runs, metric)
    change = (
        stats.paired(of_b, of_a)
        if paired
        else stats.welch(list(of_b.values()), list(of_a.values()))[0]
    )
    a, b = (cell(run, metric, length, way) for run in runs)
    p = None
    if paired and change.n and stats.yes_or_no([of_a, of_b]):
        half = 0.0 if of_a == of_b else math.nan
        p, change = stats.mcnemar(of_a, of_b), change._replace(half=half)
    return Difference(match, way, metric, length, a, b, change, paired, p)


def _paired(a: Result, b: Result, metric: str) -> bool:
    """Whether both have the same replicas: the same seeds, or the same places of one text."""
    same = a.replicas(metric) == b.replicas(metric)
    return same and (a.replicas(metric)[0].kind == "seed" or _places(a) == _places(b))


def _places(result: Result) -> tuple[Any, ...]:
    """What decides which places of a text are scored, besides how many they are."""
    text, config = result.scored or result.corpus, result.config["eval"]
    longest = max(config["lengths"])
    return text.hash, config.get("split"), result.tokenizer.sha256, config["last"], longest


def _changes(matches: Sequence[MatchedRuns]) -> Iterator[str]:
    """What differs between the two runs of a match besides their numbers, each said once."""
    for title, flat in (
        ("text", lambda run: {"": words.text(run.corpus)}),
        ("text scored", lambda run: {"": words.text(run.scored)} if run.scored else {}),
        ("config", lambda run: settings(run.config)),
        ("commit", lambda run: {"": words.commit(run.commit)}),
        ("version", lambda run: run.versions),
        ("device", lambda run: records.plain(run.device) if run.device else {}),
    ):
        changed: dict[str, list[str]] = {}
        for match in matches:
            a, b = flat(match.a), flat(match.b)
            for key in sorted(a.keys() | b.keys()):
                if (x := a.get(key, MISSING)) != (y := b.get(key, MISSING)):
                    change = f"{title} {key}".strip() + f": {_plain(x)} in A, {_plain(y)} in B"
                    changed.setdefault(change, []).append(match.label)
        for change, labels in changed.items():
            yield change + ("" if len(labels) == len(matches) else f" ({', '.join(labels)})")


def _plain(value: Any) -> str:
    return words.plain(value) if value != "" else '""'


HEADER = ("run", "length", "A", "B", "B − A", "better")


def verdict(comparison: Comparison, metric: str) -> str:
    """How many differences of a metric are better in A, in B, or neither, in one sentence."""
    differences = [d for d in comparison.differences if d.metric == metric]
    tested = [d for d in differences if d.p is not None or not math.isnan(d.change.half)]
    untested = len(differences) - len(tested)
    better = Counter(d.better for d in tested)
    same = sum(d.change.mean == 0 == d.change.half for d in tested)
    unclear = len(tested) - better["A"] - better["B"] - same
    parts = [
        f"{better['B']} better in B",
        f"{better['A']} better in A",
        f"{unclear} not distinguishable",
        *([f"{same} identical"] if same else []),
        *([f"{untested} without an interval"] if untested else []),
    ]
    number = count(len(differences), "difference")
    return f"{described(metric).words}: {number}, {', '.join(parts)}."


def notes(comparison: Comparison) -> list[str]:
    """What a reader must know: what changed, what has no counterpart, what the interval is.

    Where all runs scored validation text a sentence says so; where they differ in it, a change.
    """
    said = [f"Changed: {change}." for change in comparison.changes]
    if not said:
        said = ["Config, text, commit, versions and device are the same."]
    if any(change.startswith("text") for change in comparison.changes):
        said.append("The texts differ, and with them the targets: differences are not the models'.")
    for side, only in (("A", comparison.only_a), ("B", comparison.only_b)):
        said += [f"Only in {side}: {', '.join(only)}."] if only else []
    runs = [run for match in comparison.matches for run in (match.a, match.b)]
    if all(conditions(run)["eval.split"] == "valid" for run in runs):
        said.append("Validation text was scored.")
    return [*said, _interval(comparison), *_missing(comparison)]


def _interval(comparison: Comparison) -> str:
    pairings = {difference.paired for difference in comparison.differences}
    kinds = {row.replica.kind for match in comparison.matches for row in match.a.rows}
    of = join((f"{kind}s" for kind in sorted(kinds)), "or")
    paired = f"paired over {of}" if True in pairings else ""
    welch = f"Welch's where the {of} differ" if paired else f"Welch's, since the {of} differ"
    kind = join(filter(None, (paired, welch if False in pairings else "")), "or")
    answers = any(difference.p is not None for difference in comparison.differences)
    test = " Answers that are right or wrong are told apart by McNemar's exact test at 5 %."
    return (
        f"±: half of a 95 % interval by Student's t; that of B − A is {kind}. "
        f"{_direction(comparison)} One interval in twenty misses the truth.{test * answers}"
    )


def _direction(comparison: Comparison) -> str:
    """Which sign of a difference says that B is better."""
    below = [m.words for m in map(described, comparison.metrics) if m.better == "lower"]
    above = [m.words for m in map(described, comparison.metrics) if m.better == "higher"]
    if not above:
        return "Below 0, B is better."
    if not below:
        return "Above 0, B is better."
    return f"B is better below 0 by {join(below)}, and above 0 by {join(above)}."


def _missing(comparison: Comparison) -> list[str]:
    """Why values are missing, and where."""
    reasons: dict[str, list[str]] = {}
    for d in comparison.differences:
        for side, value in (("A", d.a), ("B", d.b)):
            if value.reason:
                reasons.setdefault(value.reason, []).append(f"{d.name} in {side}")
    return [f"{capital(reason)}: {join(places)}." for reason, places in reasons.items()]


def sheets(comparison: Comparison, a: str, b: str) -> list[Sheet]:
    """A table for each metric of the folders `a` and `b`: the values, and B - A."""
    told = [Note("What came out", verdict(comparison, m), True) for m in comparison.metrics]
    told += [Note("What A and B are", f"A: {a}, B: {b}.", True)]
    told += [Note("What to know", note, True) for note in notes(comparison)]
    return [_sheet(comparison, metric, tuple(told)) for metric in comparison.metrics]


def _sheet(comparison: Comparison, metric: str, notes: tuple[Note, ...]) -> Sheet:
    own = [d for d in comparison.differences if d.metric == metric]
    blocks = tuple((name, tuple(map(_row, one))) for name, one in groupby(own, lambda d: d.name))
    title = described(metric).title
    return Sheet(title, HEADER, blocks, notes, tuple(map(_numbers, own)))


def _row(d: Difference) -> tuple[Printed, ...]:
    return (
        Printed(d.name, d.name),
        Printed(str(d.length), d.length),
        Printed(plusminus(d.a.mean, d.a.half, digits=3), d.a.mean),
        Printed(plusminus(d.b.mean, d.b.half, digits=3), d.b.mean),
        Printed(plusminus(d.change.mean, d.change.half, sign="+"), d.change.mean),
        Printed(d.better),
    )


def _numbers(d: Difference) -> dict[str, Any]:
    """A row of the CSV."""
    return {
        "metric": d.metric,
        "run": d.match.label,
        "run_a": d.match.a.id,
        "run_b": d.match.b.id,
        "way": str(d.way),
        "length": d.length,
        **{f"{part}_a": getattr(d.a, part) for part in ("mean", "half", "n", "reason")},
        **{f"{part}_b": getattr(d.b, part) for part in ("mean", "half", "n", "reason")},
        "difference": d.change.mean,
        "difference_half": d.change.half,
        "difference_n": d.change.n,
        "interval": "paired" if d.paired else "welch",
        "better": d.better,
    }
