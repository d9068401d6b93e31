"""The query of a kernel: which sign the sum of earlier bits has, each weighed by a function of its
distance (Zhang, 2026; arXiv:2605.04217, and its code, ybzhang-nxu/jordan_rope).

n tokens: n - 1 bits, each 0 or 1 with equal probability, and a query. With d = 1 for the bit before
the query, the answer is 1 where sum_d (2 bit_d - 1) d cos(w d) > 0, else 0. Far bits weigh most: a
model that forgets them guesses. With the default w, 0.178, the weights of d = 1, 2, 3 are 0.98,
1.87 and 2.58:

    0 0 1 ?        0        for 0.98 - 1.87 - 2.58 < 0

w is the fourth frequency of RoPE in heads of 32 components, as in the authors' model. Their kernel,
d / L cos(w d) of unit norm over the training length L, has the same signs.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from pe_jax.fields import Positive
from pe_jax.tasks.answer import Answer, Drawn


@dataclasses.dataclass(frozen=True)
class QueryKernel(Answer):
    """The sign of a sum of bits, weighed by their distance from the query and a wave of it."""

    frequency: Positive = 10000.0 ** (-3 / 16)
    """w, in radians per token."""

    symbols = 2

    def has(self, n):
        return n >= 2

    def _counts(self, n):
        return n - 1, 1

    def _weights(self, most: int) -> np.ndarray:
        """The weight of the bit at each distance, 1 .. most."""
        d = np.arange(1, most + 1)
        return d * np.cos(self.frequency * d)

    def _draw(self, key, n, longest):
        bits = jax.random.randint(key, (longest,), 0, 2)
        distance = n - 1 - jnp.arange(longest)
        weights = jnp.asarray(self._weights(longest), jnp.float32)[distance - 1]
        total = jnp.where(distance > 0, (2 * bits - 1) * weights, 0.0).sum()
        return Drawn(bits, (total > 0).astype(jnp.int32)[None])

    def _answer(self, input):
        signs = 2 * np.array(input[::-1]) - 1
        return [int(signs @ self._weights(len(input)) > 0)]
