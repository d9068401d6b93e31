"""Sinusoids as relative position vectors (Wei et al., 2019; arXiv:1909.00204).

Shaw's logit_ij = q_i . (k_j + a_n) / sqrt(K) and o_i = sum_j w_ij (v_j + a_n), where a is a fixed
sinusoid of the clipped distance m = clip(j - i, -k, k), the same for keys and values:
a[2c] = sin(m w_c), a[2c + 1] = cos(m w_c), w_c = base^(-2c / K). Nothing is learned. Beyond the
training length distances over k look alike.

The paper's formula takes m itself; the authors' code takes m + k, the row of its table:
variant="code". k is 64 in the Chinese model; None is min(64, train_len - 1).
"""

import dataclasses
from typing import Literal

import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.fields import Count, Positive
from pe_jax.geometry import angles, inverse_timescales


@dataclasses.dataclass(frozen=True)
class Nezha(Encoding):
    """One sinusoid as relative keys and as relative values."""

    even = "head"
    clip: Count | None = None
    """k. None: min(64, the training length - 1)."""
    base: Positive = 10000.0
    variant: Literal["paper", "code"] = "paper"

    def constant_from(self):
        return self.clip or max(1, min(64, self.dims.train_len - 1))

    def relative_keys(self, params, n):
        k = self.constant_from()
        m = jnp.clip(-n, -k, k) + (k if self.variant == "code" else 0)
        angle = angles(m, inverse_timescales(self.dims.head, self.base))
        rows = jnp.stack([jnp.sin(angle), jnp.cos(angle)], axis=-1).reshape(-1, self.dims.head)
        return jnp.broadcast_to(rows[None], (self.dims.heads, *rows.shape))

    def relative_values(self, params, n):
        return self.relative_keys(params, n)
