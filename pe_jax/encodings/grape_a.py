"""Additive GRAPE, gated by the key: ALiBi whose slope each key sets (Zhang et al., 2025;
arXiv:2512.07805).

logit_ij = q_i . k_j / sqrt(K) - |i - j| softplus(omega_h) m_h softplus(u_h . k_j / sqrt(K)), m_h
ALiBi's slopes and u_h of length 1: an additive (unipotent) case of their group actions. Learned, in
each layer: omega, [H], whose softplus is 1 at first, and u, [H, K], normalised where it is used.
Beyond the training length keys go on fading, some sooner than others; a constant gate is ALiBi.

The formula is that of the authors' code, where k is RMS-normalised before. Theirs has no bias at
keys after the query, since all their models are causal.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.geometry import slopes


@dataclasses.dataclass(frozen=True)
class GrapeA(Encoding):
    """-|i - j| times a slope of the key's own."""

    per_layer: tuple[str, ...] = dataclasses.field(default=("*",), kw_only=True)

    def init(self, key):
        H, K = self.dims.heads, self.dims.head
        u = K**-0.5 * jax.random.normal(key, (H, K))
        return {"omega": jnp.full(H, math.log(math.e - 1)), "u": u}

    def logits(self, params, logits, q, k, q_pos, k_pos):
        u = params["u"] / jnp.linalg.norm(params["u"], axis=-1, keepdims=True)
        match = jnp.einsum("shk,hk->hs", k.astype(jnp.float32), u) * self.dims.head**-0.5
        m = jax.nn.softplus(params["omega"]) * jnp.asarray(slopes(self.dims.heads), jnp.float32)
        slope = m[:, None] * jax.nn.softplus(match)
        n = jnp.abs(q_pos[:, None] - k_pos[None]).astype(jnp.float32)
        return logits - n[None] * slope[:, None]
