"""Reverse (Kazemnejad et al., 2023, arXiv:2305.19466), at the level of symbols.

n symbols of 0 .. alphabet - 1, each drawn uniformly; the answer has them from the last to the
first, then END. The English word of the prompt is left out. 3 0 5 -> 5 0 3 END, the variant mc of
their code.

Their alphabet are 100 pieces of T5's vocabulary. Trained on n = 2 .. 20 there, and tested on
21 .. 40. reverse_string is the task of Deletang et al., of bits and without END.
"""

import dataclasses

import jax

from pe_jax.fields import Count
from pe_jax.tasks.written import Written, upto


@dataclasses.dataclass(frozen=True)
class Reverse(Written):
    """The input from its end to its start."""

    alphabet: Count = 100

    def _names(self):
        return (*map(str, range(self.alphabet)), "end")

    def _counts(self, n):
        return n, n + 1

    def _draw(self, key, n, longest):
        x = upto(jax.random.randint(key, (longest,), 0, self.alphabet), n)
        return self._drawn(x, x[::-1], longest)

    def _answer(self, input):
        return [*input[::-1], self.alphabet]
