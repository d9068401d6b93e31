"""Learned positions that multiply: x_i (1 + p_i) (Su, 2021; kexue.fm/archives/8130).

Learned: p, [length, D], from 0: training starts from no positions at all, and the gradient of p_i
is proportional to x_i. additive=True adds a second table, x_i (1 + p_i) + s_i, with s from N(0,
0.02^2). Beyond the table positions are undefined: `limit` says so, and a lookup gives NaN.

The author writes x_i p_i; 1 + p_i, p at 0, is how his bert4keras computes it.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.fields import Count
from pe_jax.geometry import lookup


@dataclasses.dataclass(frozen=True)
class Multiplicative(Encoding):
    """x_i (1 + p_i)."""

    length: Count | None = None
    """Rows of a table; None: the training length."""
    additive: bool = False
    """Whether the second table, s, is added."""

    def limit(self):
        return self.length or self.dims.train_len

    def trained_from(self):
        return self.limit()

    def init(self, key):
        shape = (self.limit(), self.dims.model)
        shift = {"shift": 0.02 * jax.random.normal(key, shape)} if self.additive else {}
        return {"table": jnp.zeros(shape)} | shift

    def embed(self, params, x, tokens, pos):
        x = x * (1 + lookup(params["table"], pos)).astype(x.dtype)
        return x + lookup(params["shift"], pos).astype(x.dtype) if self.additive else x
