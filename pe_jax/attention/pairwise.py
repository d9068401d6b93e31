"""The relative terms where positions are not consecutive integers: hooks evaluated pair by pair.

Positions that were drawn at random, stretched or jittered give every pair a distance of its own. So
the hooks cannot be evaluated once for each distance, as relative.py does. Hooks that give a vector
for each pair are evaluated for one row of pairs after the other, and again in the backward pass:
the largest array is [H, S, K] (or [H, T, K]), never [T, S, K]. Integers below a known number, as
randomized positions are, may have far fewer distances than pairs: then `Bound.tabulated` evaluates
the hooks once at each distance, and the value of a pair is looked up.

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
    """The relative terms from the positions in the rows of the queries and keys that are given.

    It has the methods of `relative.Tables`, which keeps an array of values and must cut it to the
    queries and keys at hand. This keeps no array (as a pytree it has no leaves), so it serves any
    queries and keys as it is, and the first three methods have nothing to cut.
    """

    def cut(self, start, queries: int, keys: int) -> Pairs:
        """The terms of a range of queries."""
        return self

    def tiles(self, block: int, queries: int, keys: int, start: Any = 0) -> Pairs:
        """The terms of each pair of blocks."""
        return self

    def constant(self) -> Pairs:
        """The terms of a block of pairs that all have the same."""
        return self

    def scores(self, pe: Bound, queries: Queries, keys: Keys):
        """What is added to the logits: [H, T, S], or what broadcasts to it."""
        q_pos, k_pos = queries.rows.pos, keys.rows.pos
        out = 0.0
        if self._is_given(pe, "relative_bias", k_pos):
            out = self._of_pairs(pe, "relative_bias", q_pos, k_pos)
        if self._is_given(pe, "relative_keys", k_pos):
            dots = self._row_by_row(pe, "relative_keys", queries.q, q_pos, -k_pos)
            out = out + dots.swapaxes(0, 1)
        if self._is_given(pe, "relative_queries", k_pos):
            dots = self._row_by_row(pe, "relative_queries", keys.k, -k_pos, q_pos)
            out = out + jnp.moveaxis(dots, 0, 2)
        return out

    def gate(self, pe: Bound, queries: Queries, keys: Keys):
        """What multiplies the weights: [H, T, S], or 1.0."""
        q_pos, k_pos = queries.rows.pos, keys.rows.pos
        if not self._is_given(pe, "relative_gate", k_pos):
            return 1.0
        return self._of_pairs(pe, "relative_gate", q_pos, k_pos)

    def values(self, pe: Bound, w, queries: Queries, keys: Keys):
        """What is added to the output for the weights w: [H, T, K], or 0.0."""
        hook, q_pos, k_pos = "relative_values", queries.rows.pos, keys.rows.pos
        if not self._is_given(pe, hook, k_pos):
            return 0.0

        @jax.checkpoint
        def weighted_sum_of_a_query(row):
            w, pos = row
            return jnp.einsum("hn,hnk->hk", w, pe.relative(hook, pos - k_pos))

        return jax.lax.map(weighted_sum_of_a_query, (w.swapaxes(0, 1), q_pos)).swapaxes(0, 1)

    def _is_given(self, pe: Bound, hook: str, pos) -> bool:
        """Whether the hook gives an array: an encoding that overrides it may still return a plain
        number, by one of its fields.
        """
        return jax.eval_shape(functools.partial(pe.relative, hook), pos).ndim > 0

    def _of_pairs(self, pe: Bound, hook: str, q_pos, k_pos):
        """A hook that gives a number for each pair: [H, T, S]."""
        n = q_pos[:, None] - k_pos[None, :]
        return jnp.reshape(pe.relative(hook, n.ravel()), (-1, *n.shape))

    def _row_by_row(self, pe: Bound, hook: str, x, pos, others):
        """The dot products of each row of x, [R, H, K], with a hook's vectors at the distances
        pos + others, where `pos` [R] has the row's own: [R, H, len(others)].
        """

        @jax.checkpoint
        def dots_of_a_row(row):
            x, pos = row
            r = pe.relative(hook, pos + others)
            return jnp.einsum("hk,hnk->hn", x.astype(jnp.float32), r)

        return jax.lax.map(dots_of_a_row, (x, pos))
