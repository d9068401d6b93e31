"""Duplicate string (Deletang et al., 2022, arXiv:2207.02098; Ruoss et al., 2023, arXiv:2305.16843).

n bits, each 0 or 1 with equal probability; the answer is the bits twice, 2n symbols. A
context-sensitive task. 101 -> 101101.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.tasks.answer import Answer, Drawn


@dataclasses.dataclass(frozen=True)
class DuplicateString(Answer):
    """The input twice."""

    symbols = 2

    def _counts(self, n):
        return n, 2 * n

    def _draw(self, key, n, longest):
        bits = jax.random.randint(key, (longest,), 0, 2)
        return Drawn(bits, bits[jnp.arange(2 * longest) % n])

    def _answer(self, input):
        return input + input
