"""Evaluation of trained models: every metric, at every length, of the model as it is, with every
swap, and with every segment memory.

Evaluation text and random positions are fixed, so every seed and encoding meets the same ones.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence
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
from pe_jax.record import Curve, Reason, Row
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
    """Of each seed, the step at which its training diverged, or -1."""
    segment: int = 0
    """Tokens of a segment, where segment memories are evaluated: the training length."""

    def of(self, row: int, mesh: Mesh | None) -> Any:
        """The parameters of one seed, on every device of a mesh."""
        return copies(mesh, jax.tree.map(lambda a: a[row], self.params))


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """What a run's result holds of its evaluation."""

    rows: tuple[Row, ...]
    curves: tuple[Curve, ...]
    """Of the metrics whose every row is scored, at the longest length that has a value."""
    targets: dict[str, int]
    """Scored tokens of each metric, the same at every length."""
    target_bytes: dict[str, dict[int, int]]
    """Their bytes, by metric and length: bits per byte times these over `targets` are bits per
    token.
    """


class Pass(NamedTuple):
    """One way to work through the windows of one length."""

    swap: str
    """What is swapped in; "": nothing, "memory M": the windows are worked through in segments."""
    length: int
    encodings: tuple[Encoding, ...]
    """Those for this length."""
    memory: int = 0
    """Tokens of the segment memory; 0: none."""
    beyond: int | None = None
    """How many positions the encodings can serve, where these are too few; the pass is then not
    computed.
    """


class Scored(NamedTuple):
    """What one seed scored by one metric in one pass."""

    row: Row
    curve: Curve | None


def plan(encodings: tuple[Encoding, ...], config: EvalConfig, segment: int = 0) -> tuple[Pass, ...]:
    """The passes, at every length: of the model as it is, with each swap, and in segments of
    `segment` tokens with each memory. ValueError for a swap or a memory that is not possible.
    """
    ways = [("", encodings, 0), *((spec, swap(encodings, spec), 0) for spec in config.swaps)]
    for size in config.memory:
        memory.check(encodings, size, segment)
        ways.append((f"memory {size}", encodings, size))
    passes = []
    for name, members, size in ways:
        for length in config.lengths:
            total = size + segment if size else length
            here = tuple(e.at(total) for e in members)
            limit = min((n for e in here if (n := e.limit()) is not None), default=total)
            beyond = limit if limit < total else None
            passes.append(Pass(name, length, here, size, beyond))
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
) -> Evaluation:
    """Scores the models by a resolved config.

    `sizes` [V] are the bytes of each token, None where tokens are bytes. `threads` passes are at
    work at a time. The session's history gets a line after each pass; its mesh shares out the
    windows.
    """
    session = session or Session()
    cut = {
        (metric, length): windows(documents, metric, length, config, sizes)
        for metric in config.metrics
        for length in config.lengths
    }
    passes = plan(models.encodings, config, models.segment)
    costs = [p.length * sum(len(cut[m, p.length].tokens) for m in config.metrics) for p in passes]
    replicas = [models.of(row, session.mesh) for row in range(len(models.seeds))]

    def scores(part: Pass) -> list[Scored]:
        here = [cut[metric, part.length] for metric in config.metrics]
        return _score_pass(models, replicas, part, here, config, session.mesh)

    scored: list[Scored] = []
    pool = ThreadPoolExecutor(threads)
    try:
        for i, new in enumerate(pool.map(scores, passes)):
            scored += new
            session.history.add(evaluated=sum(costs[: i + 1]), of=sum(costs))
            session.stop(lambda: None)
    finally:
        pool.shutdown(cancel_futures=True)
    return Evaluation(
        tuple(entry.row for entry in scored),
        _longest(entry.curve for entry in scored),
        {m: cut[m, config.lengths[0]].targets for m in config.metrics},
        {m: {length: cut[m, length].bytes for length in config.lengths} for m in config.metrics},
    )


def _score_pass(
    models: Models,
    replicas: Sequence[Any],
    part: Pass,
    cuts: Sequence[Windows],
    config: EvalConfig,
    mesh: Mesh | None,
) -> list[Scored]:
    """What every seed, with the parameters in `replicas`, scores in one pass by each metric."""
    program = functools.partial(
        target_nats,
        graphdef=models.graphdef,
        encodings=part.encodings,
        segment=models.segment if part.memory else 0,
        memory=part.memory,
    )
    scored = []
    for cut in cuts:
        for seed, diverged, params in zip(models.seeds, models.diverged, replicas, strict=True):
            about = {"seed": seed, "swap": part.swap, "length": part.length}
            if part.beyond is not None:
                nats, at = Reason.BEYOND_POSITIONS, part.beyond
            elif diverged >= 0:
                nats, at = Reason.DIVERGED, diverged
            else:
                own = functools.partial(program, params)
                nats, at = score(cut, own, config.batch_tokens, mesh), None
            scored.append(_scored(cut, about, nats, at))
    return scored


def _scored(
    cut: Windows, about: dict[str, Any], nats: np.ndarray | Reason, at: int | None
) -> Scored:
    """The record of one seed's scores, or of the reason why there are none, with its number."""
    name = cut.metric.name
    if isinstance(nats, Reason):
        return Scored(Row(metric=name, value=None, reason=nats, at=at, **about), None)
    row = Row(metric=name, value=cut.value(nats), **about)
    if not cut.metric.by_position:
        return Scored(row, None)
    position, value = cut.curve(nats)
    return Scored(row, Curve(metric=name, position=position, value=value, **about))


def _longest(curves: Iterable[Curve | None]) -> tuple[Curve, ...]:
    """Of each metric, seed and swap, the curve of the longest length, in the order in which these
    were computed.
    """
    kept: dict[tuple[str, int, str], Curve] = {}
    for curve in curves:
        if curve is not None:
            key = curve.metric, curve.seed, curve.swap
            kept.pop(key, None)
            kept[key] = curve
    return tuple(kept.values())
