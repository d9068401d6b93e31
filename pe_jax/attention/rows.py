"""The inputs of attention: rows of tokens, queries and keys; and the mask.

A token has two numbers. Its index is its place in the sequence and makes the mask, nothing else.
Its position is read by encodings: it may be drawn at random, stretched or fractional, and does not
tell whether one token comes before another.

Axes: L consecutive tokens, T queries, S keys, H heads, K head size, D model size, J components of
the dot product (K, unless a `qk` hook changes it).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Num

from pe_jax.attention.bound import Bound

ABSENT = -1  # the index of a row without a token; any index below 0 means the same


class Rows(NamedTuple):
    """Indices, positions and coordinates of consecutive tokens."""

    idx: Int[Array, "L"]
    """The place in the sequence: consecutive integers, or below 0 where there is no token."""
    pos: Num[Array, "L"]
    """After every `positions` hook. Relative hooks take their distances; where these are
    consecutive integers, an offset does not matter.
    """
    coords: tuple[Any, ...]
    """For each encoding the result of `locate`, pytrees of [L, ...]."""


class Queries(NamedTuple):
    """Queries with all that their logits depend on. Products need `heads_first`."""

    q: Float[Array, "T H K"]
    """Times K^-1/2 and `scale`, before the `qk` hooks; read by `logits` and `relative_keys`."""
    rotated: Float[Array, "T H J"]
    """After the `qk` hooks, for the dot product."""
    far: Float[Array, "T H J"] | None
    """For the dot product of far pairs; None without the hook `far`."""
    rows: Rows

    def heads_first(self) -> Queries:
        """`rotated` and `far` as [..., H, T, J]: XLA's CPU would copy another layout in every tile,
        which takes as long as the product.
        """
        return self._replace(rotated=_swapped(self.rotated), far=_swapped(self.far))


class Keys(NamedTuple):
    """Keys with their values and all that their logits depend on."""

    k: Float[Array, "S H K"]
    """Before the `qk` hooks; read by `logits` and `relative_queries`."""
    rotated: Float[Array, "S H J"]
    far: Float[Array, "S H J"] | None
    v: Float[Array, "S H K"]
    rows: Rows

    def heads_first(self) -> Keys:
        """`rotated` and `far` as [..., H, S, J], `v` as [..., H, S, K]."""
        rotated, far, v = map(_swapped, (self.rotated, self.far, self.v))
        return self._replace(rotated=rotated, far=far, v=v)


def _swapped(a: Array | None) -> Array | None:
    return None if a is None else jnp.swapaxes(a, -3, -2)


def visible(pe: Bound, q_idx: Int[Array, "T"], k_idx: Int[Array, "S"]) -> Bool[Array, "T S"]:
    """The mask: keys with a token, in a causal model none after the query, and for every encoding
    with a `reach` only keys in its window or among its sinks.
    """
    return visible_pairs(pe.causal, pe.reach, q_idx[:, None], k_idx[None, :])


def visible_pairs(causal: bool, reach: Any, i: Int[Array, "..."], j: Int[Array, "..."]) -> Array:
    """`visible` for indices that broadcast to the pairs, in either order of axes."""
    seen = jnp.broadcast_to(j >= 0, jnp.broadcast_shapes(i.shape, j.shape))
    if causal:
        seen &= j <= i
    for window, sinks in reach:
        seen &= (jnp.abs(i - j) < window) | (j < sinks)
    return seen
