"""Attention with linear biases: logits - m_h |i - j| (Press et al., 2022; arXiv:2108.12409).

m_h = c 2^(-8h / H), h = 1 .. H, c = 1 (slope_scale). Nothing is learned; learned=True learns
ln m_h, initialised at these slopes. Beyond the training length L distant keys fade out:
slope m sees about 1 / m keys. slope_scale = C / L gives slopes in units of 1 / L. If H is not a
power of two they follow the authors' code (geometry.slopes); variant="paper" takes the formula.

The authors' m_h j differs from this bias by a constant for each query, but loses all precision in
bfloat16. They report that learned slopes extrapolated no better; slopes as exponentials of
parameters, so that they stay positive, are this file's choice.
"""

import dataclasses
from typing import Literal

import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.fields import Positive
from pe_jax.geometry import slopes


@dataclasses.dataclass(frozen=True)
class ALiBi(Encoding):
    """-m_h |i - j|."""

    learned: bool = False
    """Whether the slopes are learned."""
    variant: Literal["code", "paper"] = "code"
    slope_scale: Positive = 1.0
    """c, a factor of all slopes, which are in nats per token of distance."""

    def init(self, key):
        return {"log_slopes": jnp.log(self._slopes())} if self.learned else {}

    def _slopes(self):
        H = self.dims.heads
        plain = 2.0 ** (-8.0 * jnp.arange(1, H + 1) / H)
        published = plain if self.variant == "paper" else jnp.asarray(slopes(H), jnp.float32)
        return self.slope_scale * published

    def relative_bias(self, params, n):
        m = jnp.exp(params["log_slopes"]) if self.learned else self._slopes()
        return -m[:, None] * jnp.abs(n)[None].astype(jnp.float32)
