"""Attention with linear biases: logits - m_h |i - j| (Press et al., 2022; arXiv:2108.12409).

m_h = 2^(-8h / H), h = 1 .. H. Nothing is learned. Beyond the training length distant keys fade
out: the head with slope m sees about 1 / m keys. For H that is not a power of two the slopes are
those of the authors' code (geometry.slopes). The bias is a function of the distance: slope * j, as
in the authors' code, differs by a constant a row, but loses all precision in bfloat16.
"""

import dataclasses

import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.geometry import slopes


@dataclasses.dataclass(frozen=True)
class ALiBi(Encoding):
    """-m_h |i - j|."""

    def relative_bias(self, params, n):
        m = jnp.asarray(slopes(self.dims.heads), jnp.float32)
        return -m[:, None] * jnp.abs(n)[None].astype(jnp.float32)
