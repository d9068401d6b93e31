"""Even pairs (Deletang et al., 2022, arXiv:2207.02098; Ruoss et al., 2023, arXiv:2305.16843).

n bits, each 0 or 1 with equal probability; the answer is the parity of the number of neighbours
that differ. A regular task. 0101001 -> 1, for 5 pairs differ: 01, 10, 01, 10 and the last 01.

The answer is 1 where the first bit differs from the last, so two tokens decide it.
"""

import dataclasses

import jax

from pe_jax.tasks.answer import Answer, Drawn


@dataclasses.dataclass(frozen=True)
class EvenPairs(Answer):
    """Whether the number of unequal neighbours is odd."""

    symbols = 2

    def _draw(self, key, n, longest):
        bits = jax.random.randint(key, (longest,), 0, 2)
        return Drawn(bits, bits[:1] ^ bits[n - 1])

    def _answer(self, input):
        return [sum(a != b for a, b in zip(input, input[1:], strict=False)) % 2]
