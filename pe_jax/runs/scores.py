"""The scores of a run's models, a line each in the scores.jsonl of its folder. A score is computed
once: who asks for more of the same protocol, or for seeds that came later, computes only what is
missing.

A protocol is what decides which tokens are scored and how, with what the user's files of a score's
swap and metric hold. Lengths up to the longest, metrics, ways and seeds are no part of it: they may
be asked for one after another. But scores by place or prompt name no seed: the protocol does, where
it is not 0.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from pe_jax import contract
from pe_jax.errors import Refused
from pe_jax.evaluation.evaluate import longest
from pe_jax.evaluation.passes import Key, key_of
from pe_jax.evaluation.scorers import Scored
from pe_jax.metric import SampleMetric
from pe_jax.metrics import named
from pe_jax.record import Baseline, CorpusRecord, Curve, Process, Reason, Row, UsersMetric, Way
from pe_jax.runs import environment
from pe_jax.runs.folder import Folder
from pe_jax.runs.run import Run
from pe_jax.specs.parse import sources
from pe_jax.storage import jsonl, records
from pe_jax.storage.hashes import canonical, sha256

Item = TypeVar("Item")
PROTOCOL = (
    "split",
    "source",
    "targets",
    "last",
    "batch_tokens",
    "samples",
    "by",
    "weights",
)
DRAWN = ("split", "samples", "last", "weights")
"""What of section `eval` decides how text is scored, and how drawn samples are."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoreLine:
    """A line of scores.jsonl: a score, a baseline, or the beginning or the end of an evaluation."""

    protocol: str
    row: Row | None = None
    curve: Curve | None = None
    baseline: Baseline | None = None
    text: CorpusRecord | None = None  # at the beginning: what is scored
    process: Process | None = None  # at the beginning: by what
    seconds: float | None = None  # at the end: how long it took


class Scores:
    """The scores of a run's folder by the protocol of its section `eval`."""

    def __init__(self, folder: Folder, run: Run, say: Callable[[str], None]):
        self.path, self.run, self.say = folder.scores, run, say
        self.protocol = protocol_of(run)
        asked = itertools.product((way.swap for way in run.eval.ways), run.eval.metrics)
        self.protocols = {(swap, name): protocol_of(run, swap, name) for swap, name in asked}
        texts = jsonl.texts(self.path)
        self.every = [line for line in map(_decoded, texts) if line is not None]
        if damaged := len(texts) - len(self.every):
            say(f"{self.path}: {damaged} lines are damaged, and what they said is computed again")
        self.unwritten: ScoreLine | None = None  # the beginning, until the first score is there
        self.lines = [
            line
            for line in self.every
            if line.protocol == self._protocol(line.row or line.curve or line.baseline)
        ]

    @property
    def known(self) -> tuple[Scored, ...]:
        """The scores that are there. One for which there was too little memory is not: there may be
        more today.
        """
        there = (Scored(line.row, line.curve) for line in self.lines if line.row)
        return tuple(one for one in there if one.row.reason is not Reason.OUT_OF_MEMORY)

    @property
    def seconds(self) -> float:
        """Seconds that computing the protocol's scores took."""
        return sum(line.seconds for line in self.lines if line.seconds)

    def _protocol(self, score: Row | Curve | Baseline | None) -> str:
        """The protocol of a score, of a line without one that of all; "": it is not asked for."""
        if score is None:
            return self.protocol
        return self.protocols.get((score.way.swap, score.metric), "")

    def begin(self, text: CorpusRecord) -> None:
        """To be called before scores of a text are added. Says so if the text has scores of another
        protocol alone. Refused if the scores so far are those of another text.
        """
        scored = [line.text for line in self.lines if line.text]
        if scored and scored[0].hash != text.hash:
            raise Refused(
                f"{self.path} has scores of other text ({text.source} has changed since): delete "
                "it to score the text of today"
            )
        if not self.lines and any(line.text and line.text.hash == text.hash for line in self.every):
            self.say(
                "note: everything is scored anew, and the earlier scores are kept: the number of "
                "places, the tokens scored before each, the longest length or the samples have "
                "changed"
            )
        self.unwritten = ScoreLine(protocol=self.protocol, text=text, process=environment.process())

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
        """The fields of a record.Result that hold what the run asks for, as far as it is there."""
        asked, seeds = self.run.eval, self.run.run.seeds
        rows = _newest((line.row for line in self.lines if line.row), key_of)
        curves = _newest((line.curve for line in self.lines if line.curve), key_of)
        baselines = _newest((line.baseline for line in self.lines if line.baseline), _compared)
        columns = [*itertools.product(asked.ways, asked.lengths, asked.metrics)]
        ordered = [
            Key(replica, way, name, length)
            for way, name in itertools.product(asked.ways, asked.metrics)
            for replica in asked.replicas(name, seeds)
            for length in asked.lengths
        ]
        processes = [line.process for line in self.lines if line.process]
        return {
            "rows": tuple(
                rows[key]
                for way, length, name in columns
                for replica in asked.replicas(name, seeds)
                if (key := Key(replica, way, name, length)) in rows
            ),
            "curves": longest(curves[key] for key in ordered if key in curves),
            "baselines": tuple(
                baseline
                for column in columns
                for baseline in baselines.values()
                if _compared(baseline)[:3] == column
            ),
            "metrics": _users_metrics(asked.metrics),
            "scored_by": tuple(p for i, p in enumerate(processes) if p not in processes[:i]),
        }


def forget(path: Path, seeds: Sequence[int]) -> None:
    """Takes the scores of these seeds out of the scores.jsonl at `path`, and those by place or
    sample, which name no seed.
    """
    every = [line for line in map(_decoded, jsonl.texts(path)) if line is not None]
    kept = [line for line in every if not _is_of(line.row or line.curve, seeds)]
    if len(kept) < len(every):
        jsonl.replace(path, map(_encoded, kept))


def _is_of(score: Row | Curve | None, seeds: Sequence[int]) -> bool:
    return score is not None and (score.replica.kind != "seed" or score.replica.number in seeds)


def protocol_of(run: Run, swap: str = "", by: str = "") -> str:
    """A short name of the protocol by which a run is scored with a swap by a metric. It depends on
    what the users' files of these two hold.
    """
    config, task = run.eval, run.task
    names = PROTOCOL if task.reads_text else DRAWN
    parts = {name: getattr(config, name) for name in names}
    if task.reads_text:  # "stride" as in earlier releases, so that their scores are known
        parts |= {"longest": config.scope.longest, "stride": max(1, run.train.length // 2)}
    parts |= {"reference": config.reference} if config.reference != run.train.length else {}
    parts |= {"seed": run.run.seeds[0]} if config.by == "place" and run.run.seeds != (0,) else {}
    files = (sources(swap) if swap else {}) | contract.sources(by)
    digest = sha256(canonical([parts, files]))[:8]
    if task.reads_text:
        return f"{config.split}-{max(config.lengths)}-{digest}"
    return f"{config.samples}-samples-{digest}"


def moved_targets(before: Run, after: Run) -> str:
    """Why two evaluations of the same text score other tokens of it, in a sentence; "": they do
    not, or the text is another one.
    """
    old, new = before.eval, after.eval
    longest = old.scope.longest, new.scope.longest
    same = (old.split, old.source) == (new.split, new.source) and after.task.reads_text
    if not same or longest[0] == longest[1]:
        return ""
    return (
        f"lengths up to {longest[1]} tokens move the targets, which lay in documents of at least "
        f"{longest[0]} tokens before: compare these values with each other, not with the run's own"
    )


def _compared(baseline: Baseline) -> tuple[Way, int, str, str]:
    return baseline.way, baseline.length, baseline.metric, baseline.name


def _newest(items: Iterable[Item], key: Callable[[Item], Hashable]) -> dict[Any, Item]:
    """The last item of each key, by the key."""
    return {key(item): item for item in items}


def _users_metrics(names: Iterable[str]) -> dict[str, UsersMetric]:
    """What the record says of the users' metrics among these."""
    return {
        name: UsersMetric(
            sentence=found.sentence,
            unit=found.unit,
            better=found.better,
            samples=isinstance(found, SampleMetric),
            percent=isinstance(found, SampleMetric) and found.percent,
            logarithm=found.logarithm,
            sources=contract.sources(name),
        )
        for name in names
        if ":" in name and (found := named(name))
    }


def _encoded(line: ScoreLine) -> dict[str, Any]:
    return {name: part for name, part in records.plain(line).items() if part is not None}


def _decoded(text: bytes) -> ScoreLine | None:
    """The line; None where it is not as it was written."""
    try:
        return msgspec.convert(jsonl.decode(text), ScoreLine, str_keys=True)
    except msgspec.ValidationError:
        return None
