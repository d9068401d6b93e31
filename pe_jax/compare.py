"""Two sets of run records side by side: what changed between them, and what came of it.

Runs are matched by id, then by label where it is unique on both sides. A difference is B - A, so
below 0 says that B is better; its 95 % interval is paired over seeds where both runs have the
same ones, else Welch's.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pe_jax import captions, stats, tables
from pe_jax.labels import flatten, names, swapped
from pe_jax.tables import Cell, Record

MISSING = "not there"


@dataclass(frozen=True)
class Match:
    """One run in A and in B."""

    label: str
    a: Record
    b: Record


@dataclass(frozen=True)
class Difference:
    """A number of A, of B, and B - A, at one length of a metric and swap ("": as trained)."""

    match: Match
    swap: str
    metric: str
    length: int
    a: Cell
    b: Cell
    change: stats.Interval
    paired: bool

    @property
    def name(self) -> str:
        return swapped(self.match.label, self.swap, self.match.a["train"]["length"])

    @property
    def better(self) -> str:
        """ "A" or "B" where the interval lies on its side of 0, else ""."""
        mean, half, _ = self.change
        if math.isnan(half) or abs(mean) <= half:
            return ""
        return "A" if mean > 0 else "B"


@dataclass(frozen=True)
class Comparison:
    """What two sets of records share and what they do not."""

    matches: tuple[Match, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    changes: tuple[str, ...]
    differences: tuple[Difference, ...]

    @property
    def metrics(self) -> list[str]:
        return list(dict.fromkeys(found.metric for found in self.differences))


def compare(a: Sequence[Record], b: Sequence[Record]) -> Comparison:
    """The comparison of two sets of records; a ValueError says when they share no number."""
    matches = _matched(a, b)
    called = [names(records) for records in (a, b)]
    if not matches:
        known = [captions.join(found.values()) for found in called]
        raise ValueError(f"A and B share no run: A has {known[0]}; B has {known[1]}")
    taken = {id(record) for match in matches for record in (match.a, match.b)}
    only_a, only_b = (
        tuple(sorted(found[record["id"]] for record in records if id(record) not in taken))
        for found, records in zip(called, (a, b), strict=True)
    )
    differences = tuple(_differences(matches))
    if not differences:
        shared = captions.join(match.label for match in matches)
        raise ValueError(f"A and B share {shared}, but nothing that both were evaluated at")
    return Comparison(matches, only_a, only_b, tuple(_changes(matches)), differences)


def _matched(a: Sequence[Record], b: Sequence[Record]) -> tuple[Match, ...]:
    by_id = [{record["id"]: record for record in records} for records in (a, b)]
    same = by_id[0].keys() & by_id[1].keys()
    pairs = [(by_id[0][id], by_id[1][id]) for id in same]
    left = [[record for id, record in records.items() if id not in same] for records in by_id]
    count = [Counter(record["label"] for record in records) for records in left]
    unique = {label for label in count[0] if count[0][label] == count[1][label] == 1}
    by_label = [{record["label"]: record for record in records} for records in left]
    pairs += [(by_label[0][label], by_label[1][label]) for label in unique]
    labels = names([pair[0] for pair in pairs])
    return tuple(sorted((Match(labels[x["id"]], x, y) for x, y in pairs), key=lambda m: m.label))


def _differences(matches: Sequence[Match]) -> Iterator[Difference]:
    metrics = tables.metrics([match.a for match in matches])
    for metric in metrics:
        for with_swap in (False, True):
            for match in matches:
                for swap, length in _shared(match, metric):
                    if bool(swap) == with_swap:
                        yield _difference(match, swap, metric, length)


def _shared(match: Match, metric: str) -> list[tuple[str, int]]:
    """(swap, length) that both runs were evaluated at."""
    cells = [
        {(row.get("swap", ""), row["length"]) for row in run["rows"] if row["metric"] == metric}
        for run in (match.a, match.b)
    ]
    return sorted(cells[0] & cells[1])


def _difference(match: Match, swap: str, metric: str, length: int) -> Difference:
    values = []
    for run in (match.a, match.b):
        rows = tables.by_seed(run, metric, length, swap)
        found = {seed: tables.value(row) for seed, row in rows.items()}
        values.append({seed: value for seed, value in found.items() if not math.isnan(value)})
    paired = set(match.a["seeds"]) == set(match.b["seeds"])
    change = (
        stats.paired(values[1], values[0])
        if paired
        else stats.welch(list(values[1].values()), list(values[0].values()))
    )
    a, b = (tables.cell(run, metric, length, swap) for run in (match.a, match.b))
    return Difference(match, swap, metric, length, a, b, change, paired)


def _changes(matches: Sequence[Match]) -> Iterator[str]:
    """What differs between the two runs of a match besides their numbers, each said once."""
    for title, flat in (
        ("text", lambda run: {"": _text(run["corpus"])}),
        ("config", lambda run: flatten({k: v for k, v in run["config"].items() if k != "log"})),
        ("commit", lambda run: {"": run.get("commit", MISSING)[:12]}),
        ("version", lambda run: flatten(run.get("versions", {}))),
        ("device", lambda run: flatten(run.get("device", {}))),
    ):
        found: dict[str, list[str]] = {}
        for match in matches:
            a, b = flat(match.a), flat(match.b)
            for key in sorted(a.keys() | b.keys()):
                if (x := a.get(key, MISSING)) != (y := b.get(key, MISSING)):
                    words = f"{title} {key}".strip() + f": {_plain(x)} in A, {_plain(y)} in B"
                    found.setdefault(words, []).append(match.label)
        for words, labels in found.items():
            yield words + ("" if len(labels) == len(matches) else f" ({', '.join(labels)})")


def _text(corpus: Record) -> str:
    return f"{corpus['source']} (SHA-256 {corpus['hash'].removeprefix('sha256:')[:12]})"


def _plain(value: Any) -> str:
    return captions.plain(value) if value != "" else '""'
