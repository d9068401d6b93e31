"""Clipped RoPE: the slowest pairs turn less, down to not at all (Li et al., 2026; arXiv:2602.05258,
who call it CoPE).

Of the n slowest pairs the t-th, t = 0 .. n - 1, has RoPE's frequency times
(1 + cos(pi t / (n - 1))) / 2, from 1 down to 0. Nothing is learned. By default n is the number of
pairs whose wavelength 2 pi / w is longer than the training length: these meet angles beyond it that
were never seen, and the slower they are the less of them is left. The authors clip 20 of the 64
pairs of Llama-3-8B, where 29 are so slow, and train on; as a swap it changes the model within its
training length, too. With n = 1 nothing changes.
"""

import dataclasses
import math

import jax.numpy as jnp
import numpy as np

from pe_jax.encodings.rotary import Rotary
from pe_jax.fields import Natural


@dataclasses.dataclass(frozen=True)
class ClippedRoPE(Rotary):
    """q and k rotated by their positions, the slowest pairs by less."""

    pairs: Natural | None = None
    """n, at most all. None: the pairs with a wavelength above the training length."""

    def _frequencies(self):
        half = self._size // 2
        wavelengths = 2 * math.pi * self.base ** (np.arange(half) / half)
        slow = (wavelengths > self.dims.train_len).sum() if self.pairs is None else self.pairs
        n = min(int(slow), half)
        taper = np.ones(half)
        taper[half - n :] = (1 + np.cos(np.linspace(0, math.pi, n))) / 2
        return super()._frequencies() * jnp.asarray(taper, jnp.float32)
