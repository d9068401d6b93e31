"""Differences of scores and their tests: of a table's rows from a baseline (`versus`), and of runs
in two studies, A and B (`compare`).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from pe_jax.errors import nearest
from pe_jax.metric import Metric
from pe_jax.record import Result, Way
from pe_jax.report import labels, phrases, stats
from pe_jax.report.study import HEADROOM, Cell, Study, minus
from pe_jax.report.table import Table, TableRow, natural
from pe_jax.storage import records

USUAL = ("rope", "nope")
"""The baseline where none is named: the first of these that a table has."""
NOWHERE = "not there"
Scatter = dict[tuple[str, str, int, int], list[float]]
"""Values by label, what they scatter over, length and number of tests."""
NOISE = 0.06
"""The share of its value by which a number of the config differs in a study of noise."""


@dataclass(frozen=True)
class Difference:
    """Scores minus other scores: the mean with its 95 % interval, and the two-sided p.

    The test is the paired t test. Answers that are right or wrong (`stats.yes_or_no`) have
    McNemar's exact test and no interval.
    """

    change: stats.Interval
    p: float  # adjusted by Holm's method; NaN: no test
    same: bool  # all shared scores are equal to the bit
    p_within: float = math.nan  # of equivalence within a margin, adjusted likewise
    cell: Cell = Cell()  # the differences themselves

    @property
    def equivalent(self) -> bool:
        """Whether the tests show that the difference lies within the margin."""
        return self.p_within <= stats.LEVEL

    def verdict(self, sign: int) -> str:
        """ "better", "worse", "equal", "not distinguishable", or "" without a test.

        Lower scores are better with sign 1, higher with -1.
        """
        if self.same:
            return "equal"
        if self.change.n < 2 or math.isnan(self.p):
            return ""
        if self.p > stats.LEVEL:
            return "not distinguishable"
        return "better" if sign * self.change.mean < 0 else "worse"


def against(
    cells: Sequence[Cell],
    base: Cell,
    margin: float | None = None,
    best: bool = False,
) -> list[Difference]:
    """Each cell minus the base over the replicas that both have, with p adjusted by Holm's method
    over the cells; over all pairs where the base is the `best` of them and was not named
    beforehand (`stats.of_best`). With a margin, in the unit of the scores, `p_within` is that of
    `stats.equivalence`.
    """
    samples, values = [cell.values for cell in cells], base.values
    answers = stats.yes_or_no([values, *samples])
    if best:
        p = stats.of_best([values, *samples], 0)[1:]
    else:
        p = stats.holm(stats.p_values(samples, values))
    within = [math.nan] * len(samples)
    if margin is not None:
        if not 0 < margin < math.inf:
            raise ValueError(f"--margin must be a finite number above 0, got {margin:g}")
        within = stats.holm([stats.equivalence(sample, values, margin) for sample in samples])
    differences = []
    for cell, adjusted, near in zip(cells, p, within, strict=True):
        paired = minus(cell, base)
        change, same = paired.interval, bool(paired.n) and not any(paired.values.values())
        if answers:  # right or wrong: no interval
            change = change._replace(half=0.0 if same else math.nan)
        differences.append(Difference(change, adjusted, same, near, paired))
    return differences


# Rows of a table from a baseline


@dataclass(frozen=True)
class Versus:
    """The rows of a table minus its baseline, at each length: the models as trained, and the swaps
    of a single model.
    """

    table: Table
    base: TableRow
    rows: tuple[tuple[TableRow, tuple[Difference, ...]], ...]
    margin: float | None
    """Differences within it do not matter, in the unit of the metric; None: none was stated."""
    named: bool
    """Whether a user has named the baseline."""
    tests: tuple[int, ...]
    """For how many tests p is corrected, by length."""

    @property
    def baseline(self) -> str:
        return self.base.label

    @property
    def title(self) -> str:
        """As in "Bits per byte, same targets (lower is better): difference from rope"."""
        parts = [f"difference from {self.baseline}", self.table.heading]
        return f"{self.table.metric.title}: {', '.join(filter(None, parts))}"


def versus(
    tables: Sequence[Table], baseline: str | None = None, margin: float | None = None
) -> list[Versus]:
    """Each table that has the baseline and another row, against it; with a `margin`, with tests of
    equivalence. Beyond the training length only rows that are `TableRow.compared` have values.

    `baseline` is a row's label, or a swap of a single model; None is rope, else nope, else the
    first model of a table. ValueError, with the nearest labels, where no table has it.
    """
    several = [
        (table, rows) for table in tables if len(rows := [r for r in table.rows if r.candidate]) > 1
    ]
    found = []
    for table, rows in several:
        if base := _base(rows, baseline):
            place, others = rows.index(base), [row for row in rows if row is not base]
            columns = [table.column(i, rows) for i in range(len(table.lengths))]
            best = not (baseline or table.of_swaps or any(_base(rows, name) for name in USUAL))
            tested = [
                against(column[:place] + column[place + 1 :], column[place], margin, best)
                for column in columns
            ]
            pairs = tuple(zip(others, zip(*tested, strict=True), strict=True))
            counts = [sum(not math.isnan(one.p) for one in column) for column in tested]
            tests = tuple(math.comb(n + 1, 2) if best else n for n in counts)
            found.append(Versus(table, base, pairs, margin, baseline is not None, tests))
    if baseline and not found:
        known = sorted({row.label for _, rows in several for row in rows})
        swaps = {str(row.way) for _, rows in several for row in rows if row.way}
        none = "none, as that takes two models, or one with swaps"
        raise ValueError(
            f"nothing that others can be compared with is called {baseline!r}"
            f"{nearest(baseline, {*known, *swaps}, 3)} Known: {'; '.join(known) or none}."
        )
    return found


def _base(rows: Sequence[TableRow], baseline: str | None) -> TableRow | None:
    # The only row of that name, of models as trained first.
    for name in [baseline] if baseline else USUAL:
        ranked = [
            ((not row.trained, row.names.index(name)), row)
            for row in rows
            if name in row.names and (baseline or row.trained)
        ]
        first = min((rank for rank, _ in ranked), default=None)
        called = [row for rank, row in ranked if rank == first]
        if len(called) == 1:
            return called[0]
    return None if baseline or not rows[0].trained else rows[0]


def scatter(study: Study, compared: Sequence[Versus], metric: str) -> Scatter:
    """Three or more paired differences of a row and length over seeds, and the tests of its column.

    Of a study of noise, with 0 tests, the scores of a label over "seed", of its run with the most
    seeds; and over what alone sets runs apart from that one, at its first seed: a number of the
    config, by at most NOISE, or the order of the text. Their variances are components of variance.
    """
    found: Scatter = defaultdict(list)
    for one in compared:
        of_seeds = (one.table.metric.name, one.table.replicate) == (metric, "seed")
        for row, own in one.rows if of_seeds else ():
            label = ", ".join(filter(None, [row.label, one.table.heading]))
            for length, tests, difference in zip(one.table.lengths, one.tests, own, strict=True):
                key = label, f"seed, minus {one.baseline}", length, tests
                found[key] += difference.cell.values.values()
    differ = labels.differing([*study.runs.values()])
    most = {run.label: run for run in sorted(study.runs.values(), key=lambda run: len(run.seeds))}
    kept = (one for one in study.scores.items() if one[0][0] in study.runs)
    for (id, way, name, length), cell in kept:
        run, base = study.runs[id], most[study.runs[id].label]
        facts, others = differ[id], differ[base.id]
        apart = [path for path in facts if facts[path] != others[path] and path != "run.seeds"]
        alike = {"data.source"} if run.corpus.bytes == base.corpus.bytes else set()
        noise = [path for path in apart if path in alike or _close(facts[path], others[path])]
        if name == metric and not way and len(apart) == len(noise) < 2:
            (source,), seeds = noise or ["seed"], base.seeds[:1] if noise else run.seeds
            values = [value for one, value in cell.values.items() if one.number in seeds]
            found[run.label, source, length, 0] += values
    found = {key: values for key, values in found.items() if len(values) > 2}
    noisy = any(not tests and source != "seed" for _, source, _, tests in found)
    return {key: values for key, values in found.items() if key[3] or noisy}


def _close(a: Any, b: Any) -> bool:
    return isinstance(a, int | float) and type(a) is type(b) and abs(a - b) <= NOISE * b


# Two studies


@dataclass(frozen=True)
class Match:
    """The scores of one run in A and in B, by one metric at one length, and B - A."""

    label: str
    a: Result
    b: Result
    way: Way
    metric: Metric
    length: int
    cell_a: Cell
    cell_b: Cell
    difference: Difference

    @property
    def name(self) -> str:
        return labels.in_way(self.label, self.way, self.a.train)

    @property
    def better(self) -> str:
        """ "A", "B", or "" where no test tells."""
        verdict = self.difference.verdict(self.metric.sign)
        return {"better": "B", "worse": "A"}.get(verdict, "")


@dataclass(frozen=True)
class Comparison:
    """What two studies share and what they do not."""

    matches: tuple[Match, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    changes: tuple[str, ...]
    """What differs between the two runs of a match besides their scores, each said once."""


def compare(a: Study, b: Study) -> Comparison:
    """B - A at every way, metric and length that a run in both was evaluated at. Runs are matched
    by id, then by label where it is unique on both sides; places of different texts have no
    difference. ValueError where they share no number.
    """
    pairs = _matched(a, b)
    if not pairs:
        known = [phrases.join(run.label for run in side.runs.values()) for side in (a, b)]
        raise ValueError(
            "A and B share no run (the same id, or a label that each has once): "
            f"A has {known[0]}; B has {known[1]}"
        )
    by_id = {x.id: (label, x, y) for label, x, y in pairs}
    matches = []
    for (id, way, metric, length), cell in a.scores.items():
        if id in by_id and metric != HEADROOM.name:  # of two oracles
            label, x, y = by_id[id]
            if other := b.scores.get((y.id, way, metric, length)):
                paired = all(r.kind == "seed" for r in cell.values) or _places(x) == _places(y)
                (change,) = against([other if paired else Cell()], cell)
                both = cell, other, change
                matches.append(Match(label, x, y, way, a.metrics[metric], length, *both))
    if not matches:
        shared = phrases.join(label for label, _, _ in pairs)
        raise ValueError(f"A and B share {shared}, but nothing that both were evaluated at")
    for metric in a.metrics:
        of = [i for i, match in enumerate(matches) if match.metric.name == metric]
        for i, p in zip(of, stats.holm([matches[i].difference.p for i in of]), strict=True):
            matches[i] = replace(matches[i], difference=replace(matches[i].difference, p=p))
    place = {metric: i for i, metric in enumerate(a.metrics)}
    matches.sort(
        key=lambda m: (place[m.metric.name], bool(m.way), m.label, natural(str(m.way)), m.length)
    )
    taken = {run.id for _, *both in pairs for run in both}
    only_a, only_b = (
        tuple(
            sorted(name for id, name in labels.names(side.runs.values()).items() if id not in taken)
        )
        for side in (a, b)
    )
    return Comparison(tuple(matches), only_a, only_b, tuple(_changes(pairs)))


def _matched(a: Study, b: Study) -> list[tuple[str, Result, Result]]:
    pairs = [(a.runs[id], b.runs[id]) for id in a.runs if id in b.runs]
    taken = {run.id for run, _ in pairs}
    left = [[run for run in side.runs.values() if run.id not in taken] for side in (a, b)]
    number = [Counter(run.label for run in side) for side in left]
    pairs += [
        (x, y)
        for x, y in product(*left)
        if x.label == y.label and number[0][x.label] == number[1][y.label] == 1
    ]
    called = labels.names([x for x, _ in pairs])
    return sorted(((called[x.id], x, y) for x, y in pairs), key=lambda match: match[0])


def _places(one: Result) -> tuple[Any, ...]:
    # What decides which places of a text are scored: how many, too, as they are spread evenly.
    text, config = one.scored or one.corpus, one.config["eval"]
    parts = (config.get(name) for name in ("split", "targets", "last"))
    return text.hash, one.tokenizer.sha256, max(config["lengths"]), *parts


def _changes(pairs: Sequence[tuple[str, Result, Result]]) -> Iterator[str]:
    changed: dict[str, list[str]] = {}
    for label, *both in pairs:
        a, b = map(_facts, both)
        for name in sorted(a.keys() | b.keys()):
            if (x := a.get(name, NOWHERE)) != (y := b.get(name, NOWHERE)):
                shown = [phrases.plain(value) if value != "" else '""' for value in (x, y)]
                change = f"{name}: {shown[0]} in A, {shown[1]} in B"
                changed.setdefault(change, []).append(label)
    for change, of in changed.items():
        yield change + ("" if len(of) == len(pairs) else f" ({', '.join(of)})")


def _facts(one: Result) -> dict[str, Any]:
    facts: dict[str, Any] = dict(text=phrases.text(one.corpus), commit=phrases.commit(one.commit))
    facts |= {"text scored": phrases.text(one.scored)} if one.scored else {}
    facts |= {f"config {path}": value for path, value in labels.settings(one.config).items()}
    facts |= {f"version {name}": version for name, version in one.versions.items()}
    return facts | {f"device {name}": of for name, of in (records.plain(one.device) or {}).items()}
