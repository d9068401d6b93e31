"""Losses and other measures of logits, in chunks of tokens where logits are large.

Axes: B batch, T tokens, D model size, V vocab.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from pe_jax.model.lm import LM

MOST = 2**26
"""Logits in memory at once, at most: 256 MiB in float32, 1,335 tokens of a vocabulary of 50,257."""


def of_logits(
    measure: Callable, model: LM, rows: Float[Array, "B T D"], targets: Any
) -> Float[Array, "B T ..."]:
    """measure(logits [B, T, V], targets), which acts on each token alone, from the `rows` of
    `LM.__call__(rows=True)`. Targets are a tree of arrays [B, T, ...].

    More than MOST logits are computed in chunks of tokens, and again in the backward pass: a step
    of training then has four products with the vocabulary, not three.
    """

    def of_chunk(chunk):
        rows, targets = chunk
        return measure(model.logits_of(rows), targets)

    batch, T = rows.shape[:2]
    size = tokens_at_once(batch, T, model.config.vocab)
    if size == T:
        return of_chunk((rows, targets))

    def chunks(a):
        padded = jnp.pad(a, [(0, 0), (0, -T % size)] + [(0, 0)] * (a.ndim - 2))
        return jnp.moveaxis(padded.reshape(len(a), -1, size, *a.shape[2:]), 1, 0)

    out = jax.lax.map(jax.checkpoint(of_chunk), jax.tree.map(chunks, (rows, targets)))
    return jnp.moveaxis(out, 0, 1).reshape(len(rows), -1, *out.shape[3:])[:, :T]


def tokens_at_once(batch: int, length: int, vocab: int) -> int:
    """The number of tokens of each sequence whose logits are in memory at once."""
    return min(length, max(1, MOST // (batch * vocab)))
