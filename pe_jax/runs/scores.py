"""The scores of a run's models, a line each in the scores.jsonl of its folder. A score is computed
once: who asks for more of the same protocol, or for seeds that came later, computes only what is
missing.

A protocol is what decides which tokens are scored and how, with what the user's files of a score's
swap and metric hold. Lengths up to the longest, metrics, ways and seeds are no part of it: they may
be asked for one after another. But scores by place or prompt name no seed: the protocol does, where
it is not 0.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import logging
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import jax
import msgspec

from pe_jax.errors import Refused
from pe_jax.evaluation.baselines import baselines
from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.evaluate import Models, evaluate, longest
from pe_jax.evaluation.passes import Key, Scored, key_of
from pe_jax.metric import SampleMetric, TextMetric
from pe_jax.metrics import named
from pe_jax.record import Baseline, CorpusRecord, Curve, Reason, Row, UsersMetric
from pe_jax.runs import environment
from pe_jax.runs.text import Text
from pe_jax.runs.users import scoring_files
from pe_jax.storage import jsonl, records
from pe_jax.storage.hashes import canonical, sha256
from pe_jax.task import Task
from pe_jax.training.session import Session

LOG = logging.getLogger("pe_jax")
PROTOCOL = ("split", "source", "targets", "last", "batch_tokens", "samples", "by", "weights")
DRAWN = ("split", "samples", "last", "weights")
"""The fields of section `eval` that decide how text is scored, and how drawn samples are."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoreLine:
    """A line of scores.jsonl: a score, a baseline, or the beginning or the end of an evaluation."""

    protocol: str
    row: Row | None = None
    curve: Curve | None = None
    baseline: Baseline | None = None
    text: CorpusRecord | None = None  # at the beginning: what is scored
    seconds: float | None = None  # at the end: how long it took


class Scores:
    """The scores in a scores.jsonl, by the protocol of a section `eval`, for these seeds trained at
    `length` on a task.
    """

    def __init__(
        self, path: Path, config: EvalConfig, seeds: Sequence[int], length: int, task: Task
    ):
        self.path, self.config, self.seeds = path, config, seeds
        protocol = functools.partial(protocol_of, config, seeds, length, task)
        self.protocol = protocol()
        asked = itertools.product((way.swap for way in config.ways), config.metrics)
        self.protocols = {(swap, name): protocol(swap, name) for swap, name in asked}
        self.every = _lines(path)
        self.unwritten: ScoreLine | None = None  # the beginning, until the first score is there
        self.lines = [
            line
            for line in self.every
            if line.protocol == self._protocol(line.row or line.curve or line.baseline)
        ]

    @property
    def known(self) -> dict[Key, Scored]:
        """The scores that are there. One for which there was too little memory is not: there may be
        more today.
        """
        return {
            key_of(line.row): Scored(line.row, line.curve)
            for line in self.lines
            if line.row and line.row.reason is not Reason.OUT_OF_MEMORY
        }

    @property
    def seconds(self) -> float:
        """Seconds that computing the protocol's scores took."""
        return sum(line.seconds for line in self.lines if line.seconds)

    @property
    def asked(self) -> list[Key]:
        """What identifies the scores that are asked for, in the order of the record."""
        asked = self.config
        return [
            Key(replica, way, name, length)
            for way, length, name in itertools.product(asked.ways, asked.lengths, asked.metrics)
            for replica in asked.replicas(name, self.seeds)
        ]

    def _protocol(self, score: Row | Curve | Baseline | None) -> str:
        # That of a score, of a line without one that of all; "": it is not asked for.
        if score is None:
            return self.protocol
        return self.protocols.get((score.way.swap, score.metric), "")

    def begin(self, text: CorpusRecord) -> None:
        """To be called before scores of a text are added. Says so if the text has scores of another
        protocol alone. Refused if the scores so far are of another text.
        """
        scored = [line.text for line in self.lines if line.text]
        if scored and scored[0].hash != text.hash:
            raise Refused(
                f"{self.path} has scores of other text ({text.source} has changed since): delete "
                "it to score the text of today"
            )
        if not self.lines and any(line.text and line.text.hash == text.hash for line in self.every):
            LOG.info(
                "note: everything is scored anew by another protocol than before: split, targets, "
                "last, reference, rate, longest length, samples, batch_tokens, by or weights differ"
            )
        self.unwritten = ScoreLine(protocol=self.protocol, text=text)

    def add(self, scored: Iterable[Scored], baselines: Iterable[Baseline]) -> None:
        """Appends what a pass has scored."""
        name = self._protocol
        new = [ScoreLine(protocol=name(row), row=row, curve=curve) for row, curve in scored]
        new += [ScoreLine(protocol=name(one), baseline=one) for one in baselines]
        if new and self.unwritten:
            jsonl.replace(self.path, map(_encoded, self.every))  # without lines that a kill cut off
            new.insert(0, self.unwritten)
            self.unwritten = None
        self._append(new)

    def end(self, seconds: float) -> None:
        """To be called after the scores, which took so many seconds; writes nothing without any."""
        if self.unwritten is None:
            self._append([ScoreLine(protocol=self.protocol, seconds=seconds)])

    def _append(self, new: Sequence[ScoreLine]) -> None:
        jsonl.append(self.path, map(_encoded, new))
        self.lines += new

    def result_fields(self) -> dict[str, Any]:
        """The fields of a record.Result that hold the scores that are asked for and there."""
        asked, seeds = self.config, self.seeds
        # Of equal keys the last line counts.
        rows = {key_of(line.row): line.row for line in self.lines if line.row}
        curves = {key_of(line.curve): line.curve for line in self.lines if line.curve}
        baselines = {
            (one.way, one.length, one.metric, one.name): one
            for one in (line.baseline for line in self.lines)
            if one
        }
        columns = [*itertools.product(asked.ways, asked.lengths, asked.metrics)]
        of_curves = [
            Key(replica, way, name, length)
            for way, name in itertools.product(asked.ways, asked.metrics)
            for replica in asked.replicas(name, seeds)
            for length in asked.lengths
        ]
        return {
            "rows": tuple(rows[key] for key in self.asked if key in rows),
            "curves": longest(curves[key] for key in of_curves if key in curves),
            "baselines": tuple(
                one for column in columns for key, one in baselines.items() if key[:3] == column
            ),
            "metrics": _users_metrics(asked.metrics),
        }


def score(
    models: Models, text: Text, config: EvalConfig, scores: Scores, session: Session
) -> tuple[dict[str, Any], float]:
    """Computes the scores that are missing: (fields of a record.Result; the seconds that all of its
    scores took).
    """
    about = text.scored.about
    if config.source or config.split == "all":  # else it was said when the run began
        for doubt in about.doubts([config.split]):
            LOG.warning("note: %s", doubt)
    scores.begin(about)
    # XLA's CPU runs the blocks of attention one after another: a second core would be idle.
    single_core = jax.default_backend() == "cpu" and not session.mesh and config.by == "seed"
    began = time.monotonic()
    known, task = scores.known, models.task
    # Baselines of the lengths of missing scores: after a kill these would be fewer.
    missing = dict.fromkeys((key.way, key.length) for key in scores.asked if key not in known)
    threads = environment.threads() if single_core else 1
    passes = evaluate(models, text.windows, config, session, threads, known)
    try:
        with contextlib.closing(passes):
            shared = next(passes)
            of_task = (
                baselines(task, length, config, way)
                for way, length in missing
                if not way.swap and not task.reads_text
            )
            scores.add(shared, itertools.chain(*of_task))
            for scored in passes:
                scores.add(scored, [])
    finally:
        scores.end(time.monotonic() - began)
    windows = {
        name: [text.windows[name, length] for length in config.lengths]
        for name in config.metrics
        if isinstance(named(name), TextMetric)
    }
    fields = {
        "targets": {name: cuts[0].targets for name, cuts in windows.items()},
        "target_bytes": {name: {c.length: c.bytes for c in cuts} for name, cuts in windows.items()},
        "document_bytes": {n: cuts[0].by_document(cuts[0].sizes) for n, cuts in windows.items()},
        "scored": about if config.source else None,
    }
    return fields | scores.result_fields(), scores.seconds


def forget(path: Path, seeds: Sequence[int]) -> None:
    """Takes the scores of these seeds out of the scores.jsonl at `path`, and those by place or
    sample, which name no seed.
    """
    every, kept = _lines(path), []
    for line in every:
        score = line.row or line.curve
        if not score or (score.replica.kind == "seed" and score.replica.number not in seeds):
            kept.append(line)
    if len(kept) < len(every):
        jsonl.replace(path, map(_encoded, kept))


def protocol_of(
    config: EvalConfig,
    seeds: Sequence[int],
    length: int,
    task: Task,
    swap: str = "",
    metric: str = "",
) -> str:
    """A short name of the protocol by which models trained at `length` are scored with a swap by a
    metric. It depends on the content of the users' files of these two.
    """
    names = PROTOCOL if task.reads_text else DRAWN
    parts = {name: getattr(config, name) for name in names}
    if task.reads_text:  # "stride" as in earlier releases, so that their scores are known
        parts |= {"longest": config.scope.longest, "stride": max(1, length // 2)}
    parts |= {"reference": config.reference} if config.reference != length else {}
    parts |= {"rate": config.rate} if config.rate else {}
    parts |= {"seed": seeds[0]} if config.by == "place" and tuple(seeds) != (0,) else {}
    files = scoring_files([swap] if swap else [], [metric])
    digest = sha256(canonical([parts, files]))[:8]
    if task.reads_text:
        return f"{config.split}-{max(config.lengths)}-{digest}"
    return f"{config.samples}-samples-{digest}"


def _users_metrics(names: Iterable[str]) -> dict[str, UsersMetric]:
    return {
        name: UsersMetric(
            sentence=metric.sentence,
            unit=metric.unit,
            better=metric.better,
            samples=isinstance(metric, SampleMetric),
            percent=isinstance(metric, SampleMetric) and metric.percent,
            logarithm=metric.logarithm,
            sources=scoring_files([], [name]),
        )
        for name in names
        if ":" in name and (metric := named(name))
    }


def _encoded(line: ScoreLine) -> dict[str, Any]:
    return {name: part for name, part in records.plain(line).items() if part is not None}


def _lines(path: Path) -> list[ScoreLine]:
    # The whole lines of a scores.jsonl: others are computed again
    lines = []
    for line in jsonl.read_lines(path):
        with contextlib.suppress(msgspec.ValidationError):
            lines.append(msgspec.convert(line, ScoreLine, str_keys=True))
    return lines
