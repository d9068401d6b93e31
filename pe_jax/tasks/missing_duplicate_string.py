"""Missing duplicate string (Deletang et al., 2022, arXiv:2207.02098; Ruoss et al., 2023,
arXiv:2305.16843).

n symbols: n // 2 bits, each 0 or 1 with equal probability, twice, with one place drawn uniformly
among all replaced by 2; where n is odd a 3 is appended. The answer is the bit that the 2 hides. For
n = 1 both the input and the answer are 1. A context-sensitive task.
01100210 -> 1, 1011213 -> 0.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.tasks.answer import Answer, Drawn

HIDDEN, ODD = 2, 3


@dataclasses.dataclass(frozen=True)
class MissingDuplicateString(Answer):
    """The hidden bit of a string that stands there twice."""

    symbols = 4
    answers = 2

    def _draw(self, key, n, longest):
        for_bits, for_place = jax.random.split(key)
        half = jnp.maximum(n // 2, 1)
        place = jnp.arange(longest)
        twice = jax.random.randint(for_bits, (longest,), 0, 2)[place % half]
        hidden = jax.random.randint(for_place, (), 0, 2 * half)
        input = jnp.where(place < n // 2 * 2, twice, ODD)
        input = jnp.where(place == hidden, HIDDEN, input)
        answer = twice[hidden % half][None]
        return Drawn(jnp.where(n == 1, 1, input), jnp.where(n == 1, 1, answer))

    def _answer(self, input):
        if len(input) == 1:
            return [1]
        half, hidden = len(input) // 2, input.index(HIDDEN)
        return [input[hidden + half if hidden < half else hidden - half]]
