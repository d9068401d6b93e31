"""Polar coordinate positions, PoPE: what in the magnitudes, where in the angles (Gopalakrishnan et
al., 2025; arXiv:2509.10534).

logit_ij = sum_c softplus(q_ic) softplus(k_jc) cos((j - i) w_c + delta_hc) / sqrt(K), where
w_c = base^(-c / K), c = 0 .. K - 1. RoPE turns K / 2 pairs, whose own angles are content; here each
of the K components is the length of a vector that position alone turns. Learned, in each layer:
delta, [H, K], the phase at which head h attends most at frequency c, between -2 pi and 0; 0 at
first. Beyond the training length the slow components reach unseen angles.

In the dot product q and k have 2K components (cosines, sines), which no later member should rotate
or offset. Another member's `scale` multiplies q inside the softplus. Outside its bounds delta is
clamped, and its gradient passes (geometry.clamp).
"""

import dataclasses
import math

import jax
import jax.numpy as jnp

from pe_jax.encodings.rotary import Turned
from pe_jax.fields import Positive
from pe_jax.geometry import angles, clamp, inverse_timescales


@dataclasses.dataclass(frozen=True)
class PoPE(Turned):
    """Components of lengths softplus(q) and softplus(k), turned by their positions."""

    even = None  # no components are paired
    base: Positive = 10000.0
    per_layer: tuple[str, ...] = dataclasses.field(default=("*",), kw_only=True)

    def init(self, key):
        return {"delta": jnp.zeros((self.dims.heads, self.dims.head))}

    def _angles(self, params, pos):
        return angles(pos, inverse_timescales(2 * self.dims.head, self.base))

    def qk(self, params, q, k, q_pos, k_pos):
        delta = clamp(params["delta"], -2 * math.pi, 0.0)
        unscaled = self.dims.head**0.5
        return (
            _polar(q, unscaled, self._angles(params, q_pos)[:, None]),
            _polar(k, 1.0, self._angles(params, k_pos)[:, None] + delta[None]),
        )


def _polar(x, unscaled, angle):
    # Vectors of the lengths softplus(x) at these angles, all cosines before all sines: [L, H, 2K].
    # `unscaled` undoes the scale that x came with, for the softplus alone: sqrt(K) of queries.
    length = jax.nn.softplus(unscaled * x.astype(jnp.float32)) / unscaled
    return jnp.concatenate([length * jnp.cos(angle), length * jnp.sin(angle)], -1).astype(x.dtype)
