"""Sinusoidal absolute positions (Vaswani et al., 2017; arXiv:1706.03762).

PE(pos, 2i) = sin(pos w_i), PE(pos, 2i + 1) = cos(pos w_i), w_i = base^(-2i / D); the input becomes
x + PE. PE(pos + k) is a fixed rotation of PE(pos), and PE(pos) . PE(pos + k) = sum_i cos(w_i k).
Nothing is learned, but with merge="concatenate" W, [2D, D]: [x; PE] W, which starts as the sum,
W = [I; I]. merge="multiply" is x (1 + PE), as in Su's bert4keras; his article (2021,
kexue.fm/archives/8130) has x PE, where the zeros of PE(0) would erase half of the first token.
Beyond the training length the values stay bounded, but most of their combinations were never seen.

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
    merge: Literal["add", "multiply", "concatenate"] = "add"
    variant: Literal["paper", "t2t"] = "paper"

    def init(self, key):
        if self.merge != "concatenate":
            return {}
        return {"project": jnp.tile(jnp.eye(self.dims.model), (2, 1))}

    def embed(self, params, x, tokens, pos):
        pe = self._waves(pos).astype(x.dtype)
        if self.merge == "concatenate":
            return jnp.concatenate([x, pe], axis=-1) @ params["project"].astype(x.dtype)
        return x + pe if self.merge == "add" else x * (1 + pe)

    def _waves(self, pos):
        D = self.dims.model
        if self.variant == "t2t":  # base^(-i / (D/2 - 1)) is b^(-2i / D) with b = base^(D / (D-2))
            angle = angles(pos, inverse_timescales(D, self.base ** (D / max(1, D - 2))))
            return jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], axis=-1)
        angle = angles(pos, inverse_timescales(D, self.base))
        return jnp.stack([jnp.sin(angle), jnp.cos(angle)], axis=-1).reshape(len(pos), D)
