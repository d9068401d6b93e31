"""A study: the results of its folders, and their index, which everything else is built from.

Tables (table.py), differences (differences.py), notes and figures are built from what `Study.of`
holds, and read no rows of records.

The share of the headroom that a model uses is a metric of its own, computed here: the model's gain
from a longer context, over an oracle's gain from the same context,

    100 (value at L - value at E) / (oracle at L - oracle at E)

in percent, for each replica, at each evaluation length E beyond the training length L. Of a task
whose targets are drawn, the oracle is the Bayes-optimal prediction, by the metric BITS; the record
has its values among its baselines. Of text, it is a model trained at each length E, by the metric
TEXT, the mean over its seeds, at the lengths at which it gains at least LEAST. The model's values
at L and E are scored in the same way: both as trained, or both with one swap.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pe_jax.metric import Metric, SampleMetric
from pe_jax.metrics import METRICS
from pe_jax.record import AS_TRAINED, SENTENCES, Reason, Replica, Result, Row, UsersMetric, Way
from pe_jax.report import groups, labels, stats
from pe_jax.report.groups import Condition
from pe_jax.report.phrases import count
from pe_jax.storage import atomic, records

BITS, TEXT = "last_bits", "same_targets"
LEAST = 0.05
"""Bits per byte. Where the oracle gains less from a longer context there is no headroom to use, and
a share of it would be noise."""
HEADROOM = SampleMetric(
    "headroom",
    "The headroom used at a length: the bits that the model gains from the training length to it, "
    "over the bits that {oracle} gains on the same targets. 100 %: the longer context is used as "
    "well as by it; 0 %: it is not used; below 0: it harms.",
    unit="headroom used in %",
    reach="90 % used up to",
    value=lambda predictions: math.nan,  # computed from the values at two lengths
)

Key = tuple[str, Way, str, int]
"""Run id, way, metric, length."""
Binned = dict[float, dict[Replica, float]]
"""The finite values of a curve by position, or depth, and replica."""


def load(
    *folders: str | Path, remedy: str = "", warn: Callable[[str], None] | None = None
) -> list[Result]:
    """The results of each `<folder>/*/result.json`, or without any of `<folder>/runs.jsonl`, by id.

    A run that stands there twice counts once, and one at a learning rate that another has tried
    does not count. A damaged record, and a second one of a run with other results, is left out, and
    `warn` is called with a sentence on it; without `warn` it is a ValueError. A folder without any
    result is a ValueError, which ends with `remedy`, how to make some, {} standing for the folder.
    """
    known: dict[str, tuple[str, Result]] = {}
    for folder in map(Path, folders):
        damages, there = [], 0
        for place, text in _records(folder).items():
            try:
                result = records.parse(Result, text.decode())
                first, same = known.setdefault(result.id, (place, result))
                if same != result:
                    raise ValueError(f"the run {result.id} has other results in {first}")
                there += 1
            except ValueError as error:  # of JSON and UTF-8, too
                damages.append(f"{place} is damaged ({error})")
                if warn is None:
                    raise ValueError(f"{damages[-1]}: delete it and run it again") from error
                warn(f"{damages[-1]}: it is left out")
        if not there:
            needed = f"no results in {str(folder)!r}: it needs */result.json or runs.jsonl"
            advice = remedy.format(folder)
            raise ValueError("; ".join(filter(None, [needed, *damages[:3], advice])))
    results = sorted((result for _, result in known.values()), key=lambda r: len(r.rates))
    tried = {one.run: len(result.rates) for result in results for one in result.rates}
    kept = [result for result in results if len(result.rates) >= tried.get(result.id, 0)]
    return sorted(kept, key=lambda result: result.id)


def _records(folder: Path) -> dict[str, bytes]:
    # The records of a folder by the place where each stands.
    texts, published = {}, folder / "runs.jsonl"
    for path in (one / "result.json" for one in atomic.entries(folder)):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            texts[str(path)] = path.read_bytes()
    if not texts and published.is_file():
        lines = enumerate(published.read_bytes().splitlines(), 1)
        texts = {f"{published}, line {i}": line for i, line in lines if line}
    return texts


class Missing(NamedTuple):
    """Why a replica has no value."""

    reason: Reason
    sentence: str


ABSENT = Missing(Reason.NOT_EVALUATED, SENTENCES[Reason.NOT_EVALUATED])


@dataclass(frozen=True, eq=False)
class Cell:
    """The scores of one run, way, metric and length by replica: their mean and the half width of
    its 95 % interval.
    """

    values: Mapping[Any, float] = field(default_factory=dict)
    """Finite, and as reports show them: of some metrics the logarithm."""
    missing: Mapping[Any, Missing] = field(default_factory=dict)
    """The replicas that should have a value and have none."""
    seconds: float | None = None
    """The median of a pass; None where none was timed."""
    best: bool = False
    """Prints bold: no test tells it from the best of its column."""
    documents: np.ndarray = field(default_factory=lambda: np.empty(0))
    """The means over replicas by document; none unless all replicas have them."""
    sizes: tuple[float, ...] = ()
    """Scored bytes of these documents: weighted by them `documents` have the mean of `values`."""

    @classmethod
    def empty(cls, why: str) -> Cell:
        """A cell without a value, for a reason that is not of its replicas."""
        return cls(missing={"": Missing(Reason.NOT_EVALUATED, why)})

    @functools.cached_property
    def interval(self) -> stats.Interval:
        whole = stats.interval([*self.values.values()])  # none of answers that are right or wrong
        return whole._replace(half=math.nan) if stats.yes_or_no([self.values]) else whole

    @functools.cached_property
    def over_documents(self) -> stats.Interval:
        of = self.documents, self.sizes
        return stats.over_documents(*of) if self.sizes else stats.interval([])

    @property
    def mean(self) -> float:
        return self.interval.mean

    @property
    def half(self) -> float:
        return self.interval.half

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def replicas(self) -> int:
        """How many values it should be the mean of."""
        return len(self.values) + len(self.missing)

    @property
    def reason(self) -> str:
        """Why replicas are missing, for a footnote."""
        each = "; ".join(f"{replica} {why.sentence}" for replica, why in self.missing.items())
        if self.missing and self.values:
            return f"n={self.n} of {self.replicas}: {each}"
        reasons = {why.sentence for why in self.missing.values()}
        return each if len(reasons) > 1 else "".join(reasons)

    @property
    def lost(self) -> bool:
        """Whether a model cannot serve the length: too many positions, or nothing finite."""
        return any(why.reason in LOST for why in self.missing.values())


LOST = {Reason.BEYOND_POSITIONS, Reason.NOT_FINITE}


def minus(a: Cell, b: Cell) -> Cell:
    """a - b, by the replicas that both have; by document where all is of the same ones."""
    shared = sorted(a.values.keys() & b.values.keys())
    change = Cell({r: a.values[r] - b.values[r] for r in shared}, {**a.missing, **b.missing})
    if (a.sizes, a.values.keys()) != (b.sizes, b.values.keys()):
        return change
    return dataclasses.replace(change, documents=a.documents - b.documents, sizes=a.sizes)


def mean(lengths: Sequence[Cell]) -> Cell:
    """The mean over lengths of each replica that has all of them."""
    if not lengths:
        return Cell.empty(ABSENT.sentence)
    shared = set.intersection(*(set(cell.values) for cell in lengths))
    missing = {r: why for cell in lengths for r, why in cell.missing.items()}
    values = {r: sum(c.values[r] for c in lengths) / len(lengths) for r in sorted(shared)}
    return Cell(values, missing)


class Index(dict[Key, Cell]):
    """Cells by (run id, way, metric, length); an empty one where nothing was evaluated."""

    def __missing__(self, key: Key) -> Cell:
        return Cell.empty(ABSENT.sentence)


class Evaluated(NamedTuple):
    """The replicas, ways and lengths of one run by one metric, each sorted."""

    replicas: tuple[Replica, ...]
    ways: tuple[Way, ...]
    lengths: tuple[int, ...]


@dataclass(frozen=True)
class Group:
    """Comparable runs: same data, tokenizer and budget (`groups.comparable`)."""

    name: str
    """As in "markov, trained at 64 tokens": tells it from the other groups of the study."""
    runs: tuple[Result, ...]
    """Their facts: config, text, training. Their scores are in `Study.scores`."""
    apart: tuple[Condition, ...]
    """What sets it apart from the other groups."""
    labels: Mapping[str, str]
    """What tables call each run, by its id."""
    oracles: Mapping[str, Sequence[Result]]
    """Runs trained at longer lengths, by the id of their model, or their label without one."""
    methods: Mapping[tuple[str, Way, str], Mapping[int, float]]
    """What methods without a model score by length, by (metric, way, method)."""

    @property
    def train_length(self) -> int:
        return self.runs[0].train.length


@dataclass(frozen=True)
class Study:
    """The results of a study, indexed."""

    runs: Mapping[str, Result]
    """By id; the runs of `groups` and their oracles."""
    groups: tuple[Group, ...]
    metrics: Mapping[str, Metric]
    """By name: of text first, then by their mean place in the records."""
    scores: Index
    evaluated: Mapping[tuple[str, str], Evaluated]
    """By (run id, metric)."""
    curves: Mapping[Key, Binned]

    @classmethod
    def of(cls, results: Sequence[Result]) -> Study:
        """Indexes the scores of results, with their shares of the headroom. ValueError where they
        hold no numbers.
        """
        known = _metrics(results)
        scores = {result.id: _scores(result, known) for result in results}
        comparable = groups.comparable(results)
        names = groups.names([group.runs[0] for group in comparable])
        grouped = tuple(map(_group, names, comparable))
        for group in grouped:
            oracle = _oracle_of_text(group, scores)
            for run in group.runs:
                bayes = {
                    (one.way, one.length): Cell({"": one.value})
                    for one in run.baselines
                    if (one.name, one.metric) == ("bayes", BITS)
                }
                for metric, best in ((BITS, bayes), (TEXT, oracle)):
                    scores[run.id] |= _shares(run, metric, best, scores[run.id])
        places: dict[str, list[int]] = defaultdict(list)
        for run in (run for group in grouped for run in group.runs):
            for place, name in enumerate(dict.fromkeys(key[2] for key in scores[run.id])):
                places[name].append(place)
        if not places:
            raise ValueError(f"the {count(len(results), 'record')} hold no numbers to report")
        place = {name: statistics.fmean(of) for name, of in places.items()}
        used = sorted(place, key=lambda name: (isinstance(known[name], SampleMetric), place[name]))
        curves: dict[Key, Binned] = {}
        for result in results:
            for c in result.curves:
                curve = curves.setdefault((result.id, c.way, c.metric, c.length), {})
                for x, value in zip(c.position, c.value, strict=True):
                    values = curve.setdefault(x, {})
                    if value is not None and math.isfinite(value):
                        values[c.replica] = value
        index = Index({key: cell for of_run in scores.values() for key, cell in of_run.items()})
        return cls(
            {result.id: result for result in results},
            grouped,
            {name: known[name] for name in used} | known,
            index,
            _evaluated(index),
            {key: dict(sorted(curve.items())) for key, curve in curves.items()},
        )

    def part(self, runs: Sequence[Result]) -> Study:
        """Some of the runs, grouped anew, with the scores of this study: their headroom may be that
        of an oracle whose model is not among them.
        """
        whole = {"metrics": self.metrics, "scores": self.scores, "evaluated": self.evaluated}
        return dataclasses.replace(Study.of(runs), **whole)

    def curve_metric(self, runs: Iterable[Result], samples: bool) -> Metric | None:
        """The first metric, of samples or else of text, that models as trained have curves of."""
        ids = {run.id for run in runs}
        names = {name for id, way, name, _ in self.curves if id in ids and not way}
        for name, metric in self.metrics.items():
            if name in names and isinstance(metric, SampleMetric) == samples:
                return metric
        return None


def _metrics(results: Iterable[Result]) -> dict[str, Metric]:
    users = {name: metric for result in results for name, metric in result.metrics.items()}
    names = dict.fromkeys(one.metric for r in results for one in (*r.rows, *r.curves))
    return {HEADROOM.name: HEADROOM} | {
        name: METRICS.get(name)
        or (_users(name, users[name]) if name in users else Metric(name, UNKNOWN.format(name)))
        for name in names
    }


UNKNOWN = (
    "The metric {} is not defined here: its unit is taken to be bits per byte and lower to be "
    "better."
)


def _users(name: str, described: UsersMetric) -> Metric:
    # A report reads no user's file.
    fields = ("sentence", "unit", "better", "logarithm")
    fields += ("percent",) if described.samples else ()
    like = METRICS["accuracy"] if described.samples else METRICS["same_targets"]
    own = {field: getattr(described, field) for field in fields}
    return dataclasses.replace(like, name=name, **own)


def _scores(result: Result, metrics: Mapping[str, Metric]) -> dict[Key, Cell]:
    rows: dict[Key, list[Row]] = defaultdict(list)
    replicas: dict[str, set[Replica]] = defaultdict(set)
    for row in result.rows:
        rows[result.id, row.way, row.metric, row.length].append(row)
        replicas[row.metric].add(row.replica)
    return {
        key: _cell(of_key, sorted(replicas[key[2]]), metrics[key[2]], result)
        for key, of_key in rows.items()
    }


def _cell(rows: Sequence[Row], replicas: Sequence[Replica], metric: Metric, result: Result) -> Cell:
    timed = [row.seconds for row in rows if row.seconds]
    values, missing = {}, dict.fromkeys(replicas, ABSENT)
    for row in rows:
        value = math.nan if row.value is None else row.value
        if metric.logarithm:
            value = math.log(value) if value > 0 else math.nan
        if math.isfinite(value):
            values[row.replica] = value
            missing.pop(row.replica, None)
        else:
            sentence = row.why or SENTENCES[Reason.NOT_FINITE]
            missing[row.replica] = Missing(row.reason or Reason.NOT_FINITE, sentence)
    seconds = statistics.median(timed) if timed else None
    documents = [row.documents for row in rows if row.documents]
    if len(documents) < max(1, len(values)):
        return Cell(values, missing, seconds)
    sizes = result.document_bytes[metric.name]
    bits = np.mean(documents, axis=0) / np.log(2) / sizes
    return Cell(values, missing, seconds, documents=bits, sizes=sizes)


def _group(name: str, group: groups.Comparable) -> Group:
    methods: dict[tuple[str, Way, str], dict[int, float]] = defaultdict(dict)
    for run in sorted(group.runs, key=lambda run: run.id):  # of equal samples: the first counts
        for one in run.baselines:
            methods[one.metric, one.way, one.name].setdefault(one.length, one.value)
    # The model of an oracle is the run with its label, of several the one with its rate, too.
    oracles: dict[str, list[Result]] = defaultdict(list)
    for oracle in group.oracles:
        same = [run for run in group.runs if run.label == oracle.label]
        if len(same) > 1:
            rate = oracle.config["train"]["rate"]
            same = [run for run in same if run.config["train"]["rate"] == rate]
        oracles[same[0].id if len(same) == 1 else oracle.label].append(oracle)
    return Group(name, group.runs, group.apart, labels.names(group.runs), oracles, methods)


def _oracle_of_text(
    group: Group, scores: Mapping[str, Mapping[Key, Cell]]
) -> dict[tuple[Way, int], Cell]:
    # The cells of the oracle that is best at its longest useful length: at the training length, and
    # at the lengths at which it gains LEAST or more.
    candidates = []
    for model in group.runs:
        cells = {}
        for run in (model, *group.oracles.get(model.id, ())):
            key = run.id, AS_TRAINED, TEXT, run.train.length
            cells[run.train.length] = scores[run.id].get(key, Cell())
        start = cells.pop(group.train_length)
        gained = {n: cell for n, cell in cells.items() if start.mean - cell.mean >= LEAST}
        candidates += [{group.train_length: start} | gained] if gained else []
    best = min(candidates, key=lambda cells: cells[max(cells)].mean, default={})
    return {(AS_TRAINED, n): cell for n, cell in best.items()}


def _shares(
    result: Result, metric: str, best: Mapping[tuple[Way, int], Cell], scores: Mapping[Key, Cell]
) -> dict[Key, Cell]:
    train, shares = result.train.length, {}
    for (id, way, name, length), end in scores.items():
        task = way if (way, train) in best else AS_TRAINED  # a variant has an oracle of its own
        first, last = (best.get((task, n), Cell()) for n in (train, length))
        most, start = first.mean - last.mean, scores.get((id, way, metric, train))
        if name == metric and length > train and most > 0 and start:  # there is context to use
            change = minus(end, start)
            values = {replica: -100 * value / most for replica, value in change.values.items()}
            share = Cell(values, change.missing, end.seconds)
            if first.sizes == last.sizes == change.sizes:  # linearised, as a ratio of two sums
                gain = 100 * change.documents + share.mean * (first.documents - last.documents)
                documents = share.mean - gain / most
                share = dataclasses.replace(share, documents=documents, sizes=change.sizes)
            shares[id, way, HEADROOM.name, length] = share
    return shares


def _evaluated(scores: Index) -> dict[tuple[str, str], Evaluated]:
    keys: dict[tuple[str, str], list[Key]] = defaultdict(list)
    for key in scores:
        keys[key[0], key[2]].append(key)
    return {
        name: Evaluated(
            tuple(sorted({r for key in own for r in (*scores[key].values, *scores[key].missing)})),
            tuple(sorted({way for _, way, _, _ in own}, key=str)),
            tuple(sorted({length for *_, length in own})),
        )
        for name, own in keys.items()
    }
