"""Copy (Kazemnejad et al., 2023, arXiv:2305.19466), at the level of symbols, in the variants of
their code.

Symbols are 0 .. alphabet - 1, then END and, in cmc2x, NEXT; the English words of a prompt are left
out. x is a string of n symbols, each drawn uniformly (cmc: their "unique tokens", which may occur
more than once) or one symbol n times (rsc).

    cmc     x -> x END                     3 0 3 -> 3 0 3 END
    rsc     the same of one symbol         3 3 3 -> 3 3 3 END
    cmc2x   x -> x NEXT x END              3 0 -> 3 0 NEXT 3 0 END
    rsc2x   n symbols -> 2n of them        3 3 -> 3 3 3 3 END
    rdc     s t, then s n times: t n times    3 5 3 3 3 -> 5 5 5 END, s and t distinct

Their alphabet are 100 pieces of T5's vocabulary. They list each rsc and rdc example once; here they
are drawn. Trained on n = 2 .. 20 there, and tested on 21 .. 40.
"""

import dataclasses
from typing import Literal

import jax
import jax.numpy as jnp

from pe_jax.fields import AtLeastTwo
from pe_jax.tasks.answer import Written, upto


@dataclasses.dataclass(frozen=True)
class Copy(Written):
    """The input again."""

    variant: Literal["cmc", "rsc", "cmc2x", "rsc2x", "rdc"] = "cmc"
    alphabet: AtLeastTwo = 100

    def _names(self):
        return (*map(str, range(self.alphabet)), "end", *["next"] * (self.variant == "cmc2x"))

    def _counts(self, n):
        answer = {"cmc2x": 2 * n + 1, "rsc2x": 2 * n}.get(self.variant, n)
        return n + 2 * (self.variant == "rdc"), answer + 1

    def _draw(self, key, n, longest):
        each, one = jax.random.split(key)
        s = jax.random.randint(one, (1,), 0, self.alphabet)
        if self.variant in ("cmc", "cmc2x"):
            x = upto(jax.random.randint(each, (longest,), 0, self.alphabet), n)
        else:
            x = upto(jnp.repeat(s, longest), n)
        if self.variant == "rdc":
            t = (s + jax.random.randint(each, (1,), 1, self.alphabet)) % self.alphabet
            answer = upto(jnp.repeat(t, longest), n)
            return self._drawn(jnp.concatenate([s, t, x]), answer, longest)
        answer = {
            "cmc2x": [x, jnp.array([self.symbols - 1]), x],
            "rsc2x": [x, x],
        }.get(self.variant, [x])
        return self._drawn(x, jnp.concatenate(answer), longest)

    def _answer(self, input):
        end, join = self.alphabet, [self.alphabet + 1]
        if self.variant == "rdc":
            return [input[1]] * (len(input) - 2) + [end]
        if self.variant == "cmc2x":
            return input + join + input + [end]
        return input * (2 if self.variant == "rsc2x" else 1) + [end]
