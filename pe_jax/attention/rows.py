"""What attention knows of a run of tokens, and which queries see which keys.

Two numbers are kept for each token, and they must not be confused. The index is its place in the
sequence: it makes the mask, and nothing else. The position is what encodings read: it may be drawn
at random, stretched or fractional, and need not tell whether one token comes before another.

Axes: L a run of tokens, T queries, S keys, H heads, K head size, D model size, J components of the
dot product, which `qk` may make more than K.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Num

from pe_jax.attention.bound import Bound

ABSENT = -1  # the index of a row that only fills up a block; any index below 0 means the same


class Rows(NamedTuple):
    """What attention knows of a run of tokens, besides their vectors."""

    idx: Int[Array, "L"]
    """The place in the sequence. Rows follow each other in it: consecutive integers, or below 0
    where there is no token.
    """
    pos: Num[Array, "L"]
    """The position, after every `positions` hook."""
    coords: tuple[Any, ...]
    """For each encoding, what its `locate` returned: pytrees of [L, ...]."""

    def take(self, start, size: int) -> Rows:
        """`size` rows from `start` on, which may be traced."""
        return jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, start, size), self)


class Queries(NamedTuple):
    """Queries with all that their logits depend on."""

    q: Float[Array, "T H K"]
    """Scaled, as before the `qk` hooks: what `logits` and `relative_keys` see."""
    rotated: Float[Array, "T H J"]
    """As after the `qk` hooks, of which most rotate: what the dot product takes."""
    rows: Rows


class Keys(NamedTuple):
    """Keys with their values and all that their logits depend on."""

    k: Float[Array, "S H K"]
    """As before the `qk` hooks: what `logits` and `relative_queries` see."""
    rotated: Float[Array, "S H J"]
    """As after the `qk` hooks: what the dot product takes."""
    v: Float[Array, "S H K"]
    rows: Rows


def rows(
    pe: Bound, x: Float[Array, "L D"], idx: Int[Array, "L"], pos: Num[Array, "L"], before=None
) -> Rows:
    """Rows with the coordinates that the encodings locate in x, a layer's normalised input.

    `before` are the coordinates of the token before the first of these; None: there is none.
    """
    return Rows(idx, pos, pe.locate(x, pos, before))


def visible(pe: Bound, q_idx: Int[Array, "T"], k_idx: Int[Array, "S"]) -> Bool[Array, "T S"]:
    """Which keys each query sees: those that are there, none after it in a causal model, and only
    those within the window or among the sinks of every encoding that has a `reach`.
    """
    i, j = q_idx[:, None], k_idx[None, :]
    seen = jnp.broadcast_to(j >= 0, (len(q_idx), len(k_idx)))
    if pe.causal:
        seen &= j <= i
    for window, sinks in pe.reach:
        seen &= (jnp.abs(i - j) < window) | (j < sinks)
    return seen
