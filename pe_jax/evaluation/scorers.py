"""What trained models score in one pass: on windows of text, or on the samples of a task."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from flax import nnx
from jax.sharding import Mesh

from pe_jax.encoding import Encoding
from pe_jax.evaluation.answers import Answers, answers
from pe_jax.evaluation.baselines import depths
from pe_jax.evaluation.budget import Budget
from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.passes import Job, Key
from pe_jax.evaluation.scoring import Missing, score, target_nats
from pe_jax.evaluation.windows import Windows
from pe_jax.metric import SampleMetric, named
from pe_jax.reason import Reason
from pe_jax.record import Curve, Row
from pe_jax.task import Task
from pe_jax.tasks.text import TEXT
from pe_jax.training.mesh import copies
from pe_jax.training.session import Session


@dataclasses.dataclass(frozen=True)
class Models:
    """The trained models of a run's seeds."""

    graphdef: nnx.GraphDef
    params: Any
    """Every leaf has a leading axis of seeds."""
    encodings: tuple[Encoding, ...]
    seeds: tuple[int, ...]
    diverged: tuple[int, ...]
    """The step at which each seed's training diverged, or -1."""
    segment: int = 0
    """Tokens of a segment, for segment memories: the training length."""
    task: Task = TEXT

    def replicas(self, mesh: Mesh | None) -> dict[int, Any]:
        """The parameters of each seed, on every device of a mesh."""
        return {
            seed: copies(mesh, jax.tree.map(lambda a, row=row: a[row], self.params))
            for row, seed in enumerate(self.seeds)
        }

    def missing(self, job: Job, seed: int) -> Missing | None:
        """Why a seed has no score in a pass that is not computed; None where it is."""
        if job.part.beyond is not None:
            return Missing(Reason.BEYOND_POSITIONS, job.part.beyond)
        diverged = dict(zip(self.seeds, self.diverged, strict=True))[seed]
        return Missing(Reason.DIVERGED, diverged) if diverged >= 0 else None


class Scored(NamedTuple):
    """What one seed scored by one metric in one pass."""

    row: Row
    curve: Curve | None


class TextScorer:
    """Scores windows of text: `cuts` are those of each metric and length."""

    def __init__(
        self,
        models: Models,
        cuts: Mapping[tuple[str, int], Windows],
        config: EvalConfig,
        session: Session,
    ):
        self.models, self.cuts, self.config, self.session = models, cuts, config, session
        self.budget, self.replicas = Budget(session.mesh), models.replicas(session.mesh)

    def tokens(self, job: Job) -> int:
        """How many tokens a pass works through."""
        return sum(self.cuts[m, job.part.length].tokens[:, 1:].size for m, _ in job.todo)

    def __call__(self, job: Job) -> dict[Key, Scored]:
        """What each seed scores in a pass."""
        part, models = job.part, self.models
        program = functools.partial(
            target_nats,
            graphdef=models.graphdef,
            encodings=part.encodings,
            segment=models.segment if part.memory else 0,
            memory=part.memory,
        )
        scored = {}
        for (metric, seed), keys in job.todo.items():
            cut = self.cuts[metric, part.length]
            nats = models.missing(job, seed)
            if nats is None:
                size = self.config.batch_tokens
                nats = score(cut, program, self.replicas[seed], size, self.session, self.budget)
            scored |= {key: _of_text(cut, key, nats) for key in keys}
        return scored


DEPTHS = 10
"""Bins of depth, of equal width."""


class SampleScorer:
    """Scores the samples of a task."""

    def __init__(self, models: Models, config: EvalConfig, session: Session):
        self.models, self.config, self.session = models, config, session
        self.budget, self.replicas = Budget(session.mesh), models.replicas(session.mesh)

    def tokens(self, job: Job) -> int:
        """How many tokens a pass works through, padding included."""
        seeds = {seed for _, seed in job.todo}
        return len(seeds) * self.config.samples * job.part.task.size(job.part.longest)

    def __call__(self, job: Job) -> dict[Key, Scored]:
        """What each seed scores in a pass."""
        part, models = job.part, self.models
        found = {
            seed: models.missing(job, seed)
            or answers(
                part,
                models.graphdef,
                self.replicas[seed],
                self.config,
                self.session,
                self.budget,
            )
            for seed in dict.fromkeys(seed for _, seed in job.todo)
        }
        depth = depths(part.task, part.length, self.config.samples, part.longest)
        return {
            key: _of_samples(key, found[seed], depth)
            for (_, seed), keys in job.todo.items()
            for key in keys
        }


def _of_samples(key: Key, found: Answers | Missing, depth: np.ndarray | None) -> Scored:
    """The row of one seed's answers, and of its accuracy the curve by depth."""
    if isinstance(found, Missing):
        return _no_score(key, found)
    metric = named(key.metric, SampleMetric)
    right, scored = np.asarray(found.right), np.asarray(found.scored)
    row = Row(**key._asdict(), value=metric.value(right.sum(-1), scored.sum(-1)))
    if depth is None or not metric.by_depth:
        return Scored(row, None)
    bins = np.minimum(depth[scored] * DEPTHS, DEPTHS - 1).astype(int)
    every = np.bincount(bins, minlength=DEPTHS)
    hits = np.bincount(bins[right[scored]], minlength=DEPTHS)
    value = tuple(100 * float(h / n) if n else None for h, n in zip(hits, every, strict=True))
    position = tuple((bin + 0.5) / DEPTHS for bin in range(DEPTHS))
    return Scored(row, Curve(**key._asdict(), position=position, value=value))


def _no_score(key: Key, why: Missing) -> Scored:
    """The row that says why there is no score."""
    return Scored(Row(**key._asdict(), value=None, **why._asdict()), None)


def _of_text(cut: Windows, key: Key, nats: np.ndarray | Missing) -> Scored:
    """The row and the curve of one seed's -ln p."""
    if isinstance(nats, Missing):
        return _no_score(key, nats)
    row = Row(**key._asdict(), value=cut.value(nats))
    if not cut.metric.by_position:
        return Scored(row, None)
    position, value = cut.curve(nats)
    return Scored(row, Curve(**key._asdict(), position=position, value=value))
