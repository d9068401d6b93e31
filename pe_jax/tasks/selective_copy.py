"""Selective copying (Jing et al., 2019, arXiv:1706.02761; Gu & Dao, 2023, arXiv:2312.00752; Poli et
al., 2024, arXiv:2403.17844, athms/mad-lab, whose form this is).

n tokens: K data tokens, drawn from 0 .. V - 3 and spread over the first n - K - 1 places among
blanks, V - 2; the copy token, V - 1; then K blanks, at which the data tokens are predicted in their
order. V = 16, K = 4, n = 20:

    14 3 14 14 14 14 14 14 14 14 5 4 14 1 14 15 14 14 14 14        3 5 4 1 at the last four

The published baseline has n = 256 and K = 16; here K is 4, which is the same share of n = 64. In
the code no blank ever stands between the last data token and the copy token. Here the places of the
data are drawn uniformly, so their end is not known beforehand.
"""

import dataclasses
from typing import Annotated

import jax
import jax.numpy as jnp
import msgspec

from pe_jax.fields import Count
from pe_jax.task import Sample
from pe_jax.tasks.retrieval import Retrieval


@dataclasses.dataclass(frozen=True)
class SelectiveCopy(Retrieval):
    """The data tokens among blanks, in their order."""

    data: Count = 4
    """Data tokens of a sequence, K."""
    vocabulary: Annotated[int, msgspec.Meta(ge=3)] = 16
    """Tokens, V: data, the blank and the copy token."""

    def vocab(self):
        return self.vocabulary

    def labels(self):
        return self.vocabulary - 2

    def has(self, n):
        return n >= 2 * self.data + 1

    def sample(self, key, n, longest):
        for_data, for_places = jax.random.split(key)
        data = jax.random.randint(for_data, (self.data,), 0, self.labels())
        place = jnp.arange(longest)
        copy = n - self.data - 1
        order = jnp.where(place < copy, jax.random.uniform(for_places, (longest,)), -1)
        chosen = jnp.sort(jax.lax.top_k(order, self.data)[1])
        tokens = jnp.full(longest, self.vocabulary - 2).at[chosen].set(data)
        tokens = tokens.at[copy].set(self.vocabulary - 1)
        answered = place - copy - 1
        scored = (answered >= 0) & (place < n)
        return Sample(tokens, data[jnp.clip(answered, 0, self.data - 1)], scored)

    def _sources(self, tokens):
        data = [place for place, token in enumerate(tokens) if token < self.vocabulary - 2]
        return dict(zip(range(len(tokens) - self.data, len(tokens)), data, strict=True))
