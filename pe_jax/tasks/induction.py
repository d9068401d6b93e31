"""Induction head (Fu et al., 2022, arXiv:2212.14052; HazyResearch/safari; also Gu & Dao, 2023,
arXiv:2312.00752).

n tokens: n - 1 symbols, one of them, at a place drawn uniformly from 0 .. n - 4, replaced by the
arrow `=>`, and a second arrow. At that the symbol behind the first arrow is predicted, and nothing
else is scored. n = 7:

    5 3 => 7 2 9 =>        7

The papers count otherwise: safari's L, 30, is n - 1, and its sequences end with the answer. Its
training scores every token, though only the answer can be known. Its vocabulary of 20 has the 18
symbols that are the default here, the arrow, and a token `.` that this task does not use. For the
longer sequences of the second paper there is no public code.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.fields import Count
from pe_jax.task import Sample
from pe_jax.tasks.retrieval import Retrieval


@dataclasses.dataclass(frozen=True)
class Induction(Retrieval):
    """The symbol that came behind the arrow, when the arrow comes again."""

    symbols: Count = 18
    """Tokens that are not the arrow. Its id is the next."""

    def vocab(self):
        return self.symbols + 1

    def labels(self):
        return self.symbols

    def has(self, n):
        return n >= 4

    def sample(self, key, n, longest):
        for_symbols, for_place = jax.random.split(key)
        place = jnp.arange(longest)
        arrow = jax.random.randint(for_place, (), 0, n - 3)
        symbols = jax.random.randint(for_symbols, (longest,), 0, self.symbols)
        last = place == n - 1
        tokens = jnp.where((place == arrow) | last, self.symbols, symbols)
        return Sample(tokens, jnp.where(last, symbols[arrow + 1], 0), last)

    def _sources(self, tokens):
        return {len(tokens) - 1: tokens.index(self.symbols) + 1}
