"""What trained models score in one pass: on windows of text, or on the samples of a task.

KL and LongPPL need what a model as it is predicts of the same targets within `eval.reference`, by
default its training length: `Reference` computes the rows of its distributions, and the key tokens
of LongPPL (Fang et al., 2024; arXiv:2410.23771), once for every way and length.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from flax import nnx
from jax.sharding import Mesh

from pe_jax.encoding import Encoding
from pe_jax.evaluation.baselines import bayes, per_token
from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.passes import Job, Key, Pass
from pe_jax.evaluation.scoring import (
    Answers,
    Missing,
    answers,
    divergence,
    last_rows,
    nats_and_lag,
    score,
    target_nats,
)
from pe_jax.evaluation.windows import Windows
from pe_jax.metric import Predictions, PromptMetric, SampleMetric, TextMetric
from pe_jax.metrics import named
from pe_jax.record import Curve, Reason, Replica, Row, Way
from pe_jax.task import Task
from pe_jax.tasks.text import TEXT
from pe_jax.training.mesh import copies
from pe_jax.training.need import Budget
from pe_jax.training.session import Session


@dataclasses.dataclass(frozen=True)
class Models:
    """The trained models of a run's seeds."""

    graphdef: nnx.GraphDef
    params: Mapping[int, Any]
    """The parameters of each seed."""
    encodings: tuple[Encoding, ...]
    diverged: Mapping[int, int] = dataclasses.field(default_factory=dict)
    """The step at which a seed's training diverged, of the seeds whose did."""
    segment: int = 0
    """Tokens of a segment, for segment memories: the training length."""
    task: Task = TEXT

    @classmethod
    def stacked(
        cls, graphdef: nnx.GraphDef, params: Any, *fields: Any, seeds: Sequence[int]
    ) -> Models:
        """From a tree whose leaves have a leading axis of `seeds`; `fields` come after `params`."""
        each = {s: jax.tree.map(lambda a, row=row: a[row], params) for row, s in enumerate(seeds)}
        return cls(graphdef, each, *fields)

    def on(self, mesh: Mesh | None) -> dict[int, Any]:
        """The parameters of each seed, on every device of a mesh."""
        return {seed: copies(mesh, params) for seed, params in self.params.items()}

    def seed(self, replica: Replica) -> int:
        """The seed whose model a replica is scored with; for a place or a sample, the only seed."""
        return replica.number if replica.kind == "seed" else next(iter(self.params))

    def missing(self, job: Job, replica: Replica) -> Missing | None:
        """Why there is no score in a pass that is not computed; None where it is."""
        if job.part.beyond is not None:
            return Missing(Reason.BEYOND_POSITIONS, job.part.beyond)
        step = self.diverged.get(self.seed(replica))
        return None if step is None else Missing(Reason.DIVERGED, step)


class Scored(NamedTuple):
    """What one replica scored by one metric in one way at one length."""

    row: Row
    curve: Curve | None

    def of(self, way: Way) -> Scored:
        """The same in another way, which shares its pass."""
        curve = self.curve and dataclasses.replace(self.curve, way=way)
        return Scored(dataclasses.replace(self.row, way=way), curve)


class TextScorer:
    """Scores windows of text and prompts: `cuts` are those of each metric and length."""

    def __init__(
        self,
        models: Models,
        cuts: Mapping[tuple[str, int], Windows],
        config: EvalConfig,
        session: Session,
    ):
        self.models, self.cuts, self.config, self.session = models, cuts, config, session
        self.budget, self.params = Budget(session.mesh), models.on(session.mesh)
        self.reference = Reference(
            models.graphdef, models.encodings, cuts, config, session, self.budget
        )
        self.compiled: set[tuple[Pass, Any]] = set()

    def tokens(self, job: Job) -> int:
        """How many tokens a pass works through."""
        cuts = [self._cut(metrics[0], job.part, replica) for metrics, replica in shared(job)]
        return sum(cut.tokens[:, 1:].size for cut in cuts)

    def _cut(self, metric: str, part: Pass, replica: Replica) -> Windows:
        cut = self.cuts[metric, part.length]
        return cut if replica.kind == "seed" else cut.only(replica.number)

    def __call__(self, job: Job) -> dict[Key, Scored]:
        """What each replica scores in a pass."""
        scored = dict[Key, Scored]()
        for metrics, replica in shared(job):
            missing = self.models.missing(job, replica)
            by = compared(metrics)
            if "divergence" in by and not missing:  # first, since the time of a pass is without it
                self.reference.rows(by["divergence"], replica, self._params(replica))
            began = time.monotonic()
            targets = missing or self._targets(job.part, metrics, replica)
            timed = replica.kind != "seed" and (job.part, metrics) in self.compiled
            took = time.monotonic() - began
            if "divergence" in by and not missing and self.reference.is_of(job.part):
                took += self.reference.seconds[_places(by["divergence"]), replica]
            seconds = took if timed else None
            self.compiled.add((job.part, metrics))
            for metric in metrics:
                cut, of_metric = self._of(metric, job.part, replica, targets)
                keys = job.todo[metric, replica]
                scored |= {key: _of_text(cut, key, of_metric, seconds) for key in keys}
        return scored

    def _params(self, replica: Replica) -> Any:
        return self.params[self.models.seed(replica)]

    def _targets(
        self, part: Pass, metrics: tuple[str, ...], replica: Replica
    ) -> np.ndarray | Missing:
        """What is computed of the targets of windows that metrics share: -ln p [W, last]; of
        prompts as by `nats_and_lag`, and where a divergence is wanted as by `divergence`.
        """
        cut, params = self._cut(metrics[0], part, replica), self._params(replica)
        own = {"graphdef": self.models.graphdef, "encodings": part.encodings}
        if by := compared(metrics).get("divergence"):
            rows = self.reference.rows(by, replica, params)
            if isinstance(rows, Missing):
                return rows
            program = functools.partial(divergence, **own, own=self.reference.is_of(part))
            params = params, copies(self.session.mesh, rows), np.int32(cut.first)
        elif isinstance(cut.metric, PromptMetric):
            program = functools.partial(target_nats, **own, measure=nats_and_lag)
        else:
            segment = self.models.segment if part.way.memory else 0
            memory = {"segment": segment, "memory": part.way.memory}
            program = functools.partial(target_nats, **own, **memory)
        size = self.config.batch_tokens
        return score(cut, program, params, size, self.session, self.budget)

    def _of(
        self, metric: str, part: Pass, replica: Replica, targets: np.ndarray | Missing
    ) -> tuple[Windows, np.ndarray | Missing]:
        """The windows of one of the metrics that share `targets`, and what it scores of these."""
        cut, of = self._cut(metric, part, replica), named(metric)
        if isinstance(targets, Missing) or isinstance(of, PromptMetric):
            return cut, targets
        compares = getattr(of, "compares", "")
        if targets.ndim == 3:
            targets = targets[..., int(compares == "divergence")]
        if compares != "keys":
            return cut, targets
        keys = self.reference.keys(metric, replica, self._params(replica))
        if isinstance(keys, Missing):
            return cut, keys
        if not keys.any():
            return cut, Missing(Reason.NO_KEYS)
        chosen = np.zeros(cut.scored.shape, bool)
        chosen[:, -keys.shape[1] :] = keys
        return dataclasses.replace(cut, chosen=chosen), targets


def shared(job: Job) -> list[tuple[tuple[str, ...], Replica]]:
    """The metrics of a pass and a replica that are scored on the same windows."""
    shared: dict[tuple[Any, Replica], list[str]] = {}
    for name, replica in job.todo:
        metric = named(name)
        source = getattr(metric, "prompt", None) or getattr(metric, "places", None)
        shared.setdefault((source, replica), []).append(name)
    return [(tuple(metrics), replica) for (_, replica), metrics in shared.items()]


def compared(metrics: Sequence[str]) -> dict[str, str]:
    """{what it compares: the metric} of those that compare with the model as it is."""
    of = {getattr(named(metric), "compares", ""): metric for metric in metrics}
    return {compares: metric for compares, metric in of.items() if compares}


DEPTHS = 10
"""Bins of depth, of equal width."""


class SampleScorer:
    """Scores the samples of a task."""

    def __init__(self, models: Models, config: EvalConfig, session: Session):
        self.models, self.config, self.session = models, config, session
        self.budget, self.params = Budget(session.mesh), models.on(session.mesh)

    def tokens(self, job: Job) -> int:
        """How many tokens a pass works through, padding included."""
        replicas = {replica for _, replica in job.todo}
        return len(replicas) * self.config.samples * job.part.task.size(job.part.longest)

    def __call__(self, job: Job) -> dict[Key, Scored]:
        """What each seed scores in a pass."""
        part, task, models = job.part, job.part.task, self.models
        predicted: dict[Replica, Answers | Missing] = {
            replica: models.missing(job, replica)
            or answers(
                part,
                models.graphdef,
                self.params[replica.number],
                self.config,
                self.session,
                self.budget,
            )
            for replica in dict.fromkeys(replica for _, replica in job.todo)
        }
        depth = best = distance = None
        same = [found.sample for found in predicted.values() if isinstance(found, Answers)]
        if same:
            sample, size = same[0], task.size(part.length)
            metrics = [named(metric, SampleMetric) for metric, _ in job.todo]
            used = {name for metric in metrics for name in metric.uses}
            if any(metric.by_depth for metric in metrics):
                depth = per_token(task.depths, sample.tokens, size)
            if "bayes" in used:
                best, _ = bayes(task, sample, size)
            if "distances" in used:
                distance = per_token(task.distances, sample.tokens, size)
        return {
            key: self._of_samples(key, predicted[replica], depth, best, distance)
            for (_, replica), keys in job.todo.items()
            for key in keys
        }

    def _of_samples(
        self,
        key: Key,
        found: Answers | Missing,
        depth: np.ndarray | None,
        best: np.ndarray | None,
        distance: np.ndarray | None,
    ) -> Scored:
        """The row of one seed's answers, and of its accuracy the curve by depth."""
        if isinstance(found, Missing):
            return _no_score(key, found)
        metric = named(key.metric, SampleMetric)
        scored, right, nats, label_nats = map(np.asarray, (found.sample.scored, *found[1:]))
        unused = np.full(nats.shape, np.nan)
        best, distance = (unused if part is None else part for part in (best, distance))
        made = Predictions(scored, right, nats, label_nats, best, distance)
        row = Row(**key._asdict(), value=metric.score(made, self.config.scope.last))
        curve = _by_depth(key, right, scored, depth) if metric.by_depth else None
        return Scored(row, curve)


def _by_depth(
    key: Key, right: np.ndarray, scored: np.ndarray, depth: np.ndarray | None
) -> Curve | None:
    """The share of right predictions by depth, in percent; None where the task has no depths."""
    if depth is None:
        return None
    bins = np.minimum(depth[scored] * DEPTHS, DEPTHS - 1).astype(int)
    every = np.bincount(bins, minlength=DEPTHS)
    hits = np.bincount(bins[right[scored]], minlength=DEPTHS)
    value = tuple(100 * float(h / n) if n else None for h, n in zip(hits, every, strict=True))
    position = tuple((bin + 0.5) / DEPTHS for bin in range(DEPTHS))
    return Curve(**key._asdict(), position=position, value=value)


def _no_score(key: Key, why: Missing) -> Scored:
    """The row that says why there is no score."""
    return Scored(Row(**key._asdict(), value=None, **why._asdict()), None)


def _of_text(
    cut: Windows, key: Key, targets: np.ndarray | Missing, seconds: float | None
) -> Scored:
    """The row, and the curve where the metric has one, of what a model says of the targets."""
    if isinstance(targets, Missing):
        return _no_score(key, targets)
    row = Row(**key._asdict(), value=cut.value(targets), seconds=seconds)
    if not getattr(cut.metric, "by_position", False) and not getattr(cut.metric, "by_depth", False):
        return Scored(row, None)
    position, value = cut.curve(targets)
    return Scored(row, Curve(**key._asdict(), position=position, value=value))


GAIN, FULL = 2.0, 2.0
"""Nats: a key token has more than GAIN nats more from few tokens, and below FULL from all."""


class Short(NamedTuple):
    """Short contexts of the targets of windows, each shared by `stride` consecutive targets."""

    tokens: int
    """K: what the first of these targets sees; the last one sees K + stride - 1."""
    stride: int

    @classmethod
    def of(cls, length: int) -> Short:
        """A quarter of a length, and a quarter of that."""
        return cls(max(1, length // 4), max(1, length // 16))

    def windows(self, whole: Windows) -> Windows:
        """The short windows of all `whole` ones, one after another. Targets with fewer than K
        tokens before them have none.
        """
        context, stride = self
        pieces, hi = [], []
        for tokens, lo, end in zip(whole.tokens, whole.lo, whole.hi, strict=True):
            for first in range(max(lo + 1, context), end + 1, stride):
                piece = np.zeros(context + stride, np.int32)
                part = tokens[first - context : first + stride]
                piece[: len(part)] = part
                pieces.append(piece)
                hi.append(context - 1 + min(stride, end + 1 - first))
        stacked, lo = np.stack(pieces), np.full(len(pieces), context - 1)
        if whole.bos is not None:
            stacked[:, 0] = whole.bos
        size = context + stride - 1
        sizes = np.ones((len(pieces), size), int)
        return Windows(whole.metric, size, stacked, sizes, lo, np.array(hi))

    def spread(self, whole: Windows, nats: np.ndarray) -> np.ndarray:
        """-ln p of the last targets of the `whole` windows, [W, last], from that of the `windows`,
        [pieces, stride]; NaN where there is none.
        """
        context, stride = self
        out, pieces = np.full((len(whole.tokens), whole.length), np.nan), iter(nats)
        for row, lo, end in zip(out, whole.lo, whole.hi, strict=True):
            for first in range(max(lo + 1, context), end + 1, stride):
                count = min(stride, end + 1 - first)
                row[first - 1 : first - 1 + count] = next(pieces)[:count]
        return out[:, -whole.last :]


def key_tokens(full: np.ndarray, short: np.ndarray) -> np.ndarray:
    """Which targets are key tokens, from their -ln p in nats: full < 2 and short - full > 2."""
    return (full < FULL) & (short - full > GAIN)


def _places(metric: str) -> Any:
    """What tells the windows of a metric of text from those of others."""
    return named(metric, TextMetric).places


class Reference:
    """What the models of a run's seeds predict within eval.reference. `cuts` are the windows of
    each metric and length, eval.reference included.
    """

    def __init__(
        self,
        graphdef: nnx.GraphDef,
        encodings: tuple[Encoding, ...],
        cuts: Mapping[tuple[str, int], Windows],
        config: EvalConfig,
        session: Session,
        budget: Budget,
    ):
        self.graphdef, self.encodings, self.cuts = graphdef, encodings, cuts
        self.config, self.session, self.budget = config, session, budget
        self.kept: dict[tuple[Any, Replica], Any] = {}
        self.lock = threading.Lock()
        self.seconds: dict[tuple[Any, Replica], float] = {}
        """How long the rows of each took."""

    def is_of(self, part: Pass) -> bool:
        """Whether a pass, as it is computed, is that of the models within eval.reference."""
        made = tuple(e.at(part.length) for e in self.encodings)
        same = part._replace(encodings=made).computed(part.task.size(part.length))
        return part.length == self.config.reference and not part.way.memory and part == same

    def rows(self, metric: str, replica: Replica, params: Any) -> np.ndarray | Missing:
        """The rows [W, last, D] of the last targets of a metric's windows; of a place, of its one
        window.
        """

        def computed() -> np.ndarray | Missing:
            began = time.monotonic()
            rows = self._scored(last_rows, self._whole(metric, replica), params)
            self.seconds[_places(metric), replica] = time.monotonic() - began
            return rows

        return self._once("rows", metric, replica, computed)

    def keys(self, metric: str, replica: Replica, params: Any) -> np.ndarray | Missing:
        """Which of these targets are key tokens: bool [W, last]."""

        def computed() -> np.ndarray | Missing:
            whole = self._whole(metric, replica)
            short = Short.of(whole.length)
            full = self._scored(target_nats, whole, params)
            little = self._scored(target_nats, short.windows(whole), params)
            if isinstance(full, Missing):
                return full
            if isinstance(little, Missing):
                return little
            return key_tokens(full, short.spread(whole, little))

        return self._once("keys", metric, replica, computed)

    def _whole(self, metric: str, replica: Replica) -> Windows:
        whole = self.cuts[metric, self.config.reference or 0]
        return whole if replica.kind == "seed" else whole.only(replica.number)

    def _scored(self, program: Any, cut: Windows, params: Any) -> np.ndarray | Missing:
        made = tuple(e.at(cut.length) for e in self.encodings)
        program = functools.partial(program, graphdef=self.graphdef, encodings=made)
        return score(cut, program, params, self.config.batch_tokens, self.session, self.budget)

    def _once(self, kind: str, metric: str, replica: Replica, compute: Callable[[], Any]) -> Any:
        """What is computed for a replica, once for metrics of the same windows and for all threads;
        of places only the newest is kept.
        """
        key = (kind, _places(metric)), replica
        with self.lock:
            if key not in self.kept:
                if replica.kind != "seed":
                    self.kept = {old: rows for old, rows in self.kept.items() if old[1] == replica}
                self.kept[key] = compute()
            return self.kept[key]
