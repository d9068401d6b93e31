"""Scores of trained models in one pass, on windows of text or on samples of a task."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pe_jax.evaluation.baselines import bayes, per_token
from pe_jax.evaluation.passes import Job, Key, Pass, Scored
from pe_jax.evaluation.reference import Reference
from pe_jax.evaluation.scoring import Answers, Missing, Programs, nats_and_lag
from pe_jax.evaluation.windows import Windows
from pe_jax.metric import Predictions, PromptMetric, SampleMetric, TextMetric
from pe_jax.metrics import named
from pe_jax.record import Curve, Reason, Replica, Row
from pe_jax.training.mesh import copies


class TextScorer:
    """Scores windows of text and prompts: `cuts` are those of each metric and length."""

    def __init__(self, programs: Programs, cuts: Mapping[tuple[str, int], Windows]):
        self.programs, self.cuts = programs, cuts
        self.reference = Reference(programs, cuts)
        self.compiled: set[tuple[Pass, Any]] = set()

    def tokens(self, job: Job) -> int:
        """The number of tokens that a pass works through."""
        cuts = [self.cuts[names[0], job.part.length].of(replica) for names, replica in _shared(job)]
        return sum(cut.tokens[:, 1:].size for cut in cuts)

    def __call__(self, job: Job) -> list[Scored]:
        """The scores of a pass by each metric, of each replica."""
        scored = []
        for names, replica in _shared(job):
            targets, took = self._targets(job.part, names, replica)
            timed = replica.kind != "seed" and (job.part, names) in self.compiled
            self.compiled.add((job.part, names))
            for name in names:
                key = Key(replica, job.part.way, name, job.part.length)
                scored.append(self._score(key, targets, took if timed else None))
        return scored

    # -ln p of the targets of windows that metrics share, [W, last]; of prompts [W, last, 2] by
    # `nats_and_lag`, with a divergence [W, last, 2] by `target_nats`. And the seconds of the pass.
    def _targets(
        self, part: Pass, names: Sequence[str], replica: Replica
    ) -> tuple[np.ndarray | Missing, float | None]:
        missing = self.programs.models.missing(part, replica)
        if missing is not None:
            return missing, None
        cut, took, given = self.cuts[names[0], part.length].of(replica), 0.0, ()
        options: dict[str, Any] = {}
        diverging = [n for n in names if getattr(named(n), "compares", "") == "divergence"]
        if diverging:
            rows, seconds = self.reference.get("rows", diverging[0], replica)
            if isinstance(rows, Missing):
                return rows, took
            same = part == self.reference.part  # the pass has these rows itself
            given = copies(self.programs.session.mesh, rows), np.int32(cut.first)
            options, took = {"same": same}, seconds if same else 0.0
        elif isinstance(cut.metric, PromptMetric):
            options = {"measure": nats_and_lag}
        elif part.way.memory:
            segment = self.programs.models.segment
            options = {"segment": segment, "memory": part.way.memory}
        began = time.monotonic()
        targets = self.programs.text(cut, replica, part.encodings, *given, **options)
        return targets, took + time.monotonic() - began

    # The score by one of the metrics that share `targets`.
    def _score(self, key: Key, targets: np.ndarray | Missing, seconds: float | None) -> Scored:
        cut = self.cuts[key.metric, key.length].of(key.replica)
        compares = getattr(cut.metric, "compares", "")
        if isinstance(targets, np.ndarray) and isinstance(cut.metric, TextMetric):
            if targets.ndim == 3:
                targets = targets[..., int(compares == "divergence")]
            if compares == "keys":
                keys, _ = self.reference.get("keys", key.metric, key.replica)
                if isinstance(keys, Missing):
                    targets = keys
                elif not keys.any():
                    targets = Missing(Reason.NO_KEYS)
                else:
                    chosen = np.zeros(cut.scored.shape, bool)
                    chosen[:, -keys.shape[1] :] = keys
                    cut = dataclasses.replace(cut, chosen=chosen)
        if isinstance(targets, Missing):
            return targets.scored(key)
        row = Row(**key._asdict(), value=cut.value(targets), seconds=seconds)
        if not getattr(cut.metric, "by_position", getattr(cut.metric, "by_depth", False)):
            return Scored(row)
        position, value = cut.curve(targets)
        return Scored(row, Curve(**key._asdict(), position=position, value=value))


# The metrics of a pass and a replica that are scored on the same windows.
def _shared(job: Job) -> list[tuple[tuple[str, ...], Replica]]:
    shared: dict[tuple[Any, Replica], list[str]] = {}
    for name, replica in job.ways:
        metric = named(name)
        source = getattr(metric, "prompt", None) or getattr(metric, "places", None)
        shared.setdefault((source, replica), []).append(name)
    return [(tuple(names), replica) for (_, replica), names in shared.items()]


DEPTHS = 10
"""Bins of depth, of equal width."""


class SampleScorer:
    """Scores the samples of a task."""

    def __init__(self, programs: Programs):
        self.programs, self.config = programs, programs.config

    def tokens(self, job: Job) -> int:
        """The number of tokens that a pass works through, padding included."""
        replicas = {replica for _, replica in job.ways}
        return len(replicas) * self.config.samples * job.part.task.size(job.part.longest)

    def __call__(self, job: Job) -> list[Scored]:
        """The scores of a pass by each metric, of each seed."""
        part, task, last = job.part, job.part.task, self.config.scope.last
        metrics = {name: named(name, SampleMetric) for name, _ in job.ways}
        answers: dict[Replica, Answers | Missing] = {}
        for replica in dict.fromkeys(replica for _, replica in job.ways):
            missing = self.programs.models.missing(part, replica)
            answers[replica] = missing or self.programs.samples(part, replica)
        depth, best, distance = None, np.empty(0), np.empty(0)
        drawn = [answer.sample for answer in answers.values() if isinstance(answer, Answers)]
        if drawn:  # the same for all seeds
            tokens, size = drawn[0].tokens, task.size(part.length)
            uses = {use for metric in metrics.values() for use in metric.uses}
            best = distance = np.full(tokens.shape, np.nan)
            if any(metric.by_depth for metric in metrics.values()):
                depth = per_token(task.depths, tokens, size)
            if "bayes" in uses:
                best, _ = bayes(task, drawn[0], size)
            if "distances" in uses:
                distance = per_token(task.distances, tokens, size)
        scored = []
        for name, replica in job.ways:
            key, answer = Key(replica, part.way, name, part.length), answers[replica]
            if isinstance(answer, Missing):
                scored.append(answer.scored(key))
                continue
            which, right, nats, label_nats = map(np.asarray, (answer.sample.scored, *answer[1:]))
            made = Predictions(which, right, nats, label_nats, best, distance)
            row, curve = Row(**key._asdict(), value=metrics[name].score(made, last)), None
            if metrics[name].by_depth and depth is not None:
                curve = _by_depth(key, right, which, depth)
            scored.append(Scored(row, curve))
        return scored


# The share of right predictions by depth, in percent.
def _by_depth(key: Key, right: np.ndarray, scored: np.ndarray, depth: np.ndarray) -> Curve:
    bins = np.minimum(depth[scored] * DEPTHS, DEPTHS - 1).astype(int)
    every = np.bincount(bins, minlength=DEPTHS)
    hits = np.bincount(bins[right[scored]], minlength=DEPTHS)
    value = tuple(100 * float(h / n) if n else None for h, n in zip(hits, every, strict=True))
    position = tuple((bin + 0.5) / DEPTHS for bin in range(DEPTHS))
    return Curve(**key._asdict(), position=position, value=value)
