"""Evaluation of trained models by every metric at every length: as they are, with every swap, and
with every segment memory. windows.py cuts the text, scoring.py makes the forward passes.

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
from pe_jax.evaluation.scoring import score, target_nats
from pe_jax.evaluation.windows import Windows, windows
from pe_jax.model import memory
from pe_jax.reason import Reason
from pe_jax.record import Curve, Row
from pe_jax.spec.swap import swap
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


Done = frozenset[tuple[int, str, str, int]]
"""(seed, swap, metric, length) of scores that are known already."""


class Pass(NamedTuple):
    """One way to work through the windows of one length."""

    swap: str
    """The spec that is swapped in; "": none; "memory M": windows are taken segment by segment."""
    length: int
    encodings: tuple[Encoding, ...]
    """Those for this length."""
    memory: int = 0
    """Tokens of the segment memory; 0: none."""
    beyond: int | None = None
    """How many positions the encodings can serve, where these are too few; the pass is then not
    computed.
    """


Todo = list[tuple[str, int]]
"""The metrics, and the places of the seeds among the models', that are to be scored in a pass."""


class Scored(NamedTuple):
    """What one seed scored by one metric in one pass."""

    row: Row
    curve: Curve | None


def plan(encodings: tuple[Encoding, ...], config: EvalConfig, segment: int = 0) -> tuple[Pass, ...]:
    """The passes at every length: of the model as it is, with each swap, and with each memory in
    segments of `segment` tokens. ValueError for a swap or a memory that is not possible.
    """
    ways = [("", encodings, 0), *((spec, swap(encodings, spec), 0) for spec in config.swaps)]
    for size in config.memory:
        memory.check(encodings, size, segment)
        ways.append((f"memory {size}", encodings, size))
    passes = []
    for name, members, size in ways:
        for length in config.lengths:
            positions = size + segment if size else length
            own = tuple(e.at(positions) for e in members)
            limit = min((n for e in own if (n := e.limit()) is not None), default=positions)
            beyond = limit if limit < positions else None
            passes.append(Pass(name, length, own, size, beyond))
    return tuple(passes)


def check(encodings: tuple[Encoding, ...], config: EvalConfig, segment: int = 0) -> None:
    """ValueError for a swap or a memory that is not possible with these encodings."""
    plan(encodings, config, segment)


def evaluate(
    models: Models,
    documents: Sequence[np.ndarray],
    config: EvalConfig,
    sizes: np.ndarray | None = None,
    session: Session | None = None,
    threads: int = 1,
    done: Done = frozenset(),
) -> Evaluation:
    """Scores the models on `documents`, the token ids [n] of each, by a resolved config.

    `sizes` [V] are the bytes of each token, None where tokens are bytes; `threads` passes run at a
    time. The session's history gets a line after each pass; its mesh splits the windows. ValueError
    where the text does not suffice, Interrupted when `session.stop` says so.

    What is `done` is neither computed nor compiled, and has neither row nor curve in what comes
    back; all else is what it would be without it, to the bit. `longest` joins old curves and new.
    """
    session = session or Session()
    cuts = {
        (metric, length): windows(documents, metric, length, config, sizes)
        for metric in config.metrics
        for length in config.lengths
    }
    work = _work(models, config, done)
    costs = [
        part.length * sum(len(cuts[metric, part.length].tokens) for metric, _ in todo)
        for part, todo in work
    ]
    replicas = [models.replica(row, session.mesh) for row in range(len(models.seeds))]

    def scores(item: tuple[Pass, Todo]) -> list[Scored]:
        return _score_pass(models, replicas, item, cuts, config.batch_tokens, session.mesh)

    scored: list[Scored] = []
    pool = ThreadPoolExecutor(threads)
    try:
        for i, new in enumerate(pool.map(scores, work)):
            scored += new
            session.history.add(evaluated=sum(costs[: i + 1]), of=sum(costs))
            session.stop(lambda: None)  # nothing to save: evaluation begins anew
    finally:
        pool.shutdown(cancel_futures=True)
    return Evaluation(
        tuple(entry.row for entry in scored),
        longest(entry.curve for entry in scored if entry.curve),
        {m: cuts[m, config.lengths[0]].targets for m in config.metrics},
        {m: {length: cuts[m, length].bytes for length in config.lengths} for m in config.metrics},
    )


def _work(models: Models, config: EvalConfig, done: Done) -> list[tuple[Pass, Todo]]:
    """The passes with what is to be scored in each; without those of which everything is done."""
    work = []
    for part in plan(models.encodings, config, models.segment):
        todo = [
            (metric, row)
            for metric in config.metrics
            for row, seed in enumerate(models.seeds)
            if (seed, part.swap, metric, part.length) not in done
        ]
        if todo:
            work.append((part, todo))
    return work


def _score_pass(
    models: Models,
    replicas: Sequence[Any],
    item: tuple[Pass, Todo],
    cuts: Mapping[tuple[str, int], Windows],
    batch_tokens: int,
    mesh: Mesh | None,
) -> list[Scored]:
    """What is to be scored in one pass, by seeds with the parameters in `replicas`; `cuts` are the
    windows of each metric and length.
    """
    part, todo = item
    program = functools.partial(
        target_nats,
        graphdef=models.graphdef,
        encodings=part.encodings,
        segment=models.segment if part.memory else 0,
        memory=part.memory,
    )
    scored = []
    for metric, row in todo:
        cut, diverged = cuts[metric, part.length], models.diverged[row]
        about = {"seed": models.seeds[row], "swap": part.swap, "length": part.length}
        if part.beyond is not None:
            nats, at = Reason.BEYOND_POSITIONS, part.beyond
        elif diverged >= 0:
            nats, at = Reason.DIVERGED, diverged
        else:
            own = functools.partial(program, replicas[row])
            nats, at = score(cut, own, batch_tokens, mesh), None
        scored.append(_scored(cut, about, nats, at))
    return scored


def _scored(
    cut: Windows, about: dict[str, Any], nats: np.ndarray | Reason, at: int | None
) -> Scored:
    """The row and the curve of one seed's -ln p, or the row with the reason why there is none and
    the number `at` of its sentence.
    """
    name = cut.metric.name
    if isinstance(nats, Reason):
        return Scored(Row(metric=name, value=None, reason=nats, at=at, **about), None)
    row = Row(metric=name, value=cut.value(nats), **about)
    if not cut.metric.by_position:
        return Scored(row, None)
    position, value = cut.curve(nats)
    return Scored(row, Curve(metric=name, position=position, value=value, **about))


def longest(curves: Iterable[Curve]) -> tuple[Curve, ...]:
    """Of each metric, seed and swap, the curve of the longest length."""
    kept: dict[tuple[str, int, str], Curve] = {}
    for curve in curves:
        key = curve.metric, curve.seed, curve.swap
        if key not in kept or kept[key].length <= curve.length:
            kept.pop(key, None)
            kept[key] = curve
    return tuple(kept.values())
