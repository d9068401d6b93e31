"""Parity check (Deletang et al., 2022, arXiv:2207.02098; Ruoss et al., 2023, arXiv:2305.16843).

n bits, each 0 or 1 with equal probability; the answer is 1 where the number of ones is odd, else 0.
A regular task. 1010100 -> 1, 01111 -> 0.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.tasks.answer import Answer, Drawn


@dataclasses.dataclass(frozen=True)
class ParityCheck(Answer):
    """Whether the number of ones is odd."""

    symbols = 2

    def _draw(self, key, n, longest):
        bits = jax.random.randint(key, (longest,), 0, 2)
        ones = jnp.where(jnp.arange(longest) < n, bits, 0).sum(keepdims=True)
        return Drawn(bits, ones % 2)

    def _answer(self, input):
        return [input.count(1) % 2]
