"""Reverse (Kazemnejad et al., 2023, arXiv:2305.19466), at the level of symbols, in the variants of
their code.

n symbols of 0 .. alphabet - 1, each drawn uniformly, then END and, where two strings are asked for,
NEXT. The English word of the prompt is left out.

    mc      x -> x reversed, END             3 0 5 -> 5 0 3 END
    mc2x    x -> that twice                  3 0 5 -> 5 0 3 NEXT 5 0 3 END
    mcrv    x -> x reversed NEXT x END       3 0 5 -> 5 0 3 NEXT 3 0 5 END

Their alphabet are 100 pieces of T5's vocabulary. Trained on n = 2 .. 20 there, and tested on
21 .. 40. reverse_string is the task of Deletang et al., of bits and without END.
"""

import dataclasses
from typing import Literal

import jax
import jax.numpy as jnp

from pe_jax.fields import Count
from pe_jax.tasks.answer import Written, upto


@dataclasses.dataclass(frozen=True)
class Reverse(Written):
    """The input from its end to its start."""

    variant: Literal["mc", "mc2x", "mcrv"] = "mc"
    alphabet: Count = 100

    def _names(self):
        return (*map(str, range(self.alphabet)), "end", *["next"] * (self.variant != "mc"))

    def _counts(self, n):
        return n, n + 1 if self.variant == "mc" else 2 * n + 2

    def _draw(self, key, n, longest):
        x = upto(jax.random.randint(key, (longest,), 0, self.alphabet), n)
        if self.variant == "mc":
            return self._drawn(x, x[::-1], longest)
        again = x if self.variant == "mcrv" else x[::-1]
        answer = jnp.concatenate([x[::-1], jnp.array([self._id("next")]), again])
        return self._drawn(x, answer, longest)

    def _answer(self, input):
        backwards, end = input[::-1], self.alphabet
        again = {"mc": [], "mc2x": [end + 1, *backwards], "mcrv": [end + 1, *input]}
        return [*backwards, *again[self.variant], end]
