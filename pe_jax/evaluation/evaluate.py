"""Evaluation of trained models by every metric at every length: as they are, with every swap, and
with every segment memory. windows.py cuts the text, passes.py lists what is to be computed,
scoring.py makes the forward passes.

Evaluation text and random positions are fixed, so every seed and encoding meets the same ones.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import numpy as np
from flax import nnx
from jax.sharding import Mesh

from pe_jax.encoding import Encoding
from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.passes import Job, Key, jobs, plan, wanted
from pe_jax.evaluation.room import Room
from pe_jax.evaluation.scoring import Missing, score, target_nats
from pe_jax.evaluation.windows import Windows, windows
from pe_jax.reason import Reason
from pe_jax.record import Curve, Row
from pe_jax.training.mesh import copies
from pe_jax.training.processes import broadcast
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

    def replica(self, row: int, mesh: Mesh | None) -> Any:
        """The parameters of seeds[row], on every device of a mesh."""
        return copies(mesh, jax.tree.map(lambda a: a[row], self.params))


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """What a run's result holds of its evaluation."""

    rows: tuple[Row, ...]
    curves: tuple[Curve, ...]
    """By the metrics that have curves, at the longest length that has a value."""
    targets: dict[str, int]
    """Scored tokens of each metric, the same at every length."""
    target_bytes: dict[str, dict[int, int]]
    """Bytes of the scored tokens, by metric and length: bits per byte times these over `targets`
    are bits per token.
    """


class Scored(NamedTuple):
    """What one seed scored by one metric in one pass."""

    row: Row
    curve: Curve | None


def evaluate(
    models: Models,
    documents: Sequence[np.ndarray],
    config: EvalConfig,
    sizes: np.ndarray | None = None,
    session: Session | None = None,
    threads: int = 1,
    done: frozenset[tuple[int, str, str, int]] = frozenset(),
) -> Evaluation:
    """Scores the models on `documents`, the token ids [n] of each, by a resolved config.

    `sizes` [V] are the bytes of each token, None where tokens are bytes; `threads` passes run at a
    time. The session's history gets a line after each pass; its mesh splits the windows. ValueError
    where the text does not suffice, Interrupted when `session.stop` says so.

    What is `done`, as (seed, swap, metric, length), is neither computed nor compiled, and has no
    row or curve in what comes back; all else is what it would be without it, to the bit. `longest`
    joins old curves and new.
    """
    session = session or Session()
    cuts = {
        (metric, length): windows(documents, metric, length, config, sizes)
        for metric in config.metrics
        for length in config.lengths
    }
    passes = plan(models.encodings, config, models.segment)
    keys = [key for key in wanted(passes, config, models.seeds) if key not in done]
    todo = jobs(passes, keys)
    costs = [_tokens(job, cuts) for job in todo]
    replicas = {seed: models.replica(row, session.mesh) for row, seed in enumerate(models.seeds)}
    scores = functools.partial(
        _score_job, models, replicas, cuts, config.batch_tokens, session, Room(session.mesh)
    )
    found: dict[Key, Scored] = {}
    pool = ThreadPoolExecutor(threads)
    try:
        # one thread means this one, since all processes must use their devices in one order
        for i, new in enumerate(pool.map(scores, todo) if threads > 1 else map(scores, todo)):
            found |= new
            broadcast(session.history.add, evaluated=sum(costs[: i + 1]), of=sum(costs))
            session.stop(lambda: None)  # nothing to save: evaluation begins anew
    finally:
        pool.shutdown(cancel_futures=True)
    scored = [found[key] for key in keys]
    return Evaluation(
        tuple(entry.row for entry in scored),
        longest(entry.curve for entry in scored if entry.curve),
        {m: cuts[m, config.lengths[0]].targets for m in config.metrics},
        {m: {length: cuts[m, length].bytes for length in config.lengths} for m in config.metrics},
    )


def _tokens(job: Job, cuts: Mapping[tuple[str, int], Windows]) -> int:
    """How many tokens of windows a job works through."""
    return sum(cuts[metric, job.part.length].tokens[:, 1:].size for metric, _ in job.todo)


def _score_job(
    models: Models,
    replicas: Mapping[int, Any],
    cuts: Mapping[tuple[str, int], Windows],
    batch_tokens: int,
    session: Session,
    room: Room,
    job: Job,
) -> dict[Key, Scored]:
    """What each seed, with its parameters from `replicas`, scores in one pass; `cuts` are the
    windows of each metric and length.
    """
    part = job.part
    program = functools.partial(
        target_nats,
        graphdef=models.graphdef,
        encodings=part.encodings,
        segment=models.segment if part.memory else 0,
        memory=part.memory,
    )
    diverged = dict(zip(models.seeds, models.diverged, strict=True))
    scored = {}
    for (metric, seed), keys in job.todo.items():
        cut = cuts[metric, part.length]
        if part.beyond is not None:
            nats = Missing(Reason.BEYOND_POSITIONS, part.beyond)
        elif diverged[seed] >= 0:
            nats = Missing(Reason.DIVERGED, diverged[seed])
        else:
            nats = score(cut, program, replicas[seed], batch_tokens, session, room)
        scored |= {key: _scored(cut, key, nats) for key in keys}
    return scored


def _scored(cut: Windows, key: Key, nats: np.ndarray | Missing) -> Scored:
    """The row and the curve of one seed's -ln p, or the row that says why there is none."""
    if isinstance(nats, Missing):
        return Scored(Row(**key._asdict(), value=None, **nats._asdict()), None)
    row = Row(**key._asdict(), value=cut.value(nats))
    if not cut.metric.by_position:
        return Scored(row, None)
    position, value = cut.curve(nats)
    return Scored(row, Curve(**key._asdict(), position=position, value=value))


def longest(curves: Iterable[Curve]) -> tuple[Curve, ...]:
    """Of each metric, seed and swap, the curve of the longest length."""
    kept: dict[tuple[str, int, str], Curve] = {}
    for curve in curves:
        key = curve.metric, curve.seed, curve.swap
        if key not in kept or kept[key].length <= curve.length:
            kept.pop(key, None)
            kept[key] = curve
    return tuple(kept.values())
