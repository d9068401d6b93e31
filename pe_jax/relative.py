"""Relative terms: functions of the distance, evaluated once where they can be, laid out over pairs.

With contiguous positions the `relative_*` hooks are evaluated at the distances that occur and
shifted into place; with others pair by pair, a few queries at a time. No tensor [T, S, K] is ever
made.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Num

from pe_jax.bound import Bound
from pe_jax.geometry import shift, unshift


class Rows(NamedTuple):
    """What attention knows of a run of tokens, besides their vectors."""

    idx: Int[Array, "L"]
    """Place in the sequence, consecutive; it makes the mask. -1: not there."""
    pos: Num[Array, "L"]
    """Positions after every `positions` hook."""
    coords: tuple[Any, ...]
    """For each encoding, what its `locate` made of them."""

    def take(self, start, size: int) -> Rows:
        return jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, start, size), self)


class Tables(NamedTuple):
    """The relative hooks' values: at every distance that occurs (contiguous), else asked for pair
    by pair.

    Column c of a table holds distance n_max - c; n_max is the distance of the last query from the
    first key.
    """

    pe: Bound
    bias: Any  # [H, N]; no array: there is none
    keys: Any  # [H, N, K]
    vals: Any
    first: int  # the column at which they begin: `cut` may overhang both ends
    queries: int

    @classmethod
    def of(cls, pe: Bound, q_pos, k_pos, room: int = 0) -> Tables:
        """`room`: columns of padding for blocks that overhang, in padded rows and in the hidden
        future.

        One query's columns are cut from those of all the keys, which no query changes: a loop over
        tokens evaluates them once.
        """
        if not pe.contiguous:
            return cls(pe, 0.0, 0.0, 0.0, 0, 0)
        T, S = q_pos.shape[0], k_pos.shape[0]
        if T == 1 < S and not room:
            return cls.of(pe, k_pos, k_pos, room=1).cut(q_pos[0] - k_pos[0], 1, S)
        n = q_pos[-1] - k_pos[0] - jnp.arange(S if pe.causal else T + S - 1)

        def table(hook):
            values = pe.relative(hook, n)
            if not room or not isinstance(values, jax.Array):
                return values
            return jnp.pad(values, [(0, 0), (room, T + room)] + [(0, 0)] * (values.ndim - 2))

        bias, keys, values = map(table, ("relative_bias", "relative_keys", "relative_values"))
        return cls(pe, bias, keys, values, room, T)

    def cut(self, start, queries: int, keys: int) -> Tables:
        """The columns of a block of queries from `start` (traced or not) and of all keys."""
        begin = self.first + self.queries - start - queries

        def part(table):
            if not isinstance(table, jax.Array):
                return table
            return jax.lax.dynamic_slice_in_dim(table, begin, queries + keys - 1, axis=1)

        return Tables(self.pe, part(self.bias), part(self.keys), part(self.vals), 0, queries)

    def tiles(self, block: int, queries: int, keys: int, start: Any = 0) -> tuple[Any, Any, Any]:
        """The columns of each pair of blocks: [U, H, 2 block, ...], or None.

        Block i of the Q blocks of queries meets block j of keys, counted from key `start` on, in
        tile Q - 1 - i + j. The last column of a tile serves no pair: with it XLA's CPU divides by
        a power of two for each logit that it shifts into place, which is eight times as fast.
        """
        begin = self.first + self.queries - queries + start
        count = (queries + keys) // block - 1

        def overlapping(table):
            if not isinstance(table, jax.Array):
                return None
            used = jax.lax.dynamic_slice_in_dim(table, begin, (count + 1) * block, axis=1)
            pieces = jnp.moveaxis(used.reshape(used.shape[0], -1, block, *used.shape[2:]), 1, 0)
            return jnp.concatenate([pieces[:-1], pieces[1:]], axis=2)

        return overlapping(self.bias), overlapping(self.keys), overlapping(self.vals)

    def scores(self, q, queries: Rows, keys: Rows):
        """q_i . r_{i-j} + b_{i-j}: [H, T, S], or 0.0."""
        if not self.pe.contiguous:
            return self._pairwise_scores(q, queries, keys)
        columns = 0.0
        if isinstance(self.keys, jax.Array):
            r = self.keys.astype(q.dtype)
            columns += jnp.einsum("thk,hnk->htn", q, r, preferred_element_type=jnp.float32)
        if isinstance(self.bias, jax.Array):
            columns += self.bias[:, None]
        if not isinstance(columns, jax.Array):
            return 0.0
        H, _, N = columns.shape
        return shift(jnp.broadcast_to(columns, (H, q.shape[0], N)), keys.idx.shape[0])

    def values(self, w, queries: Rows, keys: Rows):
        """sum_j w_ij r_{i-j}: [T, H, K], or 0.0."""
        if not self.pe.contiguous:
            return self._pairwise_values(w, queries, keys)
        if not isinstance(self.vals, jax.Array):
            return 0.0
        return jnp.einsum("htn,hnk->thk", unshift(w, self.vals.shape[1]), self.vals)

    def _pairwise_scores(self, q, queries: Rows, keys: Rows):
        pe, H = self.pe, q.shape[1]
        out = 0.0
        if pe.has("relative_bias"):
            n = queries.pos[:, None] - keys.pos[None, :]
            out = out + jnp.reshape(pe.relative("relative_bias", n.ravel()), (H, *n.shape))
        if pe.has("relative_keys"):

            @jax.checkpoint
            def one(row):
                q, pos = row
                r = pe.relative("relative_keys", pos - keys.pos)
                return jnp.einsum("hk,hnk->hn", q.astype(jnp.float32), r)

            out = out + jax.lax.map(one, (q, queries.pos)).swapaxes(0, 1)
        return out

    def _pairwise_values(self, w, queries: Rows, keys: Rows):
        if not self.pe.has("relative_values"):
            return 0.0

        @jax.checkpoint
        def one(row):
            w, pos = row
            return jnp.einsum("hn,hnk->hk", w, self.pe.relative("relative_values", pos - keys.pos))

        return jax.lax.map(one, (w.swapaxes(0, 1), queries.pos))
