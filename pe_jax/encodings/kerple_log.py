"""KERPLE's logarithmic kernel: logits - p_h ln(1 + a_h |i - j|) (Chi et al., 2022;
arXiv:2205.09921).

Learned: a and p, [H], shared by all layers as the paper counts them (the authors' code gives each
layer its own: per_layer=("*",)); drawn from U(0, 1) and U(0, 2). Beyond the training length the
bias goes on as a logarithm: a key at distance n is weighed by (1 + a n)^-p.

Both act as at least 0.01. The authors' code resets a parameter that falls below before it is used;
here only the value used is clamped and its gradient passes (geometry.clamp), and the parameter must
come back by itself. Distances are float32, theirs in the activations' dtype.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.geometry import clamp


@dataclasses.dataclass(frozen=True)
class KerpleLog(Encoding):
    """-p_h ln(1 + a_h |i - j|)."""

    def init(self, key):
        a, p = jax.random.split(key)
        shape = (self.dims.heads,)
        return {"a": jax.random.uniform(a, shape), "p": 2.0 * jax.random.uniform(p, shape)}

    def relative_bias(self, params, n):
        a, p = (clamp(params[name], 0.01)[:, None] for name in "ap")
        return -p * jnp.log1p(a * jnp.abs(n)[None].astype(jnp.float32))
