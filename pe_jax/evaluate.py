"""Evaluation of a checkpoint: every metric of the protocol, at every length, for the model as it
is, every swap, and every segment memory.

One program for each distinct shape. Evaluation text and random positions are fixed by index, so
every seed and encoding meets the same ones.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import Mesh

from pe_jax.encoding import Encoding
from pe_jax.memory import Memory, check
from pe_jax.mesh import copies, place_windows
from pe_jax.protocol import EvalConfig, Windows, curve, nll, windows
from pe_jax.spec import swap
from pe_jax.train import cross_entropy


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """What a run's result holds of its evaluation; values are bits a byte."""

    rows: list[dict[str, Any]]
    """{"seed", "swap", "metric", "length", "value"}, and "reason" where value is None."""
    curves: list[dict[str, Any]]
    """{"seed", "swap", "length", "position", "value"}: nonoverlapping, at the longest length
    computed.
    """
    targets: dict[str, int]
    """Scored tokens of each metric, the same at every length."""
    target_bytes: dict[str, dict[str, int]]
    """Their bytes, by metric and length: bits a byte times these over `targets` are bits a token.
    """


class Pass(NamedTuple):
    """One way to work through the windows of one length."""

    swap: str
    """"" is the model as it is; "memory M": by segments, with a memory of M."""
    length: int
    encodings: tuple[Encoding, ...]
    """Those for this length."""
    memory: int = 0
    reason: str | None = None
    """Why it is not computed."""


@functools.partial(jax.jit, static_argnames=("graphdef", "encodings", "last", "segment", "memory"))
def nats(
    params,
    tokens,
    first,
    *,
    graphdef: nnx.GraphDef,
    encodings: tuple[Encoding, ...],
    last: int,
    segment: int = 0,
    memory: int = 0,
):
    """-ln p of each window's last targets, [B, last], from tokens [B, E + 1]; `first` is the first
    window's index.

    With a `memory`, by segments of `segment` tokens from the window's end, the first one shorter.
    """
    model = nnx.merge(graphdef, params, copy=True)
    index = first + jnp.arange(tokens.shape[0])
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(0), i))(index)
    if not memory:
        logits, _ = model(tokens[:, :-1], encodings=encodings, key=keys, last=last)
        return cross_entropy(logits, tokens[:, -last:])

    def one(kept, piece):
        number, inputs, targets = piece
        own = jax.vmap(jax.random.fold_in, (0, None))(keys, number)
        logits, kept = model(inputs, kept, encodings=encodings, key=own)
        return kept, cross_entropy(logits, targets)

    B, E = tokens.shape[0], tokens.shape[1] - 1
    kept, count, out = Memory.empty(model.config, B, memory), E // segment, []
    if head := E % segment:
        kept, found = one(kept, (count, tokens[:, :head], tokens[:, 1 : head + 1]))
        out = [found]
    if count:
        inputs, targets = (
            jnp.moveaxis(part.reshape(B, count, segment), 1, 0)
            for part in (tokens[:, head:-1], tokens[:, head + 1 :])
        )
        _, found = jax.lax.scan(one, kept, (jnp.arange(count), inputs, targets))
        out.append(jnp.moveaxis(found, 0, 1).reshape(B, -1))
    return jnp.concatenate(out, axis=1)[:, -last:]


def plan(encodings: tuple[Encoding, ...], config: EvalConfig, segment: int = 0) -> Iterator[Pass]:
    """The passes of every length: of the model as it is, of each swap, by segments with each
    memory.
    """
    ways = [("", encodings, 0), *((spec, swap(encodings, spec), 0) for spec in config.swaps)]
    ways += [(f"memory {size}", encodings, size) for size in config.memory]
    for name, members, size in ways:
        if size:
            check(members, size, segment)
        for length in config.lengths:
            total = size + segment if size else length
            here = tuple(e.at(total) for e in members)
            limit = min((n for e in here if (n := e.limit()) is not None), default=total)
            reason = f"beyond its {limit} positions" if limit < total else None
            yield Pass(name, length, here, size, reason)


def evaluate(
    graphdef: nnx.GraphDef,
    params: Any,
    encodings: tuple[Encoding, ...],
    documents: Sequence[np.ndarray],
    config: EvalConfig,
    seeds: Sequence[int],
    diverged: Sequence[int],
    report: Callable[[int, int], None] = lambda done, total: None,
    threads: int = 1,
    mesh: Mesh | None = None,
    sizes: np.ndarray | None = None,
    segment: int = 0,
) -> Evaluation:
    """Scores `params` (a leading axis of seeds) by a resolved config.

    `diverged` holds -1 or a step, by seed. `threads` of the (swap, length) pairs are at work at a
    time; a `mesh` shares out the windows. `sizes` are the bytes of each token, None where tokens
    are bytes. `segment` is the length of segments, where the config has memories.
    """
    cut = {
        (m, E): windows(documents, m, E, config, sizes)
        for m in config.metrics
        for E in config.lengths
    }
    targets = {m: cut[m, config.lengths[0]].targets for m in config.metrics}
    sized = {m: {f"{E}": cut[m, E].bytes for E in config.lengths} for m in config.metrics}
    out = Evaluation([], [], targets, sized)
    replicas = [copies(mesh, jax.tree.map(lambda a, r=r: a[r], params)) for r in range(len(seeds))]
    work = list(plan(encodings, config, segment))
    cost = [w.length * sum(len(cut[m, w.length].tokens) for m in config.metrics) for w in work]

    def score(way: Pass):
        found = []
        program = functools.partial(
            nats,
            graphdef=graphdef,
            encodings=way.encodings,
            segment=segment if way.memory else 0,
            memory=way.memory,
        )
        for metric, (seed, at, replica) in itertools.product(
            config.metrics, zip(seeds, diverged, replicas, strict=True)
        ):
            row = {"seed": int(seed), "swap": way.swap, "metric": metric, "length": way.length}
            values, reason = None, way.reason or (f"diverged at step {at}" if at >= 0 else None)
            if reason is None:
                own = functools.partial(program, replica)
                values, reason = _nats(own, cut[metric, way.length], config, mesh)
            found.append((row, values, reason))
        return found

    pool = ThreadPoolExecutor(threads)
    try:
        for i, found in enumerate(pool.map(score, work)):
            for row, values, reason in found:
                _add(out, row, cut[row["metric"], row["length"]], values, reason)
            report(sum(cost[: i + 1]), sum(cost))
    finally:
        pool.shutdown(cancel_futures=True)
    return out


def _add(out: Evaluation, row: dict, cut: Windows, values, reason: str | None) -> None:
    """Takes note of what one seed scored."""
    if values is None:
        out.rows.append(row | {"value": None, "reason": reason})
        return
    out.rows.append(row | {"value": cut.scores(values) / math.log(2)})
    if cut.metric == "nonoverlapping":
        _keep_longest(out.curves, row, cut, values)


def _nats(program: Callable, cut: Windows, config: EvalConfig, mesh: Mesh | None):
    """(nats, None), or (None, the reason)."""
    try:
        values = nll(
            cut,
            lambda tokens, first, last: program(
                place_windows(mesh, tokens), np.int32(first), last=last
            ),
            _batch(config.batch_tokens // cut.length, mesh.size if mesh else 1),
        )
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        return None, "out of memory"
    return (values, None) if np.isfinite(values).all() else (None, "not finite")


def _batch(windows: int, devices: int) -> int:
    """As many windows as asked for, the same number on each device and at least one."""
    return max(1, windows // devices) * devices


def _keep_longest(curves: list[dict], row: dict, cut: Windows, values: np.ndarray) -> None:
    """The curve of the longest length computed so far of this seed and swap."""
    position, bits = curve(cut, values)
    kept = [c for c in curves if (c["seed"], c["swap"]) != (row["seed"], row["swap"])]
    new = {k: row[k] for k in ("seed", "swap", "length")} | {"position": position, "value": bits}
    curves[:] = [*kept, new]
