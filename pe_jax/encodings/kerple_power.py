"""KERPLE's power kernel: logits - a_h |i - j|^p_h (Chi et al., 2022; arXiv:2205.09921).

Learned: a and p, [H], shared by all layers as the paper counts them (the authors' code gives each
layer its own: per_layer=("*",)); drawn from U(0, 1) and U(0, 2). p = 1 is ALiBi. Beyond the
training length distant keys fade out as exp(-a n^p).

a acts as at least 0.01, p as between 0.01 and 2. The authors' code resets a parameter that leaves
these bounds before it is used; here only the value used is clamped and its gradient passes
(geometry.clamp). At distance 0 the bias and its gradient are 0.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.geometry import clamp


@dataclasses.dataclass(frozen=True)
class KerplePower(Encoding):
    """-a_h |i - j|^p_h."""

    def init(self, key):
        a, p = jax.random.split(key)
        shape = (self.dims.heads,)
        return {"a": jax.random.uniform(a, shape), "p": 2.0 * jax.random.uniform(p, shape)}

    def relative_bias(self, params, n):
        a, p = clamp(params["a"], 0.01)[:, None], clamp(params["p"], 0.01, 2.0)[:, None]
        n = jnp.abs(n)[None].astype(jnp.float32)
        power = jnp.where(n > 0, n, 1.0) ** p  # d/dp 0^p = 0^p ln 0 would be NaN
        return -a * jnp.where(n > 0, power, 0.0)
