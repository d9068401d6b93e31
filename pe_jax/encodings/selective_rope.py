"""Selective RoPE: rotations by angles that a convolution over the last tokens adds up (Movahedi et
al., 2025; arXiv:2511.17388).

Pair i of token m is turned by tau_i sum_{t <= m} g_t phi_ti in each head, phi = SiLU(conv(W y)), y
= x / |x| the layer's normalised input divided by its length; the convolution is over the last four
tokens, for each component apart. g = sigmoid(u . y + b) is a number for each head, and tau_i =
base^(-2i / K) is fixed. Learned, in each layer: W, of low rank, as [D, rank] and [rank, H, K / 2],
the taps, [4, H, K / 2], u, [D, H], and b, [H], 0 at first. Beyond the training length sums reach
unseen angles.

The paper begins with queries for y. This is the form of its section 4.3, for stability and quality:
y, a rank of 8 or 16, the SiLU and the phase gate. Rank 16, four taps and the base are the code's,
where SiLU and gate are off unless asked for. Deviations: the code divides each head's part of x by
its own length, and has a learned bias, which adds little; the two factors of W are N(0, 1 / inputs)
at first.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.encodings.convolved import convolved, draw, gate
from pe_jax.encodings.rotary import Rotary
from pe_jax.fields import Count, Positive

TAPS = 4  # tokens that the convolution sees


@dataclasses.dataclass(frozen=True)
class SelectiveRoPE(Rotary):
    """Rotations by the sums of g phi, which `locate` computes."""

    base: Positive = 500000.0
    rank: Count = 16
    per_layer: tuple[str, ...] = dataclasses.field(default=("*",), kw_only=True)

    def init(self, key):
        return draw(key, self.dims, self.rank, TAPS, self._size // 2)

    def locate(self, params, x, pos, before):
        sums, rows = (None, None) if before is None else (before["sums"], before["rows"])
        x = x * jax.lax.rsqrt((x**2).sum(-1, keepdims=True) + 1e-6)
        phi, rows = convolved(params, x, rows)
        turned = jnp.cumsum(gate(params, x)[..., None] * jax.nn.silu(phi), axis=0)
        turned = turned if sums is None else turned + sums[None]
        return {"sums": turned, "rows": rows}

    def _angles(self, params, pos):
        return pos["sums"] * self._frequencies()[None, None]
