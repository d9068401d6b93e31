"""Reverse string (Deletang et al., 2022, arXiv:2207.02098; Ruoss et al., 2023, arXiv:2305.16843).

n bits, each 0 or 1 with equal probability; the answer is the same bits in reverse order. A
deterministic context-free task. 011010 -> 010110.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.tasks.answer import Answer, Drawn


@dataclasses.dataclass(frozen=True)
class ReverseString(Answer):
    """The input in reverse order."""

    symbols = 2

    def _counts(self, n):
        return n, n

    def _draw(self, key, n, longest):
        bits = jax.random.randint(key, (longest,), 0, 2)
        return Drawn(bits, bits[(n - 1 - jnp.arange(longest)) % longest])

    def _answer(self, input):
        return input[::-1]
