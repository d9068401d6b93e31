"""Relative terms: the five `relative_*` hooks, functions of the distance of a query from a key.

At consecutive integer positions T queries and S keys have T + S - 1 distances. Each hook is
evaluated once at each of them, and its table is shifted into place (`Tables`). At other positions
every pair has its own distance, and hooks are evaluated pair by pair (`Pairs`). Neither makes an
array [T, S, K].

Axes: T queries, S keys, N distances, H heads, K head size, U tiles.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from pe_jax.attention.bound import Bound
from pe_jax.attention.rows import Keys, Queries
from pe_jax.encoding import RELATIVE


def relative_terms(pe: Bound, q_pos, k_pos, room: int = 0) -> Relative:
    """Relative terms of queries and keys at these positions. `room` is the block size, if tokens
    will be cut into blocks: tables are padded for a last block that extends beyond the tokens.
    """
    return Tables.of(pe, q_pos, k_pos, room) if pe.contiguous else Pairs()


# Tables: where positions are consecutive integers


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["of_hook"], meta_fields=["first", "queries"]
)
@dataclasses.dataclass(frozen=True)
class Tables:
    """The relative hooks at all distances of T queries from S keys.

    Query t and key j have column T - 1 - t + j, so that columns run from the largest distance down.
    A table with a single column serves all pairs.
    """

    of_hook: dict[str, Any]
    """A table [H, N] or [H, N, K] for each hook that gives one."""
    first: int
    """Columns of padding before column 0. `cut` and `tiles` alone accept padding, and remove it."""
    queries: int
    """T."""

    @classmethod
    def of(cls, pe: Bound, q_pos, k_pos, room: int = 0) -> Tables:
        """Evaluates the hooks; in a causal model at the S distances of pairs that are not hidden.

        A single query gets a part of the table that all keys would have as queries: it does not
        depend on the query, so a loop that decodes token by token evaluates it once.
        """
        T, S = q_pos.shape[0], k_pos.shape[0]
        if T == 1 < S and not room:
            return cls.of(pe, k_pos, k_pos, room=1).cut(q_pos[0] - k_pos[0], 1, S)
        n = q_pos[-1] - k_pos[0] - jnp.arange(S if pe.causal else T + S - 1)
        values = {hook: pe.relative(hook, n) for hook in RELATIVE}
        tables = {hook: value for hook, value in values.items() if isinstance(value, jax.Array)}

        def pad(table):
            return jnp.pad(table, [(0, 0), (room, T + room)] + [(0, 0)] * (table.ndim - 2))

        return cls(jax.tree.map(pad, tables) if room else tables, room, T)

    def cut(self, start, queries: int, keys: int) -> Tables:
        """For `queries` queries from `start` on (may be traced) and the first `keys` keys."""
        begin = self.first + self.queries - start - queries

        def columns(table):
            return jax.lax.dynamic_slice_in_dim(table, begin, queries + keys - 1, axis=1)

        return Tables(jax.tree.map(columns, self.of_hook), 0, queries)

    def tiles(self, block: int, queries: int, keys: int, start: Any = 0) -> Tables:
        """Tables of tiles, a block of queries with a block of keys: [U, H, 2 block, ...].

        `queries` and `keys` (counted from key `start` on) fill whole blocks. With Q query blocks,
        query block i and key block j have tile Q - 1 - i + j: blocks on one diagonal have the same
        distances. A tile has one column more than it needs: with 2 block columns XLA's CPU divides
        by a power of two for each logit that it shifts into place, eight times as fast.
        """
        begin = self.first + self.queries - queries + start
        count = (queries + keys) // block - 1

        def overlapping(table):
            used = jax.lax.dynamic_slice_in_dim(table, begin, (count + 1) * block, axis=1)
            pieces = jnp.moveaxis(used.reshape(used.shape[0], -1, block, *used.shape[2:]), 1, 0)
            return jnp.concatenate([pieces[:-1], pieces[1:]], axis=2)

        return Tables(jax.tree.map(overlapping, self.of_hook), 0, block)

    def constant(self) -> Tables:
        """For a tile whose pairs all have the same values: one column."""
        at = self.queries - 1
        column = jax.tree.map(lambda table: table[:, at : at + 1], self.of_hook)
        return dataclasses.replace(self, of_hook=column)

    def scores(self, pe: Bound, queries: Queries, keys: Keys):
        """Terms of the logits, broadcastable to [H, T, S]."""
        q, k = queries.q, keys.k
        T, S, columns, out = q.shape[0], k.shape[0], 0.0, 0.0
        if "relative_keys" in self.of_hook:
            r = self.of_hook["relative_keys"].astype(q.dtype)
            columns += jnp.einsum("thk,hnk->htn", q, r, preferred_element_type=jnp.float32)
        if "relative_bias" in self.of_hook:
            columns += self.of_hook["relative_bias"][:, None]
        if isinstance(columns, jax.Array):
            out += _over_keys(columns, T, S)
        if "relative_queries" in self.of_hook:
            out += _dotted_with_keys(k, self.of_hook["relative_queries"].astype(k.dtype), T)
        return out

    def gate(self, pe: Bound, queries: Queries, keys: Keys):
        """Factors of the weights, broadcastable to [H, T, S]."""
        if "relative_gate" not in self.of_hook:
            return 1.0
        columns = self.of_hook["relative_gate"][:, None]
        return _over_keys(columns, queries.q.shape[0], keys.k.shape[0])

    def values(self, pe: Bound, w, queries: Queries, keys: Keys):
        """Terms of the output for the weights w, [H, T, K]; 0.0 without the hook."""
        if "relative_values" not in self.of_hook:
            return 0.0
        table = self.of_hook["relative_values"]
        if table.shape[1] == 1:
            return jnp.einsum("ht,hk->htk", w.sum(-1), table[:, 0])
        return jnp.einsum("htn,hnk->htk", unshift(w, table.shape[1]), table)


# [H, T or 1, N] to [H, T, S]; a single column stays as it is, to broadcast over the keys.
def _over_keys(columns, queries: int, keys: int):
    H, _, N = columns.shape
    if N == 1:
        return columns
    return shift(jnp.broadcast_to(columns, (H, queries, N)), keys)


# r'_{i-j} . k_j, with r' from the table of `relative_queries`: [H, T, S].
#
# Here rows are keys and not queries, and along the queries the columns of the table fall. `shift`
# wants them to rise, so it gets both axes reversed: row S - 1 - j and column T - 1 - t.
def _dotted_with_keys(k, table, queries: int):
    S = k.shape[0]
    if table.shape[1] == 1:
        return jnp.einsum("shk,hk->hs", k, table[:, 0], preferred_element_type=jnp.float32)[:, None]
    if queries == 1:  # a decoding step: each key meets the query at one of the S distances
        dots = jnp.einsum("shk,hsk->hs", k, table[:, :S], preferred_element_type=jnp.float32)
        return dots[:, None]
    dots = jnp.einsum("shk,hnk->hsn", k[::-1], table, preferred_element_type=jnp.float32)
    dots = jnp.pad(dots, [(0, 0), (0, 0), (0, max(0, queries + S - 1 - table.shape[1]))])
    return shift(dots, queries)[:, ::-1, ::-1].swapaxes(1, 2)


# Pairs: where positions are not consecutive integers
#
# Positions that were drawn at random, stretched or jittered give every pair a distance of its own.
# Hooks that give a vector for each pair are evaluated for one row of pairs after the other, and
# again in the backward pass: the largest array is [H, S, K] (or [H, T, K]). Integers below a known
# number, as randomized positions are, may have far fewer distances than pairs: then
# `Bound.tabulated` evaluates the hooks once at each distance, and a pair's value is looked up.


class Pairs(NamedTuple):
    """The methods of `Tables`, from the positions in the rows of queries and keys. It holds no
    array, so it serves any queries and keys as it is.
    """

    def cut(self, *_: Any) -> Pairs:
        """There is nothing to cut."""
        return self

    tiles = constant = cut

    def scores(self, pe: Bound, queries: Queries, keys: Keys):
        """As `Tables.scores`."""
        q_pos, k_pos = queries.rows.pos, keys.rows.pos
        out = self._pair_by_pair(pe, "relative_bias", queries, keys, 0.0)
        if self._is_given(pe, "relative_keys", k_pos):
            out += self._row_by_row(pe, "relative_keys", queries.q, q_pos, -k_pos).swapaxes(0, 1)
        if self._is_given(pe, "relative_queries", k_pos):
            dots = self._row_by_row(pe, "relative_queries", keys.k, -k_pos, q_pos)
            out += jnp.moveaxis(dots, 0, 2)
        return out

    def gate(self, pe: Bound, queries: Queries, keys: Keys):
        """As `Tables.gate`."""
        return self._pair_by_pair(pe, "relative_gate", queries, keys, 1.0)

    def values(self, pe: Bound, w, queries: Queries, keys: Keys):
        """As `Tables.values`."""
        hook, q_pos, k_pos = "relative_values", queries.rows.pos, keys.rows.pos
        if not self._is_given(pe, hook, k_pos):
            return 0.0

        @jax.checkpoint
        def weighted_sum_of_a_query(row):
            w, pos = row
            return jnp.einsum("hn,hnk->hk", w, pe.relative(hook, pos - k_pos))

        return jax.lax.map(weighted_sum_of_a_query, (w.swapaxes(0, 1), q_pos)).swapaxes(0, 1)

    # Whether the hook gives an array: an encoding that overrides it may still return a plain
    # number, by one of its fields.
    def _is_given(self, pe: Bound, hook: str, pos) -> bool:
        return jax.eval_shape(functools.partial(pe.relative, hook), pos).ndim > 0

    # A hook that gives a number for each pair, 2^14 at a time: [H, T, S]; `otherwise` without it.
    def _pair_by_pair(self, pe: Bound, hook: str, queries: Queries, keys: Keys, otherwise: float):
        if not self._is_given(pe, hook, keys.rows.pos):
            return otherwise
        q_pos, k_pos = queries.rows.pos, keys.rows.pos
        of_row = jax.checkpoint(lambda pos: pe.relative(hook, pos - k_pos))
        rows = jax.lax.map(of_row, q_pos, batch_size=max(1, 2**14 // len(k_pos)))
        return jnp.swapaxes(rows, 0, 1)

    # The dot products of each row of x, [R, H, K], with a hook's vectors at the distances pos +
    # others, where `pos` [R] has the row's own: [R, H, len(others)].
    def _row_by_row(self, pe: Bound, hook: str, x, pos, others):
        @jax.checkpoint
        def dots_of_a_row(row):
            x, pos = row
            r = pe.relative(hook, pos + others)
            return jnp.einsum("hk,hnk->hn", x.astype(jnp.float32), r)

        return jax.lax.map(dots_of_a_row, (x, pos))


Relative = Tables | Pairs


# The shifts of `Tables`: from distances to keys, and back


def shift(a: Array, keys: int) -> Array:
    """From distances to keys: out[..., t, j] = a[..., t, T - 1 - t + j], [..., T, keys].

    `a` is [..., T, N] as in `Tables`, N = T + keys - 1, or N = keys if keys after a query are
    hidden. It pads and reshapes, since the gradient of a gather is a scatter.
    """
    *lead, queries, width = a.shape
    if width <= keys:
        a = jnp.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, keys + 1 - width)])
        width = keys + 1
    flat = a.reshape(*lead, queries * width)[..., queries - 1 :][..., : queries * (width - 1)]
    return flat.reshape(*lead, queries, width - 1)[..., :keys]


def unshift(w: Array, width: int) -> Array:
    """Transposed `shift`: [..., T, S] to [..., T, width]; entries without a column must be 0."""
    *lead, queries, keys = w.shape
    full = max(width, keys + 1)
    padded = jnp.pad(w, [(0, 0)] * (w.ndim - 1) + [(0, full - 1 - keys)])
    flat = padded.reshape(*lead, queries * (full - 1))
    flat = jnp.pad(flat, [(0, 0)] * len(lead) + [(queries - 1, 1)])
    return flat.reshape(*lead, queries, full)[..., :width]
