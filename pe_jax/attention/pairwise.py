"""Relative terms where positions are not consecutive integers: each pair is asked for by itself.

Positions that were drawn at random, stretched or jittered give every pair a distance of its own, so
there is no table to look into, and nothing to cut into blocks. The hooks that give a vector a pair
are asked for one row of pairs after the other, and again in the backward pass, so that the largest
array is [H, S, K] (or [H, T, K]) and never [T, S, K].

Axes: T queries, S keys, N distances, H heads, K head size.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from pe_jax.attention.bound import Bound
from pe_jax.attention.rows import Keys, Queries


class Pairs(NamedTuple):
    """The relative terms by the methods of `relative.Tables`, with the same results.

    It holds nothing, since the positions of any queries and keys are in their rows; so the terms
    of a part of them, or of all tiles, are this again.
    """

    def cut(self, start, queries: int, keys: int) -> Pairs:
        return self

    def tiles(self, block: int, queries: int, keys: int, start: Any = 0) -> Pairs:
        return self

    def constant(self) -> Pairs:
        return self

    def scores(self, pe: Bound, queries: Queries, keys: Keys):
        """What is added to the logits: [H, T, S], or what broadcasts to it."""
        q_pos, k_pos = queries.rows.pos, keys.rows.pos
        out = self._of_pairs(pe, "relative_bias", q_pos, k_pos) if pe.has("relative_bias") else 0.0
        if pe.has("relative_keys"):
            dots = self._row_by_row(pe, "relative_keys", queries.q, q_pos, -k_pos)
            out = out + dots.swapaxes(0, 1)
        if pe.has("relative_queries"):
            dots = self._row_by_row(pe, "relative_queries", keys.k, -k_pos, q_pos)
            out = out + jnp.moveaxis(dots, 0, 2)
        return out

    def gate(self, pe: Bound, queries: Queries, keys: Keys):
        """What multiplies the weights: [H, T, S], or 1.0."""
        if not pe.has("relative_gate"):
            return 1.0
        return self._of_pairs(pe, "relative_gate", queries.rows.pos, keys.rows.pos)

    def values(self, pe: Bound, w, queries: Queries, keys: Keys):
        """What is added to the output for the weights w: [T, H, K], or 0.0."""
        hook, q_pos, k_pos = "relative_values", queries.rows.pos, keys.rows.pos
        # An encoding may override the hook and have no vectors all the same, by one of its fields.
        if not jax.eval_shape(functools.partial(pe.relative, hook), k_pos).ndim:
            return 0.0

        @jax.checkpoint
        def weighted_sum_of_a_query(row):
            w, pos = row
            return jnp.einsum("hn,hnk->hk", w, pe.relative(hook, pos - k_pos))

        return jax.lax.map(weighted_sum_of_a_query, (w.swapaxes(0, 1), q_pos))

    def _of_pairs(self, pe: Bound, hook: str, q_pos, k_pos):
        """A hook that gives a number a pair: [H, T, S]."""
        n = q_pos[:, None] - k_pos[None, :]
        return jnp.reshape(pe.relative(hook, n.ravel()), (-1, *n.shape))

    def _row_by_row(self, pe: Bound, hook: str, x, pos, others):
        """x_i . r, with r at the distances pos_i + others: [rows of x, H, others]."""

        @jax.checkpoint
        def dots_of_a_row(row):
            x, pos = row
            r = pe.relative(hook, pos + others)
            return jnp.einsum("hk,hnk->hn", x.astype(jnp.float32), r)

        return jax.lax.map(dots_of_a_row, (x, pos))
