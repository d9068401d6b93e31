"""Blockwise attention, in memory linear in the length: the formulas of the package (`__init__.py`)
tile by tile, a block of queries with a block of keys.

The softmax is online (Milakov & Gimelshein, 2018, arXiv:1805.02867). Along the key blocks of a
query block three sums are carried for each query and head:

    top    the largest logit
    total  sum_j exp(s_ij - top)
    out    sum_j exp(s_ij - top) gate_ij c_{i-j} (v_j + r^V_{i-j})

A key block that raises `top` first multiplies the sums by exp(old top - new top). The output is
out / total in the end; gates are not in `total`, since they multiply normalised weights.

Both loops are checkpointed: for the backward pass the one over query blocks keeps their inputs, the
one over key blocks the three sums before each. With an encoding that needs whole rows
(`Bound.whole_rows`) only queries are cut into blocks.

Axes: T queries, S keys, H heads, K head size, Q query blocks.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from pe_jax.attention.bound import Bound
from pe_jax.attention.dense import attend_whole_rows, gated_sum, masked_logits, prepare
from pe_jax.attention.relative import Relative, relative_terms
from pe_jax.attention.rows import ABSENT, Keys, Queries, Rows, visible
from pe_jax.encoding import HIDDEN

Tokens = TypeVar("Tokens", Queries, Keys)
EMPTY, NEAR, FAR = 0, 1, 2  # the kinds of tiles, see `_tile_kind`
LAID_OUT = 4  # key blocks of a window that are laid out for every query block, at most


def attend_blockwise(
    pe: Bound,
    q: Float[Array, "T H K"],
    k: Float[Array, "S H K"],
    v: Float[Array, "S H K"],
    queries: Rows,
    keys: Rows,
    block: int = 128,
) -> Float[Array, "T H K"]:
    """As `dense.attend`, in memory O(T + S) with gradients, or O(block S) with whole rows.

    `block` is the number of tokens in a block. Tiles that the mask hides are skipped; with a window
    W a query reads O(W) keys. Every query must be one of the keys.
    """
    T = q.shape[0]
    terms = relative_terms(pe, queries.pos, keys.pos, room=block)
    all_queries, all_keys = prepare(pe, q, k, v, queries, keys)
    all_queries = _pad(all_queries, block)
    if pe.whole_rows:
        out = _by_whole_rows(pe, all_queries, all_keys, terms, block, T)
    else:
        out = _by_tiles(pe, all_queries, all_keys, terms, block)
    return out.reshape(-1, *out.shape[2:])[:T].astype(v.dtype)


# By tiles, with the online softmax


# Each query block along the key blocks that it visits (`_visits`).
#
# In a far tile all pairs have the same relative terms, so that one vector serves it. The arguments
# of a branch are kept for the backward pass at every step, so a branch gets the keys and terms of
# its tile alone.
def _by_tiles(
    pe: Bound, queries: Queries, keys: Keys, terms: Relative, block: int
) -> Float[Array, "Q T H K"]:
    own, groups = _visits(pe, queries.rows, keys, terms, block)
    blocks = _into_blocks(queries, block).heads_first()

    @jax.checkpoint
    def attend_query_block(numbered_and_own):
        (i, queries), own = numbered_and_own
        visited = groups(i, own)

        def empty(running, tile):
            return running

        def near(running, tile):
            return running.update(pe, queries, *tile)

        def far(running, tile):
            keys, terms = tile
            return running.update(pe, queries, keys, terms.constant())

        branches = [empty, jax.checkpoint(near)]  # in the order of EMPTY, NEAR, FAR
        if pe.constant_from is not None:
            branches.append(jax.checkpoint(far))

        def step(running, tile):
            kind = _tile_kind(pe, queries.rows.idx, tile[0].rows.idx)
            return jax.lax.switch(kind, branches, running, tile), None

        running = Running.start(pe, *queries.q.shape)
        for tiles in visited:
            running, _ = jax.lax.scan(step, running, tiles)
        return running.output()

    return jax.lax.map(attend_query_block, ((jnp.arange(len(blocks.q)), blocks), own))


# EMPTY: the mask hides every pair. FAR: the relative hooks are constant (`Bound.constant_from`).
# NEAR: any other. By the first and last index alone, so a hidden tile may be NEAR or FAR, too.
def _tile_kind(pe: Bound, q_idx: Int[Array, "T"], k_idx: Int[Array, "S"]) -> Int[Array, ""]:
    first, last = jnp.min(jnp.where(k_idx >= 0, k_idx, 2**30)), jnp.max(k_idx)
    q_first, q_last = q_idx[0], jnp.max(q_idx)
    seen = last >= 0
    if pe.causal:
        seen &= first <= q_last
    for window, sinks in pe.reach:
        near = (last > q_first - window) & (first < q_last + window)
        seen &= near | (first < sinks)
    if pe.constant_from is None:
        return seen.astype(int)  # False is EMPTY, True is NEAR
    is_far = jnp.maximum(q_first - last, first - q_last) >= pe.constant_from
    return jnp.where(seen, NEAR + is_far, EMPTY)  # NEAR + True is FAR


class Running(NamedTuple):
    """The sums of the online softmax."""

    top: Float[Array, "H T"]
    total: Float[Array, "H T"]
    out: Float[Array, "H T K"]

    @classmethod
    def start(cls, pe: Bound, T: int, H: int, K: int) -> Running:
        """Before the first key block: after the `sink`, or with `top` between the logits and
        HIDDEN, so that hidden keys weigh exp(HIDDEN - top) = 0, even where a query sees none.
        """
        top, total = jnp.full((H, T), HIDDEN / 2), jnp.zeros((H, T))
        if (sink := pe.sink()) is not None:
            top = jnp.broadcast_to(jax.lax.stop_gradient(sink)[:, None], (H, T))
            total = jnp.exp(sink[:, None] - top)
        return cls(top, total, jnp.zeros((H, T, K)))

    def update(self, pe: Bound, queries: Queries, keys: Keys, terms: Relative) -> Running:
        """After one more key block."""
        seen = visible(pe, queries.rows.idx, keys.rows.idx)[None]
        s = masked_logits(pe, queries, keys, terms, seen)
        # The output does not depend on top. Its gradient would not come out as 0: it compares top
        # with logits that the backward pass computes anew, with other roundings.
        top = jax.lax.stop_gradient(jnp.maximum(self.top, s.max(-1)))
        w = jnp.exp(s - top[..., None])
        rescale = jnp.exp(self.top - top)
        total = self.total * rescale + w.sum(-1)
        out = self.out * rescale[..., None] + gated_sum(pe, w, queries, keys, terms)
        return Running(top, total, out)

    def output(self) -> Float[Array, "T H K"]:
        """The output after the last key block; 0 for a query that sees no key."""
        out = self.out / jnp.where(self.total > 0, self.total, 1.0)[..., None]
        return out.swapaxes(0, 1)


# By whole rows


# Each query block with all keys. In a causal model with as many queries as keys each quarter of the
# query blocks gets the keys up to its end alone, which spares 3/8 of the pairs.
def _by_whole_rows(
    pe: Bound, queries: Queries, keys: Keys, terms: Relative, block: int, T: int
) -> Float[Array, "Q T H K"]:
    S = keys.k.shape[0]
    blocks = _into_blocks(queries, block).heads_first()
    count = len(blocks.q)
    numbered = jnp.arange(count), blocks
    in_quarters = pe.causal and T == S and count >= 8
    ends = [0, *(count * part // 4 for part in (1, 2, 3) if in_quarters), count]

    def attended(begin: int, end: int):
        size = S if end == count else end * block
        some = jax.tree.map(lambda a: a[:size], keys).heads_first()

        @jax.checkpoint
        def attend_query_block(numbered):
            i, queries = numbered
            return attend_whole_rows(pe, queries, some, terms.cut(i * block, block, size))

        return jax.lax.map(attend_query_block, jax.tree.map(lambda a: a[begin:end], numbered))

    return jnp.concatenate([attended(*pair) for pair in itertools.pairwise(ends)])


# Which key blocks a query block visits, and the arrays cut accordingly
#
# A query block visits all key blocks; or, with a `reach`, those that its window overlaps (near) and
# those of the sinks (first), so that work is linear in the length. A key in both is masked among
# the first. Near blocks begin where the window of the block's first query does, not at a multiple
# of the block size: their tiles have the same distances for every query block.
#
# Near blocks of a narrow window are laid out before the loop over query blocks, as [Q, near, ...]:
# the gradient of a cut inside it would be an array of the size of all keys. Those of a wider window
# would take `near` times the memory of the keys, and are cut inside the loop.


# (own, groups): arrays [Q, ...] for a loop to slice; and a function: `groups(i, own[i])` lists one
# or two groups of tiles for query block i, each to be scanned: key blocks and the relative terms of
# their tiles, both [blocks, ...]. `queries` fill whole blocks; `keys` are neither padded nor cut.
def _visits(
    pe: Bound, queries: Rows, keys: Keys, terms: Relative, block: int
) -> tuple[Any, Callable[[Any, Any], list[tuple[Keys, Relative]]]]:
    S, Q = keys.rows.idx.shape[0], queries.idx.shape[0] // block
    # The smallest window decides which blocks are visited; the mask has all windows.
    window, sinks = min(pe.reach, key=sum, default=(S, 0))
    # As many keys as the windows of a query block's queries cover together, in whole blocks.
    near = -(-(window - 1 + block + (0 if pe.causal else window - 1)) // block)
    first = -(-sinks // block)
    if (near + first) * block >= S:
        every = _into_blocks(_pad(keys, block), block).heads_first()
        count = every.rows.idx.shape[0]
        tiles = terms.tiles(block, Q * block, count * block)
        return None, lambda i, own: [(every, _cut(tiles, Q - 1 - i, count))]

    # Where consecutive rows have index 0, which may be below 0 or beyond the end.
    idx = keys.rows.idx
    row_of_index_0 = -jnp.max(jnp.where(idx >= 0, idx - jnp.arange(S), -S))
    begin_idx = queries.idx[0] - (window - 1)
    begin_row = row_of_index_0 + begin_idx
    padded = _pad(keys, block, before=near * block, after=near * block)
    around = _cut(padded, begin_row + near * block, (Q + near - 1) * block)
    around = _into_blocks(around, block).heads_first()
    laid_out = _overlapping(around, near, Q) if near <= LAID_OUT else None
    # These positions hold where positions are consecutive; elsewhere the terms do not read them.
    near_tiles = relative_terms(
        pe,
        queries.pos[0] + jnp.arange(block),
        keys.rows.pos[0] + begin_row + jnp.arange(near * block),
        room=block,
    ).tiles(block, block, near * block)

    def near_group(i, laid_out):
        return (_cut(around, i, near) if laid_out is None else laid_out), near_tiles

    if not first:
        return laid_out, lambda i, own: [near_group(i, own)]
    size = first * block
    start = jnp.clip(row_of_index_0, 0, max(0, S - size))
    first_keys = _cut(_pad(keys, block), start, size)
    # Query block i has the tiles from Q - 1 - i on: those of the last query block come first.
    tiles = _overlapping(terms.tiles(block, Q * block, size, start), first, Q)
    first_tiles = jax.tree.map(lambda t: t[::-1], tiles)

    def groups(i, own):
        laid_out, first_tiles = own
        after_begin = first_keys.rows.idx - (begin_idx + i * block)
        is_near = (after_begin >= 0) & (after_begin < near * block)
        idx = jnp.where(is_near, ABSENT, first_keys.rows.idx)
        others = first_keys._replace(rows=first_keys.rows._replace(idx=idx))
        others = _into_blocks(others, block).heads_first()
        return [(others, first_tiles), near_group(i, laid_out)]

    return (laid_out, first_tiles), groups


# [runs, count, ...]: run i has the `count` blocks (or tiles) from number i on.
def _overlapping(tree: Any, count: int, runs: int) -> Any:
    return jax.tree.map(lambda a: jnp.stack([a[j : j + runs] for j in range(count)], axis=1), tree)


# Every array lengthened with rows of the index ABSENT: `before` and `after`, and at the end as many
# more as fill the last block.
def _pad(tokens: Tokens, block: int, before: int = 0, after: int = 0) -> Tokens:
    def lengthened(a, value=0):
        fill = -(before + a.shape[0] + after) % block
        widths = [(before, after + fill)] + [(0, 0)] * (a.ndim - 1)
        return jnp.pad(a, widths, constant_values=value)

    padded = jax.tree.map(lengthened, tokens)
    idx = lengthened(tokens.rows.idx, ABSENT)
    return padded._replace(rows=padded.rows._replace(idx=idx))


# `size` entries of every array from `start` on, which may be traced.
def _cut(tree: Any, start, size: int) -> Any:
    return jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, start, size), tree)


# Every array from [L, ...] to [L / block, block, ...].
def _into_blocks(tree: Any, block: int) -> Any:
    return jax.tree.map(lambda a: a.reshape(-1, block, *a.shape[1:]), tree)
