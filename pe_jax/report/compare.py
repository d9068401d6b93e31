"""Two sets of results side by side: what changed between them, and what came of it.

Runs are matched by id, then by label where it is unique on both sides. A difference is B - A; its
95 % interval is paired over seeds, places or samples where both runs have the same ones, else
Welch's.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pe_jax.record import Result, Way
from pe_jax.report import stats, tables, words
from pe_jax.report.cells import Cell, by_replica, cell, described, values
from pe_jax.report.labels import in_way, names, settings
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

    @property
    def name(self) -> str:
        return in_way(self.match.label, self.way, self.match.a.train)

    @property
    def better(self) -> str:
        """ "A" or "B" where the interval lies on its side of 0, else ""."""
        mean, half, _ = self.change
        if math.isnan(half) or abs(mean) <= half:
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
    called = [names(results) for results in (a, b)]
    if not matches:
        known = [words.join(labels.values()) for labels in called]
        raise ValueError(f"A and B share no run: A has {known[0]}; B has {known[1]}")
    taken = {id(result) for match in matches for result in (match.a, match.b)}
    only_a, only_b = (
        tuple(sorted(labels[result.id] for result in results if id(result) not in taken))
        for labels, results in zip(called, (a, b), strict=True)
    )
    differences = tuple(_differences(matches))
    if not differences:
        shared = words.join(match.label for match in matches)
        raise ValueError(f"A and B share {shared}, but nothing that both were evaluated at")
    return Comparison(matches, only_a, only_b, tuple(_changes(matches)), differences)


def _matched(a: Sequence[Result], b: Sequence[Result]) -> tuple[MatchedRuns, ...]:
    by_id = [{result.id: result for result in results} for results in (a, b)]
    same = by_id[0].keys() & by_id[1].keys()
    pairs = [(by_id[0][name], by_id[1][name]) for name in same]
    left = [[result for name, result in side.items() if name not in same] for side in by_id]
    number = [Counter(result.label for result in results) for results in left]
    unique = {label for label in number[0] if number[0][label] == number[1][label] == 1}
    by_label = [{result.label: result for result in results} for results in left]
    pairs += [(by_label[0][label], by_label[1][label]) for label in unique]
    called = names([x for x, _ in pairs])
    return tuple(sorted((MatchedRuns(called[x.id], x, y) for x, y in pairs), key=lambda m: m.label))


def _differences(matches: Sequence[MatchedRuns]) -> Iterator[Difference]:
    for metric in tables.metrics([match.a for match in matches]):
        for as_trained in (True, False):
            for match in matches:
                for way, length in _shared(match, metric):
                    if (not way) == as_trained:
                        yield _difference(match, way, metric, length)


def _shared(match: MatchedRuns, metric: str) -> list[tuple[Way, int]]:
    """(way, length) that both runs were evaluated at."""
    evaluated = [
        {(row.way, row.length) for row in run.rows if row.metric == metric}
        for run in (match.a, match.b)
    ]
    return sorted(evaluated[0] & evaluated[1], key=lambda pair: (str(pair[0]), pair[1]))


def _difference(match: MatchedRuns, way: Way, metric: str, length: int) -> Difference:
    runs = (match.a, match.b)
    of_a, of_b = (values(by_replica(run, metric, length, way)) for run in runs)
    paired = _paired(*runs, metric)
    change = (
        stats.paired(of_b, of_a)
        if paired
        else stats.welch(list(of_b.values()), list(of_a.values()))
    )
    a, b = (cell(run, metric, length, way) for run in runs)
    return Difference(match, way, metric, length, a, b, change, paired)


def _paired(a: Result, b: Result, metric: str) -> bool:
    """Whether both have the same replicas: the same seeds, or the same places of one text."""
    same = a.replicas(metric) == b.replicas(metric)
    return same and (a.replicas(metric)[0].kind == "seed" or _places(a) == _places(b))


def _places(result: Result) -> tuple[Any, ...]:
    """What decides which places of a text are scored, besides how many they are."""
    asked = result.config["eval"]
    return result.corpus.hash, result.tokenizer.sha256, asked["last"], max(asked["lengths"])


def _changes(matches: Sequence[MatchedRuns]) -> Iterator[str]:
    """What differs between the two runs of a match besides their numbers, each said once."""
    for title, flat in (
        ("text", lambda run: {"": words.text(run.corpus)}),
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
