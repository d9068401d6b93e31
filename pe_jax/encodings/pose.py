"""PoSE, skip-wise positions: a text of L tokens is cut in two, and the second part moved on, in
training (Zhu et al., 2023; arXiv:2309.10400).

Tokens from place c on, c ~ U{1, .., L - 1}, get u added to their positions, u ~ U{0, .., T - L},
drawn for each sequence. So distances up to the target length T are met in texts of L tokens.
Nothing is learned, and positions stay as they are in evaluation. It is meant for training on with a
scaling: `pose(target=65536)+yarn(factor=8.0)`; up to T no distance is new.

The authors also take the two parts from different places of a longer text; here they follow each
other. T is 4 times the training length unless given; texts longer than T are not moved.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.fields import Count


@dataclasses.dataclass(frozen=True)
class PoSE(Encoding):
    """pos + u from place c on, in training; compose it with another encoding: pose+rope."""

    per_sequence = True
    target: Count | None = None
    """T. None: 4 times the training length."""

    def highest_position(self):
        return (self.target or 4 * self.dims.train_len) - 1

    def positions(self, tokens, pos, key, train):
        if not train:
            return pos
        size = (pos >= 0).sum()  # without tokens that pad
        cut, skip = jax.random.split(self._drawing(key))
        cut = jax.random.randint(cut, (), 1, jnp.maximum(size, 2))
        skip = jax.random.randint(skip, (), 0, jnp.maximum(self.highest_position() + 2 - size, 1))
        return pos + jnp.where(jnp.cumsum(pos >= 0) > cut, skip, 0)
