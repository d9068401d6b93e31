"""Sinusoidal absolute positions (Vaswani et al., 2017; arXiv:1706.03762).

PE(pos, 2i) = sin(pos w_i), PE(pos, 2i + 1) = cos(pos w_i), w_i = base^(-2i / D); the input becomes
x + PE. Nothing is learned. PE(pos + k) is a fixed rotation of PE(pos), and PE(pos) . PE(pos + k) =
sum_i cos(w_i k); beyond the training length the values stay bounded, but most of their
combinations were never seen. The paper multiplies the token embeddings by sqrt(D); here they enter
at unit scale (LmConfig), to the same end.
"""

import dataclasses

import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.geometry import angles, inverse_timescales


@dataclasses.dataclass(frozen=True)
class Sinusoidal(Encoding):
    """x + PE, sines and cosines interleaved."""

    base: float = 10000.0

    def __post_init__(self):
        if self.dims.model % 2:
            raise ValueError(
                f"lm.model must be even for sinusoidal positions, got {self.dims.model}; "
                "change lm.model"
            )

    def embed(self, params, x, tokens, pos):
        angle = angles(pos, inverse_timescales(self.dims.model, self.base))
        pe = jnp.stack([jnp.sin(angle), jnp.cos(angle)], axis=-1).reshape(x.shape)
        return x + pe.astype(x.dtype)
