"""Moebius RoPE: in a quarter of the heads, frequencies by which all pairs point the other way after
one training length (Bae, 2026; arXiv:2607.21405).

In those heads w_i = pi (2i + 1) / L, i = 0 .. K / 2 - 1, with L the training length, so that at a
distance of L every pair has turned by an odd number of half turns, and at 2 L by whole ones; the
others have RoPE's base^(-2i / K). Nothing is learned. Beyond the training length these heads repeat
the rotations of training half a turn further, so that products change sign, and from 2 L on as they
were; the others reach unseen angles. The author claims that all seeds learn to retrieve.

Only summaries of the paper could be read for this file, which name these frequencies and the
quarter: that it is the first heads, a whole number of them and at least one, is this file's choice.
"""

import dataclasses
import math

import jax.numpy as jnp

from pe_jax.encodings.rotary import Rotary
from pe_jax.fields import Fraction


@dataclasses.dataclass(frozen=True)
class Mobius(Rotary):
    """q and k rotated by their positions, in two kinds of heads."""

    part: Fraction = 0.25
    """Of the heads."""

    def _frequencies(self):
        H, half = self.dims.heads, self._size // 2
        odd = math.pi * (2 * jnp.arange(half) + 1) / self.dims.train_len
        plain = super()._frequencies()
        first = jnp.arange(H) < max(1, int(self.part * H))
        return jnp.where(first[:, None], odd[None], plain[None])
