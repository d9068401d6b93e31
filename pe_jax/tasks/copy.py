"""Copy (Kazemnejad et al., 2023, arXiv:2305.19466), at the level of symbols, in the variants of
their code.

Symbols are 0 .. alphabet - 1, then END; the English words of a prompt are left out. x is a string
of n symbols, each drawn uniformly (cmc: their "unique tokens", which may occur more than once) or
one symbol n times (rsc).

    cmc     x -> x END                     3 0 3 -> 3 0 3 END
    rsc     the same of one symbol         3 3 3 -> 3 3 3 END

Their alphabet are 100 pieces of T5's vocabulary. They list each rsc example once; here it is
drawn. Their other variants are not here. Trained on n = 2 .. 20 there, and tested on 21 .. 40.
"""

import dataclasses
from typing import Literal

import jax
import jax.numpy as jnp

from pe_jax.fields import AtLeastTwo
from pe_jax.tasks.written import Written, upto


@dataclasses.dataclass(frozen=True)
class Copy(Written):
    """The input again."""

    variant: Literal["cmc", "rsc"] = "cmc"
    alphabet: AtLeastTwo = 100

    def _names(self):
        return (*map(str, range(self.alphabet)), "end")

    def _counts(self, n):
        return n, n + 1

    def _draw(self, key, n, longest):
        each, one = jax.random.split(key)
        shape, key = ((longest,), each) if self.variant == "cmc" else ((1,), one)
        drawn = jax.random.randint(key, shape, 0, self.alphabet)
        x = upto(jnp.broadcast_to(drawn, (longest,)), n)
        return self._drawn(x, x, longest)

    def _answer(self, input):
        return [*input, self.alphabet]
