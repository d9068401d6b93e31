"""Sinusoidal absolute positions (Vaswani et al., 2017; arXiv:1706.03762).

PE(pos, 2i) = sin(pos w_i), PE(pos, 2i + 1) = cos(pos w_i), w_i = base^(-2i / D); the input becomes
x + PE. PE(pos + k) is a fixed rotation of PE(pos), and PE(pos) . PE(pos + k) = sum_i cos(w_i k).
Nothing is learned. Beyond the training length values stay bounded, but most combinations are
unseen.

variant="t2t" is the authors' code (tensor2tensor): w_i = base^(-i / (D/2 - 1)), so that the slowest
wave is 1 / base, and all sines before all cosines. The paper multiplies the token embeddings by
sqrt(D); here they enter at unit scale (LmConfig), to the same end.
"""

import dataclasses
from typing import Literal

import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.fields import Positive
from pe_jax.geometry import angles, inverse_timescales


@dataclasses.dataclass(frozen=True)
class Sinusoidal(Encoding):
    """x + PE, sines and cosines interleaved."""

    even = "model"
    base: Positive = 10000.0
    variant: Literal["paper", "t2t"] = "paper"

    def embed(self, params, x, tokens, pos):
        D = self.dims.model
        if self.variant == "t2t":  # base^(-i / (D/2 - 1)) is b^(-2i / D) with b = base^(D / (D-2))
            angle = angles(pos, inverse_timescales(D, self.base ** (D / max(1, D - 2))))
            pe = jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], axis=-1)
        else:
            angle = angles(pos, inverse_timescales(D, self.base))
            pe = jnp.stack([jnp.sin(angle), jnp.cos(angle)], axis=-1).reshape(len(pos), D)
        return x + pe.astype(x.dtype)
