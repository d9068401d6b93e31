"""Scores of trained models in one pass, on windows of text or on samples of a task."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from pe_jax.encoding import Encoding
from pe_jax.evaluation.baselines import bayes, per_token
from pe_jax.evaluation.longppl import Short, key_tokens
from pe_jax.evaluation.passes import Job, Key, Pass, Scored, plan, work
from pe_jax.evaluation.scoring import Answers, Missing, Programs, nats_and_lag
from pe_jax.evaluation.windows import Windows
from pe_jax.metric import Predictions, PromptMetric, SampleMetric, TextMetric
from pe_jax.metrics import named
from pe_jax.record import Curve, Reason, Replica, Row
from pe_jax.training.mesh import copies

COMPARED = {"divergence": 1, "choices": 2}
"""{what a metric compares with the model as it is: its place in what `target_nats` gives}."""


class TextScorer:
    """Scores windows of text and prompts: `cuts` are the windows of each metric and length, and
    of eval.reference.

    KL and LongPPL compare with the models as they are within eval.reference: with the rows of their
    distributions, and by key tokens. Both are computed once for every way and length.
    """

    def __init__(self, programs: Programs, cuts: Mapping[tuple[str, int], Windows]):
        self.programs, self.cuts = programs, cuts
        self.compiled: set[tuple[Pass, Any]] = set()
        lengths = (programs.config.reference or 1,)
        alone = dataclasses.replace(programs.config, lengths=lengths, swaps=(), memory=())
        self.reference = plan(programs.models.encodings, alone)[0].computed()
        self.kept: dict[tuple[Any, ...], tuple[np.ndarray | Missing, float]] = {}
        self.lock = threading.Lock()

    def _made(self, length: int) -> tuple[Encoding, ...]:
        return tuple(e.at(length) for e in self.programs.models.encodings)

    def __call__(self, job: Job) -> list[Scored]:
        """The scores of a pass by each metric, of each replica."""
        scored = []
        for names, replica in shared_windows(job):
            targets, took = self._targets(job.part, names, replica)
            timed = replica.kind != "seed" and (job.part, names) in self.compiled
            self.compiled.add((job.part, names))
            for name in names:
                key = Key(replica, job.part.way, name, job.part.length)
                seconds = took if timed else None
                scored.append(self._score(key, targets, seconds, job.part.encodings))
        return scored

    def works(self, jobs: Sequence[Job]) -> list[int]:
        """The work of each job. What metrics compare with counts in the first that needs it."""
        width, last = self.programs.models.encodings[0].dims.model, self.programs.config.scope.last

        def short(n: int) -> int:
            tokens, stride = Short.of(n)
            return -(-last // stride) * work(tokens + stride - 1, width)

        known, out, length = set[tuple[str, Replica]](), [], self.reference.length
        for job in jobs:
            total, n = 0, job.part.length
            for names, replica in shared_windows(job):
                compares = {getattr(named(name), "compares", "") for name in names} - {""}
                kinds = {"rows" if kind in COMPARED else kind for kind in compares}
                of_window = 0 if "rows" in kinds and job.part == self.reference else work(n, width)
                of_window += short(n) if "context" in kinds else 0
                for key in {(kind, replica) for kind in kinds - {"context"}} - known:
                    of_window += work(length, width) + (short(length) if key[0] == "keys" else 0)
                    known.add(key)
                total += of_window * len(self.cuts[names[0], n].of(replica).tokens)
            out.append(total)
        return out

    # -ln p of the targets of windows that metrics share, [W, last]; of prompts and masked text
    # [W, last, 2] by `nats_and_lag`, compared with the model as it is [W, last, 3] by
    # `target_nats`. And the seconds of the pass.
    def _targets(
        self, part: Pass, names: Sequence[str], replica: Replica
    ) -> tuple[np.ndarray | Missing, float | None]:
        missing = self.programs.models.missing(part, replica)
        if missing is not None:
            return missing, None
        cut, took, given = self.cuts[names[0], part.length].of(replica), 0.0, ()
        options: dict[str, Any] = {}
        diverging = [n for n in names if getattr(named(n), "compares", "") in COMPARED]
        rows, seconds = self._kept("rows", diverging[0], replica) if diverging else (None, 0.0)
        if isinstance(rows, np.ndarray):
            same = part == self.reference  # the pass has these rows itself
            given = copies(self.programs.session.mesh, rows), np.int32(cut.first)
            options, took = {"same": same}, seconds if same else 0.0
        elif isinstance(cut.metric, PromptMetric) or cut.metric.masks:
            options = {"measure": nats_and_lag}
        elif part.way.memory:
            segment = self.programs.models.segment
            options = {"segment": segment, "memory": part.way.memory}
        began = time.monotonic()
        targets = self.programs.text(cut, replica, part.encodings, *given, **options)
        return targets, took + time.monotonic() - began

    # (the rows [W, last, D] of `LM.logits_of` at the last targets of a metric's windows at
    # eval.reference, or whether these are key tokens, bool [W, last]; the seconds that it took).
    # Metrics of the same windows and all threads share them; a place's are kept until the next one.
    def _kept(
        self, kind: Literal["rows", "keys"], metric: str, replica: Replica
    ) -> tuple[np.ndarray | Missing, float]:
        key = kind, named(metric, TextMetric).places, replica
        with self.lock:
            if replica.kind != "seed":
                self.kept = {old: rows for old, rows in self.kept.items() if old[-1] == replica}
            if key not in self.kept:
                length, began = self.reference.length, time.monotonic()
                cut, made = self.cuts[metric, length].of(replica), self._made(length)
                if missing := self.programs.models.missing(self.reference, replica):
                    rows = missing
                elif kind == "rows":
                    rows = self.programs.text(cut, replica, made, measure=None)
                else:
                    rows = self._keys(cut, replica)
                self.kept[key] = rows, time.monotonic() - began
            return self.kept[key]

    def _keys(self, cut: Windows, replica: Replica) -> np.ndarray | Missing:
        short = Short.of(cut.length)
        nats = []
        for windows in (cut, short.windows(cut)):
            of_windows = self.programs.text(windows, replica, self._made(windows.length))
            if isinstance(of_windows, Missing):
                return of_windows
            nats.append(of_windows)
        return key_tokens(nats[0], short.spread(cut, nats[1]))

    # The score by one of the metrics that share `targets`.
    def _score(
        self,
        key: Key,
        targets: np.ndarray | Missing,
        seconds: float | None,
        encodings: tuple[Encoding, ...],
    ) -> Scored:
        cut = self.cuts[key.metric, key.length].of(key.replica)
        compares = getattr(cut.metric, "compares", "")
        if isinstance(targets, np.ndarray) and isinstance(cut.metric, TextMetric):
            if targets.ndim == 3:
                choice = int(cut.metric.masks == "choices")
                targets = targets[..., COMPARED.get(compares, choice)]
            elif compares in COMPARED:  # there is nothing to compare with
                targets, _ = self._kept("rows", key.metric, key.replica)
            if compares == "keys":
                keys, _ = self._kept("keys", key.metric, key.replica)
                if isinstance(keys, Missing):
                    targets = keys
                elif not keys.any():
                    targets = Missing(Reason.NO_KEYS)
                else:
                    cut = _where(cut, keys)
            if compares == "context" and isinstance(targets, np.ndarray):
                short = Short.of(key.length)
                near = self.programs.text(short.windows(cut), key.replica, encodings)
                targets = near if isinstance(near, Missing) else short.spread(cut, near) - targets
                if isinstance(targets, np.ndarray):  # the first targets have no short window
                    cut, targets = _where(cut, np.isfinite(targets)), np.nan_to_num(targets)
        if isinstance(targets, Missing):
            return targets.scored(key)
        row = Row(**key._asdict(), value=cut.value(targets), seconds=seconds)
        if key.replica.kind == "seed" and not compares and cut.metric.value is TextMetric.value:
            row = dataclasses.replace(row, documents=cut.by_document(targets))
        if not getattr(cut.metric, "by_position", getattr(cut.metric, "by_depth", False)):
            return Scored(row)
        position, value = cut.curve(targets)
        return Scored(row, Curve(**key._asdict(), position=position, value=value))


# The windows with some of their last targets alone, bool [W, last].
def _where(cut: Windows, wanted: np.ndarray) -> Windows:
    scored = cut.scored.copy()
    scored[:, -wanted.shape[1] :] &= wanted
    return dataclasses.replace(cut, scored=scored)


def shared_windows(job: Job) -> list[tuple[tuple[str, ...], Replica]]:
    """The metrics of a pass and a replica that are scored on the same windows."""
    shared: dict[tuple[Any, Replica], list[str]] = {}
    for name, replica in job.ways:
        metric = named(name)
        source = getattr(metric, "prompt", None) or getattr(metric, "places", None)
        shared.setdefault((source, replica), []).append(name)
    return [(tuple(names), replica) for (_, replica), names in shared.items()]


DEPTHS = 10
"""Bins of depth, of equal width."""


def score_samples(programs: Programs, job: Job) -> list[Scored]:
    """The scores of a pass over samples by each metric, of each seed."""
    part, task, last = job.part, job.part.task, programs.config.scope.last
    metrics = {name: named(name, SampleMetric) for name, _ in job.ways}
    answers: dict[Replica, Answers | Missing] = {}
    for replica in dict.fromkeys(replica for _, replica in job.ways):
        missing = programs.models.missing(part, replica)
        answers[replica] = missing or programs.samples(part, replica)
    depth, best, distance = None, np.empty(0), np.empty(0)
    drawn = [answer.sample for answer in answers.values() if isinstance(answer, Answers)]
    if drawn:  # the same for all seeds
        tokens, size = drawn[0].tokens, task.size(part.length)
        uses = {use for metric in metrics.values() for use in metric.uses}
        unused = np.full(tokens.shape, np.nan)
        by_depth = any(metric.by_depth for metric in metrics.values())
        depth = per_token(task.depths, tokens, size) if by_depth else None
        best = bayes(task, drawn[0], size)[0] if "bayes" in uses else unused
        given = per_token(task.distances, tokens, size) if "distances" in uses else None
        distance = unused if given is None else given
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
            curve = _by_depth(key, metrics[name], made, last, depth)
        scored.append(Scored(row, curve))
    return scored


# The metric's value by depth, from the samples with a scored token in a bin.
def _by_depth(key: Key, metric: SampleMetric, made: Predictions, last: int, depth: Any) -> Curve:
    bins = np.minimum(np.floor(depth * DEPTHS), DEPTHS - 1)
    inside = [made.scored & (bins == bin) for bin in range(DEPTHS)]
    parts = [Predictions(*(a[at.any(axis=1)] for a in (at, *made[1:]))) for at in inside]
    value = tuple(metric.score(part, last) if part.scored.any() else None for part in parts)
    position = tuple((bin + 0.5) / DEPTHS for bin in range(DEPTHS))
    return Curve(**key._asdict(), position=position, value=value)
