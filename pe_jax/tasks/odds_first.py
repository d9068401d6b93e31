"""Odds first (Deletang et al., 2022, arXiv:2207.02098; Ruoss et al., 2023, arXiv:2305.16843).

n bits, each 0 or 1 with equal probability; the answer is the second, fourth, ... bit and then the
first, third, ... bit: places count from 0, and the odd ones come first. A context-sensitive task.
00110101 -> 0111 0100.

The docstring of their code has the bits of even places first; its program is followed.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.tasks.answer import Answer, Drawn


@dataclasses.dataclass(frozen=True)
class OddsFirst(Answer):
    """The bits of odd places, then the bits of even places."""

    symbols = 2

    def _counts(self, n):
        return n, n

    def _draw(self, key, n, longest):
        bits = jax.random.randint(key, (longest,), 0, 2)
        place = jnp.arange(longest)
        source = jnp.where(place < n // 2, 2 * place + 1, 2 * (place - n // 2))
        return Drawn(bits, bits[source % longest])

    def _answer(self, input):
        return input[1::2] + input[0::2]
