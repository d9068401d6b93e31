"""Bucket sort (Deletang et al., 2022, arXiv:2207.02098; Ruoss et al., 2023, arXiv:2305.16843).

n symbols of 0 .. 4, each drawn uniformly; the answer is the symbols in ascending order. A
context-sensitive task. 10204112 -> 00111224.

The place of a symbol tells much of it: the most frequent symbol of each place is right in .78 of
the places at n = 40 and in .86 at n = 100.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.tasks.answer import Answer, Drawn


@dataclasses.dataclass(frozen=True)
class BucketSort(Answer):
    """The input in ascending order."""

    symbols = 5

    def _counts(self, n):
        return n, n

    def _draw(self, key, n, longest):
        input = jax.random.randint(key, (longest,), 0, 5)
        place, bucket = jnp.arange(longest)[:, None], jnp.arange(4)[None, :]
        ends = ((input[:, None] <= bucket) & (place < n)).sum(axis=0, keepdims=True)
        return Drawn(input, (place >= ends).sum(axis=1))

    def _answer(self, input):
        return sorted(input)
