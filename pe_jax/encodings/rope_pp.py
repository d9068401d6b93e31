"""RoPE++: half of the heads take the imaginary part of RoPE's product (Liu et al., 2025;
arXiv:2512.07525).

RoPE's logit is Re sum_c q_c conj(k_c) e^{i n w_c}, n = i - j. Each head h of the first half,
rounded up, has it; head h of the second half has Im of the same sum, with the queries and keys of
head h - ceil(H / 2): q turned by a quarter less. For q = k it is sum_c |q_c|^2 sin(n w_c), which is
not largest at distance 0. Nothing is learned, and the queries and keys of the second half are not
read. Beyond the training length slow pairs reach unseen angles, as RoPE's do.

This is the authors' form with equal heads (EH). There both heads of a pair share their values, too;
here each has its own.
"""

import dataclasses
import math

import jax.numpy as jnp

from pe_jax.encodings.rotary import Rotary
from pe_jax.geometry import rotate


@dataclasses.dataclass(frozen=True)
class RoPEPP(Rotary):
    """q and k rotated by their positions, q of the second half of the heads by pi / 2 less."""

    def qk(self, params, q, k, q_pos, k_pos):
        H = self.dims.heads
        real = H - H // 2
        q, k = (jnp.concatenate([x[:, :real], x[:, : H - real]], axis=1) for x in (q, k))
        less = jnp.where(jnp.arange(H) < real, 0.0, math.pi / 2)[None, :, None]
        q_angles = self._angles(params, q_pos)[:, None] - less
        return rotate(q, q_angles), rotate(k, self._angles(params, k_pos))
