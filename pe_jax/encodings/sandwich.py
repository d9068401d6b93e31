"""Sandwich, sinusoids' products as a bias: logits + H / (8h) [sum_i cos(w_i (i - j)) - size / 2]
(Chi et al., 2023; arXiv:2212.10356).

w_i = 10000^(-2i / size), i = 1 .. size / 2, and h = 1 .. H. Nothing is learned; size is 128,
whatever the model's. Beyond the training length the bias goes on falling, about as the logarithm of
the distance. Cosines minus 1 are -2 sin^2(w_i n / 2), which keeps digits at small distances.
"""

import dataclasses

import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.fields import Even, Positive
from pe_jax.geometry import angles


@dataclasses.dataclass(frozen=True)
class Sandwich(Encoding):
    """H / (8h) [sum_i cos(w_i n) - size / 2]."""

    size: Even = 128
    """Twice the number of cosines."""
    base: Positive = 10000.0

    def relative_bias(self, params, n):
        w = self.base ** (-2.0 * jnp.arange(1, self.size // 2 + 1) / self.size)
        fall = -2.0 * (jnp.sin(angles(n, w / 2)) ** 2).sum(-1)
        heads = self.dims.heads
        return heads / (8.0 * jnp.arange(1, heads + 1))[:, None] * fall[None]
