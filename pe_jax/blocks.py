"""Sequences cut into blocks, and which blocks of keys a block of queries meets.

All of them; or, where an encoding's `reach` says that a query sees the last W keys and the first
sinks, those blocks alone: ceil((W - 1 + block) / block) that begin W - 1 keys before the block's
first query (with as many after it if the model sees both ways), and those of the sinks. Time is
then O(L W). Where a block overlaps what others have brought, its keys are not there: no key is
met twice.

What a block of queries meets by itself is laid out before the loop over these blocks: cut out of
the keys inside it, it would get a gradient of the size of all keys.

Axes: Q blocks of queries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from pe_jax.bound import Bound
from pe_jax.relative import Rows, Tables

Keys = tuple[Any, Any, Any, Rows]  # k before and after `qk`, v, and what else is known of them


def meetings(
    pe: Bound, keys: Keys, queries: Rows, tables: Tables, block: int
) -> tuple[Any, Callable]:
    """What each block of queries has of its own, [Q, ...], and `met(i, own)`: the blocks of keys
    that block i meets, in one or more groups.

    A group is what `jax.lax.scan` goes through: (keys, tiles of the relative terms), [blocks, ...].
    `queries` fill whole blocks; `tables` are of all queries and keys.
    """
    window, sinks = min(pe.reach, key=sum, default=(keys[3].idx.shape[0], 0))
    near = -(-(window - 1 + block + (0 if pe.causal else window - 1)) // block)
    first = -(-sinks // block)
    if (near + first) * block < keys[3].idx.shape[0]:
        return _within(keys, queries, tables, block, window, near, first)
    return _all(keys, queries, tables, block)


def _all(keys: Keys, queries: Rows, tables: Tables, block: int):
    keys = cut(pad(keys, block), block)
    Q, count = queries.idx.shape[0] // block, keys[3].idx.shape[0]
    tiles = tables.tiles(block, Q * block, count * block)

    def met(i, own):
        along = jax.tree.map(lambda t: jax.lax.dynamic_slice_in_dim(t, Q - 1 - i, count), tiles)
        return [(keys, along)]

    return None, met


def _within(
    keys: Keys, queries: Rows, tables: Tables, block: int, window: int, near: int, first: int
):
    """Of `near` blocks around each block of queries and the `first` ones."""
    rows, Q = keys[3], queries.idx.shape[0] // block
    S = rows.idx.shape[0]
    # The row that index 0 has, or would have.
    zero = -jnp.max(jnp.where(rows.idx >= 0, rows.idx - jnp.arange(S), -S))
    earliest = queries.idx[0] - (window - 1)  # the first near key, by its index and by its row
    begin = zero + earliest

    around = jax.tree.map(
        lambda a: jax.lax.dynamic_slice_in_dim(a, begin + near * block, (Q + near - 1) * block),
        pad(keys, block, before=near * block, after=near * block),
    )
    own = _overlapping(cut(around, block), near, Q)
    # One set of tiles serves every block of queries: the distances are the same.
    tiles = Tables.of(
        tables.pe,
        queries.pos[0] + jnp.arange(block),
        rows.pos[0] + begin + jnp.arange(near * block),
        room=block,
    ).tiles(block, block, near * block)
    if not first:
        return own, lambda i, own: [(own, tiles)]

    size = first * block
    start = jnp.clip(zero, 0, max(0, S - size))
    sinks = jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, start, size), pad(keys, block))
    far = tables.tiles(block, Q * block, size, start)
    # Block i of the queries meets block j of these in tile Q - 1 - i + j.
    far = jax.tree.map(lambda t: t[::-1], _overlapping(far, first, Q))

    def met(i, own):
        own, far = own
        ahead = sinks[3].idx - (earliest + i * block)
        idx = jnp.where((ahead >= 0) & (ahead < near * block), -1, sinks[3].idx)  # met as near ones
        return [(cut((*sinks[:3], sinks[3]._replace(idx=idx)), block), far), (own, tiles)]

    return (own, far), met


def _overlapping(tree: Any, count: int, runs: int) -> Any:
    """[runs, count, ...]: the `count` blocks from each of the first `runs` on."""
    return jax.tree.map(lambda a: jnp.stack([a[j : j + runs] for j in range(count)], axis=1), tree)


def pad(tree: Any, block: int, before: int = 0, after: int = 0) -> Any:
    """Every array lengthened by `before`, `after` and to a multiple of `block`; the new rows are
    of index -1.
    """

    def one(a, value=0):
        widths = [(before, after - (before + a.shape[0] + after) % -block)]
        return jnp.pad(a, widths + [(0, 0)] * (a.ndim - 1), constant_values=value)

    def is_rows(node):
        return isinstance(node, Rows)

    def part(node):
        if is_rows(node):
            return jax.tree.map(one, node)._replace(idx=one(node.idx, -1))
        return one(node)

    return jax.tree.map(part, tree, is_leaf=is_rows)


def cut(tree: Any, block: int) -> Any:
    """[L, ...] -> [L / block, block, ...]."""
    return jax.tree.map(lambda a: a.reshape(-1, block, *a.shape[1:]), tree)
