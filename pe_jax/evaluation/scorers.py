"""Scores of trained models in one pass, on windows of text or on samples of a task."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pe_jax.evaluation.baselines import bayes, per_token
from pe_jax.evaluation.passes import Job, Key, Pass
from pe_jax.evaluation.reference import Reference
from pe_jax.evaluation.scoring import (
    Answers,
    Missing,
    Programs,
    divergence,
    nats_and_lag,
    target_nats,
)
from pe_jax.evaluation.windows import Windows
from pe_jax.metric import Predictions, PromptMetric, SampleMetric
from pe_jax.metrics import named
from pe_jax.record import Curve, Reason, Replica, Row, Way
from pe_jax.training.mesh import copies


class Scored(NamedTuple):
    """The score of one replica by one metric in one way at one length."""

    row: Row
    curve: Curve | None

    def of(self, way: Way) -> Scored:
        """The same in another way, which shares its pass."""
        curve = self.curve and dataclasses.replace(self.curve, way=way)
        return Scored(dataclasses.replace(self.row, way=way), curve)


class TextScorer:
    """Scores windows of text and prompts: `cuts` are those of each metric and length."""

    def __init__(self, programs: Programs, cuts: Mapping[tuple[str, int], Windows]):
        self.programs, self.cuts = programs, cuts
        self.reference = Reference(programs, cuts)
        self.compiled: set[tuple[Pass, Any]] = set()

    def tokens(self, job: Job) -> int:
        """The number of tokens that a pass works through."""
        cuts = [self._cut(metrics[0], job.part, replica) for metrics, replica in _shared(job)]
        return sum(cut.tokens[:, 1:].size for cut in cuts)

    def _cut(self, metric: str, part: Pass, replica: Replica) -> Windows:
        cut = self.cuts[metric, part.length]
        return cut if replica.kind == "seed" else cut.only(replica.number)

    def __call__(self, job: Job) -> dict[Key, Scored]:
        """The scores of each replica in a pass."""
        scored = dict[Key, Scored]()
        for metrics, replica in _shared(job):
            seconds = None
            targets = self.programs.models.missing(job.part, replica)
            if targets is None:
                targets, took = self._targets(job.part, metrics, replica)
                if replica.kind != "seed" and (job.part, metrics) in self.compiled:
                    seconds = took
                self.compiled.add((job.part, metrics))
            for metric in metrics:
                cut, of_metric = self._of_metric(metric, job.part, replica, targets)
                keys = job.todo[metric, replica]
                scored |= {key: _text_score(key, cut, of_metric, seconds) for key in keys}
        return scored

    # -ln p of the targets of windows that metrics share, [W, last]; of prompts [W, last, 2] by
    # `nats_and_lag`, with a divergence [W, last, 2] by `divergence`. And the seconds of the pass.
    def _targets(
        self, part: Pass, metrics: tuple[str, ...], replica: Replica
    ) -> tuple[np.ndarray | Missing, float]:
        cut, encodings, took = self._cut(metrics[0], part, replica), part.encodings, 0.0
        if by := _compared(metrics).get("divergence"):
            rows, seconds = self.reference.get("rows", by, replica)
            if isinstance(rows, Missing):
                return rows, took
            same = part == self.reference.part  # the pass has these rows itself
            given = copies(self.programs.session.mesh, rows), np.int32(cut.first)
            program, options, took = divergence, {"own": same}, seconds if same else 0.0
        elif isinstance(cut.metric, PromptMetric):
            program, given, options = target_nats, (), {"measure": nats_and_lag}
        else:
            segment = self.programs.models.segment if part.way.memory else 0
            program, given = target_nats, ()
            options = {"segment": segment, "memory": part.way.memory}
        began = time.monotonic()
        targets = self.programs.text(program, cut, replica, encodings, *given, **options)
        return targets, took + time.monotonic() - began

    # The windows of one of the metrics that share `targets`, and its part of these.
    def _of_metric(
        self, metric: str, part: Pass, replica: Replica, targets: np.ndarray | Missing
    ) -> tuple[Windows, np.ndarray | Missing]:
        cut, compares = self._cut(metric, part, replica), getattr(named(metric), "compares", "")
        if isinstance(targets, Missing) or isinstance(cut.metric, PromptMetric):
            return cut, targets
        if targets.ndim == 3:
            targets = targets[..., int(compares == "divergence")]
        if compares != "keys":
            return cut, targets
        keys, _ = self.reference.get("keys", metric, replica)
        if isinstance(keys, Missing) or not keys.any():
            return cut, keys if isinstance(keys, Missing) else Missing(Reason.NO_KEYS)
        chosen = np.zeros(cut.scored.shape, bool)
        chosen[:, -keys.shape[1] :] = keys
        return dataclasses.replace(cut, chosen=chosen), targets


# The metrics of a pass and a replica that are scored on the same windows.
def _shared(job: Job) -> list[tuple[tuple[str, ...], Replica]]:
    shared: dict[tuple[Any, Replica], list[str]] = {}
    for name, replica in job.todo:
        metric = named(name)
        source = getattr(metric, "prompt", None) or getattr(metric, "places", None)
        shared.setdefault((source, replica), []).append(name)
    return [(tuple(metrics), replica) for (_, replica), metrics in shared.items()]


# {kind of comparison with the model as it is: one of the metrics that has it}
def _compared(metrics: Sequence[str]) -> dict[str, str]:
    of = {getattr(named(metric), "compares", ""): metric for metric in metrics}
    return {compares: metric for compares, metric in of.items() if compares}


def _no_score(key: Key, why: Missing) -> Scored:
    return Scored(Row(**key._asdict(), value=None, **why._asdict()), None)


def _text_score(
    key: Key, cut: Windows, targets: np.ndarray | Missing, seconds: float | None
) -> Scored:
    if isinstance(targets, Missing):
        return _no_score(key, targets)
    row = Row(**key._asdict(), value=cut.value(targets), seconds=seconds)
    if not getattr(cut.metric, "by_position", False) and not getattr(cut.metric, "by_depth", False):
        return Scored(row, None)
    position, value = cut.curve(targets)
    return Scored(row, Curve(**key._asdict(), position=position, value=value))


DEPTHS = 10
"""Bins of depth, of equal width."""


class SampleScorer:
    """Scores the samples of a task."""

    def __init__(self, programs: Programs):
        self.programs, self.config = programs, programs.config

    def tokens(self, job: Job) -> int:
        """The number of tokens that a pass works through, padding included."""
        replicas = {replica for _, replica in job.todo}
        return len(replicas) * self.config.samples * job.part.task.size(job.part.longest)

    def __call__(self, job: Job) -> dict[Key, Scored]:
        """The scores of each seed in a pass."""
        part, task = job.part, job.part.task
        found: dict[Replica, Answers | Missing] = {}
        for replica in dict.fromkeys(replica for _, replica in job.todo):
            missing = self.programs.models.missing(part, replica)
            found[replica] = missing or self.programs.samples(part, replica)
        metrics = {name: named(name, SampleMetric) for name, _ in job.todo}
        uses = {name for metric in metrics.values() for name in metric.uses}
        depth, best, distance = None, np.empty(0), np.empty(0)
        sample = next((one.sample for one in found.values() if isinstance(one, Answers)), None)
        if sample is not None:  # the same for all seeds
            size, unused = task.size(part.length), np.full(sample.tokens.shape, np.nan)
            by_depth = any(metric.by_depth for metric in metrics.values())
            depth = per_token(task.depths, sample.tokens, size) if by_depth else None
            best = bayes(task, sample, size)[0] if "bayes" in uses else unused
            given = per_token(task.distances, sample.tokens, size) if "distances" in uses else None
            distance = unused if given is None else given
        scored = dict[Key, Scored]()
        for (name, replica), keys in job.todo.items():
            answer = found[replica]
            if isinstance(answer, Missing):
                scored |= {key: _no_score(key, answer) for key in keys}
                continue
            right, nats, label_nats = map(np.asarray, answer[1:])
            which = np.asarray(answer.sample.scored)
            made = Predictions(which, right, nats, label_nats, best, distance)
            value = metrics[name].score(made, self.config.scope.last)
            for key in keys:
                curve = None
                if metrics[name].by_depth and depth is not None:
                    curve = _by_depth(key, right, which, depth)
                scored[key] = Scored(Row(**key._asdict(), value=value), curve)
        return scored


# The share of right predictions by depth, in percent.
def _by_depth(key: Key, right: np.ndarray, scored: np.ndarray, depth: np.ndarray) -> Curve:
    bins = np.minimum(depth[scored] * DEPTHS, DEPTHS - 1).astype(int)
    every = np.bincount(bins, minlength=DEPTHS)
    hits = np.bincount(bins[right[scored]], minlength=DEPTHS)
    value = tuple(100 * float(h / n) if n else None for h, n in zip(hits, every, strict=True))
    position = tuple((bin + 0.5) / DEPTHS for bin in range(DEPTHS))
    return Curve(**key._asdict(), position=position, value=value)
