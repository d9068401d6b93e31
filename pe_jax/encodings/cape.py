"""Continuous augmented positions, CAPE: e^s (pos + d + e_pos), in training (Likhomanenko et al.,
2021; arXiv:2106.03143).

One d ~ U(-max_shift, max_shift) and one s ~ U(-ln max_scale, ln max_scale) shift and stretch all
positions; an e_pos ~ U(-max_jitter, max_jitter) moves each of them, and keeps their order where
max_jitter is at most 0.5. Nothing is learned, and nothing is drawn in evaluation. Positions become
floats, which sinusoids, rotations and biases take and tables do not. Beyond the training length,
positions up to max_scale (L + max_shift) were seen.

With centred=True positions are counted from their mean, in training and in evaluation, as in the
paper for speech, not for text. Its max_shift is 5 for text and 60 s for speech; None is the
training length. One draw a step serves the batch; the paper draws for each sequence, as does
per_sequence=True.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.fields import AtLeastOne, NotNegative


@dataclasses.dataclass(frozen=True)
class CAPE(Encoding):
    """e^s (pos + d + e_pos) in training; compose it with another encoding: cape+sinusoidal."""

    max_shift: NotNegative | None = None
    """None: the training length."""
    max_jitter: NotNegative = 0.5
    max_scale: AtLeastOne = 1.03
    centred: bool = False
    per_sequence: bool = False

    def positions(self, tokens, pos, key, train):
        here, pos = pos >= 0, pos.astype(jnp.float32)
        pos = pos - pos.mean(where=here) if self.centred else pos
        if not train:
            return pos
        most = self.dims.train_len if self.max_shift is None else self.max_shift

        shift, jitter, scale = jax.random.split(self._drawing(key), 3)
        pos = pos + most * jax.random.uniform(shift, minval=-1.0)
        pos = pos + self.max_jitter * jax.random.uniform(jitter, pos.shape, minval=-1.0)
        return pos * jnp.exp(math.log(self.max_scale) * jax.random.uniform(scale, minval=-1.0))
