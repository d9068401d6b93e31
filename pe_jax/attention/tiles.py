"""Which key blocks a query block visits in blockwise attention, and the arrays cut accordingly.

Queries and keys are padded and cut into blocks of equal size. The pairs of one query block and one
key block are a tile. A query block visits all key blocks; or, where an encoding has a `reach`,
those that its window overlaps (near), and those of the sinks (first). A key that is in both is
masked among the first ones. The work is then linear in the length.

Where a window overlaps few key blocks, those of every query block are laid out before the loop over
query blocks, as [Q, near, ...], so a key is there several times. Were they cut out of all keys
inside the loop, the gradient of every cut would be an array of the size of all keys, zero but for a
few blocks. Those of a wider window are cut out inside the loop all the same: laid out they would
take `near` times the memory of the keys, and their tiles take longer than the gradients of cuts.

Axes: Q query blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from pe_jax.attention.bound import Bound
from pe_jax.attention.relative import Relative, relative_terms
from pe_jax.attention.rows import ABSENT, Keys, Queries, Rows

Tokens = TypeVar("Tokens", Queries, Keys)
EMPTY, NEAR, FAR = 0, 1, 2  # the kinds of tiles, see `tile_kind`
LAID_OUT = 4  # near key blocks that are laid out for every query block, at most


def tile_kind(pe: Bound, q_idx: Int[Array, "T"], k_idx: Int[Array, "S"]) -> Int[Array, ""]:
    """EMPTY: the mask hides every pair. FAR: every pair is so far apart that the relative hooks are
    constant, by `Bound.constant_from`. NEAR: any other.

    It looks at the first and the last index of the blocks alone, so a tile whose pairs are all
    hidden may come out as NEAR or FAR.
    """
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


def visits(
    pe: Bound, queries: Rows, keys: Keys, terms: Relative, block: int
) -> tuple[Any, Callable[[Any, Any], list[tuple[Keys, Relative]]]]:
    """(own, groups): arrays [Q, ...] that differ between query blocks, for a loop to slice; and a
    function that gives the tiles of one query block.

    `groups(i, own[i])` lists one or two groups of tiles for query block i, each to be scanned: key
    blocks and the relative terms of their tiles, both [blocks, ...]. `queries` must fill whole
    blocks; `keys` are neither padded nor cut; `terms` are of all queries and keys.
    """
    S = keys.rows.idx.shape[0]
    # Of several windows the smallest decides what is visited; the mask has them all.
    window, sinks = min(pe.reach, key=sum, default=(S, 0))
    # As many keys as the windows of a query block's queries cover together, in whole blocks.
    near = -(-(window - 1 + block + (0 if pe.causal else window - 1)) // block)
    first = -(-sinks // block)
    if (near + first) * block < S:
        return _near_and_first(pe, queries, keys, terms, block, window, near, first)
    return _all(queries, keys, terms, block)


def _all(queries: Rows, keys: Keys, terms: Relative, block: int):
    """`visits` of all key blocks, which every query block shares."""
    keys = into_blocks(pad(keys, block), block).heads_first()
    Q, count = queries.idx.shape[0] // block, keys.rows.idx.shape[0]
    tiles = terms.tiles(block, Q * block, count * block)

    def groups(i, own):
        along = jax.tree.map(lambda t: jax.lax.dynamic_slice_in_dim(t, Q - 1 - i, count), tiles)
        return [(keys, along)]

    return None, groups


def _near_and_first(
    pe: Bound,
    queries: Rows,
    keys: Keys,
    terms: Relative,
    block: int,
    window: int,
    near: int,
    first: int,
):
    """`visits` of the `near` key blocks from where a query block's window begins, and of the
    `first` key blocks of the sequence.

    The near blocks begin where the window of the query block's first query does, not at a multiple
    of the block size. So their tiles have the same distances for every query block, and the terms
    of the first query block serve all.
    """
    Q = queries.idx.shape[0] // block
    row_of_index_0 = _row_of_index_0(keys.rows.idx)
    begin_idx = queries.idx[0] - (window - 1)
    begin_row = row_of_index_0 + begin_idx
    laid_out, near_keys = _near_blocks(keys, begin_row, near, Q, block)

    # These positions hold where positions are consecutive; elsewhere the terms do not read them.
    near_tiles = relative_terms(
        pe,
        queries.pos[0] + jnp.arange(block),
        keys.rows.pos[0] + begin_row + jnp.arange(near * block),
        room=block,
    ).tiles(block, block, near * block)
    if not first:
        return laid_out, lambda i, own: [(near_keys(i, own), near_tiles)]
    first_keys, first_tiles = _first_keys(keys, row_of_index_0, terms, first, Q, block)

    def groups(i, own):
        laid_out, first_tiles = own
        after_begin = first_keys.rows.idx - (begin_idx + i * block)
        is_near = (after_begin >= 0) & (after_begin < near * block)
        idx = jnp.where(is_near, ABSENT, first_keys.rows.idx)
        others = first_keys._replace(rows=first_keys.rows._replace(idx=idx))
        others = into_blocks(others, block).heads_first()
        return [(others, first_tiles), (near_keys(i, laid_out), near_tiles)]

    return (laid_out, first_tiles), groups


def _row_of_index_0(idx: Int[Array, "S"]) -> Int[Array, ""]:
    """The row that has index 0. If none has, it is the row where consecutive rows would have it,
    which may be below 0 or beyond the end.
    """
    S = idx.shape[0]
    return -jnp.max(jnp.where(idx >= 0, idx - jnp.arange(S), -S))


def _near_blocks(keys: Keys, begin, near: int, Q: int, block: int):
    """(own, near_keys): `near_keys(i, own[i])` are the `near` key blocks from where the window of
    query block i begins; that of the first query block begins at row `begin`. Rows before the first
    key or after the last have the index ABSENT.

    A few blocks are laid out for every query block: `own` is [Q, near, block, ...]. Many would take
    several times the memory of the keys: `own` is None, and `near_keys` cuts them out.
    """
    around = jax.tree.map(
        lambda a: jax.lax.dynamic_slice_in_dim(a, begin + near * block, (Q + near - 1) * block),
        pad(keys, block, before=near * block, after=near * block),
    )
    around = into_blocks(around, block).heads_first()
    if near <= LAID_OUT:
        return _overlapping(around, near, Q), lambda i, own: own
    return None, lambda i, own: jax.tree.map(
        lambda a: jax.lax.dynamic_slice_in_dim(a, i, near), around
    )


def _first_keys(keys: Keys, row_of_index_0, terms: Relative, first: int, Q: int, block: int):
    """The keys from index 0 on that fill `first` blocks, [first * block, ...]; and their tiles for
    each query block, [Q, first, ...].
    """
    size = first * block
    start = jnp.clip(row_of_index_0, 0, max(0, keys.rows.idx.shape[0] - size))
    first_keys = jax.tree.map(
        lambda a: jax.lax.dynamic_slice_in_dim(a, start, size), pad(keys, block)
    )
    tiles = terms.tiles(block, Q * block, size, start)
    # Query block i has tiles Q - 1 - i on: those of the last query block come first.
    return first_keys, jax.tree.map(lambda t: t[::-1], _overlapping(tiles, first, Q))


def _overlapping(tree: Any, count: int, runs: int) -> Any:
    """[runs, count, ...]: run i has the `count` blocks (or tiles) from number i on."""
    return jax.tree.map(lambda a: jnp.stack([a[j : j + runs] for j in range(count)], axis=1), tree)


def pad(tokens: Tokens, block: int, before: int = 0, after: int = 0) -> Tokens:
    """Every array lengthened with rows of the index ABSENT: `before` and `after`, and at the end as
    many more as fill the last block.
    """

    def lengthened(a, value=0):
        fill = -(before + a.shape[0] + after) % block
        widths = [(before, after + fill)] + [(0, 0)] * (a.ndim - 1)
        return jnp.pad(a, widths, constant_values=value)

    padded = jax.tree.map(lengthened, tokens)
    idx = lengthened(tokens.rows.idx, ABSENT)
    return padded._replace(rows=padded.rows._replace(idx=idx))


def into_blocks(tree: Any, block: int) -> Any:
    """Every array from [L, ...] to [L / block, block, ...]."""
    return jax.tree.map(lambda a: a.reshape(-1, block, *a.shape[1:]), tree)
