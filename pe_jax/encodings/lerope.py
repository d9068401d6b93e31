"""LeRoPE: RoPE whose frequencies are learned (Karypis et al., 2026; arXiv:2607.10134).

The pair i is turned by pos * e^(alpha_i) base^(-2i / K). Learned, once for all layers and heads:
alpha, [K / 2], from 0, which is RoPE, without weight decay. Beyond the training length slow pairs
reach unseen angles, as RoPE's do; the authors report that it breaks down faster than RoPE there,
when the pair that it comes to rely on, with a wavelength of 2.2 training lengths, changes its sign.

The formula, what is shared and the start are from citations; the paper itself was not available.
"""

import dataclasses

import jax.numpy as jnp

from pe_jax.encodings.rotary import Turned
from pe_jax.fields import Positive
from pe_jax.geometry import angles, inverse_timescales


@dataclasses.dataclass(frozen=True)
class LeRoPE(Turned):
    """q and k rotated by their positions, at learned frequencies."""

    base: Positive = 10000.0
    """Of the RoPE that it begins with."""

    def init(self, key):
        return {"alpha": jnp.zeros(self.dims.head // 2)}

    def _angles(self, params, pos):
        return angles(pos, inverse_timescales(self.dims.head, self.base) * jnp.exp(params["alpha"]))
