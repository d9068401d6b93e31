"""Blockwise attention, in memory linear in the length: the formulas of the package (`__init__.py`)
for a tile at a time, the pairs of a block of queries and a block of keys.

The softmax is computed online (Milakov & Gimelshein, 2018, arXiv:1805.02867). A query block goes
through its key blocks, and of those met so far it keeps three quantities for each query and head:

    top    the largest logit
    total  sum_j exp(s_ij - top)
    out    sum_j exp(s_ij - top) gate_ij c_{i-j} (v_j + r^V_{i-j})

Where a key block raises `top`, what was summed before is first multiplied by
exp(old top - new top). In the end out / total is the output. The gates are not in `total`, since
they multiply weights that are already normalised.

The loop over query blocks and the loop over key blocks are checkpointed. For the backward pass the
first keeps the inputs of each query block, the second the three quantities before each key block.

With an encoding that needs whole rows (`Bound.whole_rows`) only the queries are cut into blocks,
and each query block gets all its keys at once.

Axes: T queries, S keys, H heads, K head size, Q query blocks.
"""

from __future__ import annotations

import functools
import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from pe_jax.attention.bound import Bound
from pe_jax.attention.dense import attend_whole_rows, gated_sum, masked_logits, prepare
from pe_jax.attention.relative import Relative, relative_terms
from pe_jax.attention.rows import Keys, Queries, Rows, visible
from pe_jax.attention.tiles import into_blocks, pad, tile_kind, visits
from pe_jax.encoding import HIDDEN


def attend_blockwise(
    pe: Bound,
    q: Float[Array, "T H K"],
    k: Float[Array, "S H K"],
    v: Float[Array, "S H K"],
    queries: Rows,
    keys: Rows,
    block: int = 128,
) -> Float[Array, "T H K"]:
    """What `dense.attend` computes, in memory O(T + S), gradients included; in memory O(block S)
    with an encoding that needs whole rows.

    `block` is the number of tokens in a query block and in a key block. Tiles that the mask hides
    are skipped, and with a window W a query looks at O(W) keys only. The indices of queries must be
    among those of the keys, in bidirectional models too.
    """
    T = q.shape[0]
    terms = relative_terms(pe, queries.pos, keys.pos, room=block)
    all_queries, all_keys = prepare(pe, q, k, v, queries, keys)
    all_queries = pad(all_queries, block)
    if pe.whole_rows:
        out = _by_whole_rows(pe, all_queries, all_keys, terms, block, T)
    else:
        out = _by_tiles(pe, all_queries, all_keys, terms, block)
    return out.reshape(-1, *out.shape[2:])[:T].astype(v.dtype)


class Running(NamedTuple):
    """What the online softmax keeps of the keys that a query block has visited."""

    top: Float[Array, "H T"]
    total: Float[Array, "H T"]
    out: Float[Array, "H T K"]

    @classmethod
    def start(cls, T: int, H: int, K: int) -> Running:
        """Before the first key block. `top` is between the logits and HIDDEN, so that keys which a
        query does not see weigh exp(HIDDEN - top) = 0, even where it sees none.
        """
        return cls(jnp.full((H, T), HIDDEN / 2), jnp.zeros((H, T)), jnp.zeros((H, T, K)))

    def update(self, pe: Bound, queries: Queries, keys: Keys, terms: Relative) -> Running:
        """After one more key block."""
        seen = visible(pe, queries.rows.idx, keys.rows.idx)[None]
        s = masked_logits(pe, queries, keys, terms, seen)
        # The output does not depend on top, so its gradient is 0. Computed, it would not come out
        # as 0: the gradient of a maximum compares it with logits that the backward pass computes
        # anew, with other roundings.
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


def _by_tiles(
    pe: Bound, queries: Queries, keys: Keys, terms: Relative, block: int
) -> Float[Array, "Q T H K"]:
    """Each query block along the key blocks that it visits, with the online softmax."""
    own, groups = visits(pe, queries.rows, keys, terms, block)
    blocks = into_blocks(queries, block).heads_first()

    @jax.checkpoint
    def attend_query_block(numbered_and_own):
        (i, queries), own = numbered_and_own
        return _along_key_blocks(pe, queries, groups(i, own))

    return jax.lax.map(attend_query_block, ((jnp.arange(len(blocks.q)), blocks), own))


def _along_key_blocks(pe: Bound, queries: Queries, groups) -> Float[Array, "T H K"]:
    """The output of one query block from the `groups` of tiles that it visits (`tiles.visits`).

    Each tile takes the branch of its kind. In a far one all pairs have the same relative terms:
    instead of a vector for each distance, shifted into place, one serves the whole tile.

    The arguments of a branch are kept for the backward pass at every step. So a branch gets the
    keys and terms of its tile alone, and does not cut them from those of all tiles.
    """

    def empty(running, tile):
        return running

    def near(running, tile):
        keys, terms = tile
        return running.update(pe, queries, keys, terms)

    def far(running, tile):
        keys, terms = tile
        return running.update(pe, queries, keys, terms.constant())

    branches = [empty, jax.checkpoint(near)]  # in the order of EMPTY, NEAR, FAR
    if pe.constant_from is not None:
        branches.append(jax.checkpoint(far))

    def step(running, tile):
        keys, _ = tile
        kind = tile_kind(pe, queries.rows.idx, keys.rows.idx)
        return jax.lax.switch(kind, branches, running, tile), None

    running = Running.start(*queries.q.shape)
    for tiles in groups:
        running, _ = jax.lax.scan(step, running, tiles)
    return running.output()


def _by_whole_rows(
    pe: Bound, queries: Queries, keys: Keys, terms: Relative, block: int, T: int
) -> Float[Array, "Q T H K"]:
    """Each query block with all keys at once. In a causal model with as many queries as keys the
    query blocks of each quarter of the sequence get the keys up to the end of that quarter alone,
    which spares 3/8 of the pairs.
    """
    S = keys.k.shape[0]
    blocks = into_blocks(queries, block).heads_first()
    count = len(blocks.q)
    numbered = jnp.arange(count), blocks
    in_quarters = pe.causal and T == S and count >= 8
    ends = [0, *(count * part // 4 for part in (1, 2, 3) if in_quarters), count]
    outs = []
    for begin, end in itertools.pairwise(ends):
        size = S if end == count else end * block
        attend_query_block = functools.partial(
            _with_keys, pe, jax.tree.map(lambda a, size=size: a[:size], keys).heads_first(), terms
        )
        part = jax.tree.map(lambda a, begin=begin, end=end: a[begin:end], numbered)
        outs.append(jax.lax.map(jax.checkpoint(attend_query_block), part))
    return jnp.concatenate(outs)


def _with_keys(pe: Bound, keys: Keys, terms: Relative, numbered) -> Float[Array, "T H K"]:
    """The output of a query block, given with its number, that gets all of `keys` at once."""
    i, queries = numbered
    block, S = queries.q.shape[0], keys.k.shape[0]
    return attend_whole_rows(pe, queries, keys, terms.cut(i * block, block, S))
