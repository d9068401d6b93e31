"""Transformer-XL's relative positions (Dai et al., 2019; arXiv:1901.02860).

logit_ij = [(q_i + u) . k_j + (q_i + v) . (W_r R_{i-j})] / sqrt(K), where R_n = concat(sin(n w),
cos(n w)), w_i = base^(-2i / D). Learned: W_r, [D, H, K], in each layer; u and v, [H, K], shared by
all layers as in the authors' code. Beyond the training length R_n goes on, and distances that
training never saw meet a W_r fitted to those it did.

The authors draw everything from N(0, 0.02^2) at D = 410; here W_r has standard deviation D^-1/2,
so that its term starts at the content's scale at any D. `clamp` caps n, as does their clamp_len.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.fields import Count, Positive
from pe_jax.geometry import angles, inverse_timescales


@dataclasses.dataclass(frozen=True)
class TransformerXL(Encoding):
    """u in `qk` (the dot product alone), v . r as a bias, q . r as relative keys."""

    even = "model"
    base: Positive = 10000.0
    clamp: Count | None = None
    """The largest distance; those beyond it are taken as it is. None: there is none."""
    per_layer: tuple[str, ...] = dataclasses.field(default=("r",), kw_only=True)

    def init(self, key):
        r, u, v = jax.random.split(key, 3)
        d = self.dims
        return {
            "r": d.model**-0.5 * jax.random.normal(r, (d.model, d.heads, d.head)),
            "u": 0.02 * jax.random.normal(u, (d.heads, d.head)),
            "v": 0.02 * jax.random.normal(v, (d.heads, d.head)),
        }

    def relative_keys(self, params, n):  # W_r R_n
        n = n if self.clamp is None else jnp.clip(n, -self.clamp, self.clamp)
        angle = angles(n, inverse_timescales(self.dims.model, self.base))
        return jnp.einsum(
            "nd,dhk->hnk", jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], -1), params["r"]
        )

    def qk(self, params, q, k, q_pos, k_pos):
        return q + (self.dims.head**-0.5 * params["u"]).astype(q.dtype)[None], k

    def relative_bias(self, params, n):
        v = self.dims.head**-0.5 * params["v"]
        return jnp.einsum("hk,hnk->hn", v, self.relative_keys(params, n))
