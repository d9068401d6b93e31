"""Learned positions that multiply: x_i (1 + p_i) (Su, 2021; kexue.fm/archives/8130).

Learned: p, [length, D], from 0: training starts without positions, and the gradient of p_i is
proportional to x_i. Beyond the table positions are undefined (`limit`) and NaN.

The author writes x_i p_i; 1 + p_i, p at 0, is how his bert4keras computes it.
"""

import dataclasses

import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.fields import Count
from pe_jax.geometry import lookup


@dataclasses.dataclass(frozen=True)
class Multiplicative(Encoding):
    """x_i (1 + p_i)."""

    length: Count | None = None
    """Rows of p; None: the training length."""

    def limit(self):
        return self.length or self.dims.train_len

    def trained_from(self):
        return self.limit()

    def init(self, key):
        return {"table": jnp.zeros((self.limit(), self.dims.model))}

    def embed(self, params, x, tokens, pos):
        return x * (1 + lookup(params["table"], pos)).astype(x.dtype)
