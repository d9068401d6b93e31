"""Randomized positions (Ruoss et al., 2023; arXiv:2305.16843).

The positions of a sequence of L tokens are a sorted sample of L of the integers 0 .. max - 1,
without replacement, in training and in evaluation: the other encoding meets in training the
positions of longer texts. Nothing is learned. Up to `max` tokens are served. One draw a step serves
the batch; per_sequence=True draws for each sequence. The paper's max is 2048 for training lengths
to 40 and evaluation to 500; None is 32 times the training length.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.fields import Count


@dataclasses.dataclass(frozen=True)
class Randomized(Encoding):
    """sorted(sample(range(max), L)); compose it with another encoding: randomized+rope."""

    max: Count | None = None
    """None: 32 times the training length."""
    per_sequence: bool = False

    def limit(self):
        return self.max or 32 * self.dims.train_len

    def highest_position(self):
        return self.limit() - 1

    def positions(self, tokens, pos, key, train):
        length, most = pos.shape[0], self.limit()
        if length > most:
            raise ValueError(
                f"randomized positions draw {length} of {most}: raise randomized's max above "
                "every length"
            )
        drawn = jax.random.permutation(self._drawing(key), most)[:length]
        outside = jnp.where(jnp.cumsum(pos >= 0) > 0, most, -1)  # behind the tokens, or before
        return jnp.sort(jnp.where(pos < 0, outside, drawn))
