"""Multi-query associative recall (Arora et al., 2023, arXiv:2312.04927; HazyResearch/zoology).

n tokens, n even. The first 2K are K pairs of a key and its value: distinct keys of 1 .. V/2 - 1,
distinct values of V/2 .. V - 1. The rest is slots of two tokens, all 0 but for the queries: each
key comes once more, as the first token of a slot of its own, and there its value is predicted. The
slots are drawn without replacement, slot j = 0, 1, .. with a weight of (j + 1)^(power - 1), so most
queries come early. V = 12, K = 2, n = 16:

    4 11 5 7 4 0 0 0 0 0 5 0 0 0 0 0        11 is predicted at place 4, and 7 at place 10

The paper's figure 2 has V = 8192 and (n, K) = (64, 4), (128, 8), (256, 16). This is its filler of
zeros. The code can also draw the filler from the whole vocabulary, and then some of it looks like a
query that is not scored; this is left out, and with it the code's condition V > n.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.fields import Count, Fraction
from pe_jax.task import Sample
from pe_jax.tasks.retrieval import Retrieval


@dataclasses.dataclass(frozen=True)
class Mqar(Retrieval):
    """The value that came with a key, when the key comes again."""

    keys: Count = 4
    """Pairs of a key and its value, K."""
    vocabulary: Count = 256
    """Tokens, V: the filler, the keys and the values."""
    power: Fraction = 0.01
    """1: queries are spread evenly; smaller: they crowd behind the pairs."""

    def __post_init__(self):
        if self.keys >= self.vocabulary // 2:
            raise ValueError(
                f"mqar has vocabulary // 2 - 1 = {self.vocabulary // 2 - 1} keys to draw from: "
                f"lower keys={self.keys} or raise vocabulary"
            )

    def vocab(self):
        return self.vocabulary

    def labels(self):
        return self.vocabulary - self.vocabulary // 2

    def first_label(self):
        return self.vocabulary // 2

    def has(self, n):
        return n % 2 == 0 and n >= 4 * self.keys

    def sample(self, key, n, longest):
        for_keys, for_values, for_slots = jax.random.split(key, 3)
        keys = 1 + self._distinct(for_keys, self.vocabulary // 2 - 1)
        values = self.vocabulary // 2 + self._distinct(for_values, self.labels())
        pairs = jnp.stack([keys, values], axis=1).ravel()
        slot = jnp.arange((longest - len(pairs)) // 2)
        weight = jax.random.gumbel(for_slots, slot.shape) + (self.power - 1) * jnp.log(slot + 1.0)
        weight = jnp.where(2 * slot < n - len(pairs), weight, -jnp.inf)
        query = len(pairs) + 2 * jax.lax.top_k(weight, self.keys)[1]
        empty = jnp.zeros(longest, jnp.int32)
        targets = empty.at[query].set(values)
        return Sample(empty.at[: len(pairs)].set(pairs).at[query].set(keys), targets, targets > 0)

    def _distinct(self, key, choices):
        """As many distinct numbers below `choices` as there are keys."""
        return jax.lax.top_k(jax.random.uniform(key, (choices,)), self.keys)[1]

    def _sources(self, tokens):
        known = {tokens[place]: place + 1 for place in range(0, 2 * self.keys, 2)}
        rest = range(2 * self.keys, len(tokens))
        return {place: known[tokens[place]] for place in rest if tokens[place] in known}
