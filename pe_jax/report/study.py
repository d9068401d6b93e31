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
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pe_jax.metric import Metric, SampleMetric
from pe_jax.metrics import METRICS
from pe_jax.record import AS_TRAINED, SENTENCES, Reason, Replica, Result, Row, UsersMetric, Way
from pe_jax.report import groups, labels
from pe_jax.report.groups import Condition
from pe_jax.report.words import count
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
Curve = dict[float, dict[Replica, float]]
"""The finite values by position, or depth, and replica."""


# Reading


def load(
    workdir: str | Path, remedy: str = "", warn: Callable[[str], None] | None = None
) -> list[Result]:
    """The results of `<workdir>/runs.jsonl`, or of every `<workdir>/*/result.json`, by their id.

    A run that stands there twice counts once, and one at a learning rate that another has tried
    does not count. A damaged record, and a second one of a run with
    other results, is left out, and `warn` is called with a sentence on it; without `warn` it is a
    ValueError. Without any result, a ValueError ends with `remedy`: how to make some.
    """
    workdir = Path(workdir)
    published = workdir / "runs.jsonl"
    if published.is_file():
        lines = published.read_bytes().splitlines()
        texts = {f"{published}, line {i}": line for i, line in enumerate(lines, 1) if line}
    else:
        texts = {}
        for path in (folder / "result.json" for folder in atomic.entries(workdir)):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                texts[str(path)] = path.read_bytes()
    results: dict[str, Result] = {}
    damages = []
    for place, text in texts.items():
        try:
            result = records.parse(Result, text.decode())
            if results.setdefault(result.id, result) != result:
                raise ValueError(f"the run {result.id} stands there before, with other results")
        except ValueError as error:  # of JSON and UTF-8, too
            damages.append(f"{place} is damaged ({error})")
            if warn is None:
                raise ValueError(f"{damages[-1]}: delete it and run it again") from error
            warn(f"{damages[-1]}: it is left out")
    if not results:
        needed = f"no results in {str(workdir)!r}: it needs */result.json or runs.jsonl"
        raise ValueError("; ".join(filter(None, [needed, *damages[:3], remedy])))
    tried = {one.run for result in results.values() for one in result.rates}
    kept = [result for result in results.values() if result.rates or result.id not in tried]
    return sorted(kept, key=lambda result: result.id)


def together(
    folders: Iterable[str | Path], remedy: str = "", warn: Callable[[str], None] | None = None
) -> list[Result]:
    """The results that `load` reads from several folders, by their id; {} in the remedy stands for
    the folder.

    A run that lies in several folders counts once; ValueError where its results differ.
    """
    found: dict[str, tuple[Path, Result]] = {}
    for folder in map(Path, folders):
        for result in load(folder, remedy.format(folder), warn):
            first_folder, first = found.setdefault(result.id, (folder, result))
            if first != result:
                raise ValueError(
                    f"{str(first_folder)!r} and {str(folder)!r} both have the run {result.id}, "
                    "with different results: `pe-jax compare` says what differs"
                )
    return sorted((result for _, result in found.values()), key=lambda result: result.id)


# Index


class Missing(NamedTuple):
    """Why a replica has no value."""

    reason: Reason
    sentence: str


@dataclass(frozen=True)
class Scores:
    """The scores of one run, way, metric and length, which one cell is the mean of.

    `values` are finite and as reports show them (of some metrics the logarithm), in the order of
    the record; `seconds` is the median of a pass, None where none was timed.
    """

    values: dict[Replica, float] = field(default_factory=dict)
    missing: dict[Replica, Missing] = field(default_factory=dict)
    seconds: float | None = None


class Index(dict[Key, Scores]):
    """Scores by (run id, way, metric, length); empty Scores where nothing was evaluated."""

    def __missing__(self, key: Key) -> Scores:
        return Scores()


class Evaluated(NamedTuple):
    """At what one run was evaluated by one metric, sorted."""

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
    """By id; those of `groups` and their oracles."""
    groups: tuple[Group, ...]
    metrics: Mapping[str, Metric]
    """By name, those with scores: of text first, then by their mean place in the records."""
    scores: Index
    evaluated: Mapping[tuple[str, str], Evaluated]
    """By (run id, metric)."""
    curves: Mapping[Key, Curve]
    """The finite values by position or depth."""

    @classmethod
    def of(cls, results: Sequence[Result]) -> Study:
        """Indexes the scores of results, with their shares of the headroom. ValueError where they
        hold no numbers.
        """
        known = _metrics(results)
        scores = {result.id: _scores(result, known) for result in results}
        found = groups.comparable(results)
        names = groups.names([group.runs[0] for group in found]) if found else []
        grouped = tuple(map(_group, names, found))
        for group in grouped:
            oracle = _oracle_of_text(group, scores)
            for run in group.runs:
                bayes = {
                    (one.way, one.length): one.value
                    for one in run.baselines
                    if (one.name, one.metric) == ("bayes", BITS)
                }
                for metric, best in ((BITS, bayes), (TEXT, oracle)):
                    scores[run.id] |= _shares(run, metric, best, scores[run.id])
        index = Index({key: own for of_run in scores.values() for key, own in of_run.items()})
        if not any(scores[run.id] for group in grouped for run in group.runs):
            raise ValueError(f"the {count(len(results), 'record')} hold no numbers to report")
        order = _ordered([scores[run.id] for group in grouped for run in group.runs], known)
        curves: dict[Key, Curve] = {}
        for result in results:
            for c in result.curves:
                curve = curves.setdefault((result.id, c.way, c.metric, c.length), {})
                for x, value in zip(c.position, c.value, strict=True):
                    at = curve.setdefault(x, {})
                    if value is not None and math.isfinite(value):
                        at[c.replica] = value
        curves = {key: dict(sorted(curve.items())) for key, curve in curves.items()}
        runs = {result.id: result for result in results}
        return cls(runs, grouped, order, index, _evaluated(index), curves)

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
        return next(
            (
                self.metrics[name]
                for name in _by_name(names)
                if isinstance(self.metrics[name], SampleMetric) == samples
            ),
            None,
        )


def _metrics(results: Iterable[Result]) -> dict[str, Metric]:
    users = {name: metric for result in results for name, metric in result.metrics.items()}
    names = {row.metric for result in results for row in result.rows}
    names |= {curve.metric for result in results for curve in result.curves}
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


def _by_name(names: Iterable[str]) -> list[str]:
    # Those of METRICS first, in its order.
    present = set(names)
    return [name for name in METRICS if name in present] + sorted(present - METRICS.keys())


def _ordered(
    runs: Iterable[Mapping[Key, Scores]], metrics: Mapping[str, Metric]
) -> dict[str, Metric]:
    places: dict[str, list[int]] = defaultdict(list)
    for scores in runs:
        for place, name in enumerate(dict.fromkeys(metric for _, _, metric, _ in scores)):
            places[name].append(place)
    names = sorted(
        _by_name(places),
        key=lambda name: (isinstance(metrics[name], SampleMetric), statistics.fmean(places[name])),
    )
    return {name: metrics[name] for name in (*names, *_by_name(metrics.keys() - places.keys()))}


def _scores(result: Result, metrics: Mapping[str, Metric]) -> dict[Key, Scores]:
    rows: dict[Key, list[Row]] = defaultdict(list)
    for row in result.rows:
        rows[result.id, row.way, row.metric, row.length].append(row)
    return {key: _of_rows(own, metrics[key[2]].logarithm) for key, own in rows.items()}


def _of_rows(rows: Sequence[Row], logarithm: bool) -> Scores:
    timed = [row.seconds for row in rows if row.seconds]
    scores = Scores(seconds=statistics.median(timed) if timed else None)
    for row in rows:
        value = math.nan if row.value is None else row.value
        if logarithm:
            value = math.log(value) if value > 0 else math.nan
        if math.isfinite(value):
            scores.values[row.replica] = value
        else:
            sentence = row.why or SENTENCES[Reason.NOT_FINITE]
            scores.missing[row.replica] = Missing(row.reason or Reason.NOT_FINITE, sentence)
    return scores


def _group(name: str, group: groups.Comparable) -> Group:
    methods: dict[tuple[str, Way, str], dict[int, float]] = defaultdict(dict)
    for run in sorted(group.runs, key=lambda run: run.id):  # of equal samples: the first counts
        for one in run.baselines:
            methods[one.metric, one.way, one.name].setdefault(one.length, one.value)
    oracles = _by_model(group.oracles, group.runs)
    return Group(name, group.runs, group.apart, labels.names(group.runs), oracles, methods)


def _by_model(oracles: Iterable[Result], runs: Sequence[Result]) -> dict[str, list[Result]]:
    # A model is the run with the oracle's label, of several the one with its settings, too.
    found: dict[str, list[Result]] = {}
    for oracle in oracles:
        same = [run for run in runs if run.label == oracle.label]
        if len(same) > 1:
            same = [run for run in same if _training(run) == _training(oracle)]
        found.setdefault(same[0].id if len(same) == 1 else oracle.label, []).append(oracle)
    return found


def _training(result: Result) -> dict[str, Any]:
    # The settings of training in which an oracle may not differ.
    free = groups.OF_TRAINING | labels.COMPUTED | {"lm.attention"}
    return {
        name: value
        for name, value in labels.settings(result.config).items()
        if name not in free and not name.startswith(("eval.", "run."))
    }


def _oracle_of_text(
    group: Group, scores: Mapping[str, Mapping[Key, Scores]]
) -> dict[tuple[Way, int], float]:
    # Means of the best oracle, at its longest length, at the lengths at which it gains LEAST or
    # more, and at that of training.
    found = []
    models = {run.id: run for run in group.runs}
    for id, oracles in group.oracles.items():
        if id in models:
            means = {}
            for run in (models[id], *oracles):
                key = run.id, AS_TRAINED, TEXT, run.train.length
                values = scores[run.id].get(key, Scores()).values
                means[run.train.length] = statistics.fmean(values.values()) if values else math.nan
            start = means.pop(group.train_length)
            gained = {n: mean for n, mean in means.items() if start - mean >= LEAST}
            found += [{group.train_length: start} | gained] if gained else []
    best = min(found, key=lambda means: means[max(means)], default={})
    return {(AS_TRAINED, n): mean for n, mean in best.items()}


def _shares(
    result: Result, metric: str, best: Mapping[tuple[Way, int], float], scores: Mapping[Key, Scores]
) -> dict[Key, Scores]:
    train, found = result.train.length, {}
    for id, way, name, length in scores:
        task = way if (way, train) in best else AS_TRAINED  # a variant has an oracle of its own
        most = best.get((task, train), math.nan) - best.get((task, length), math.nan)
        if name != metric or length <= train or not most > 0:  # no context to use
            continue
        start, end = (scores.get((id, way, metric, n), Scores()) for n in (train, length))
        values = {
            replica: 100 * (start.values[replica] - value) / most
            for replica, value in end.values.items()
            if replica in start.values
        }
        known = start.values.keys() | start.missing.keys()
        lost = [r for r in (*end.missing, *end.values) if r in known and r not in values]
        missing = {r: start.missing.get(r) or end.missing[r] for r in lost}
        if values or missing:
            found[id, way, HEADROOM.name, length] = Scores(values, missing, end.seconds)
    return found


def _evaluated(scores: Index) -> dict[tuple[str, str], Evaluated]:
    keys = defaultdict(list)
    for run, way, metric, length in scores:
        keys[run, metric].append((way, length, scores[run, way, metric, length]))
    return {
        key: Evaluated(
            tuple(sorted({r for _, _, one in own for r in (*one.values, *one.missing)})),
            tuple(sorted({way for way, _, _ in own}, key=str)),
            tuple(sorted({length for _, length, _ in own})),
        )
        for key, own in keys.items()
    }
