"""Context-aware rotary positions, CARoPE: each token decides how far the next one is (Veisi et al.,
2025; arXiv:2507.23083).

In head h the pair i, i = 0 .. K / 2 - 1, of token m is turned by sum_{t <= m} f_h(x_t)^i, where
f(x) = 1 / (softplus(x W + b) + 1), between 0 and 1; RoPE has a constant f, base^(-2 / K). Learned,
in each layer: W, [D, H], and b, [H]. Beyond the training length slow pairs reach unseen angles, as
RoPE's do.

The authors begin with RoPE, and do not say how; their f has no b. Here W is 0 at first and b such
that f is RoPE's, to which no W alone comes. Their x is the token's embedding; here it is the
normalised input of each layer, which is that of the embedding in the first one alone.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.encodings.rotary import Turned
from pe_jax.fields import AboveOne
from pe_jax.geometry import inverse_softplus


@dataclasses.dataclass(frozen=True)
class CARoPE(Turned):
    """Rotations by the sums of f^i, which `locate` computes."""

    base: AboveOne = 10000.0
    """Of the RoPE that it begins with."""
    per_layer: tuple[str, ...] = dataclasses.field(default=("*",), kw_only=True)

    def init(self, key):
        b = inverse_softplus(self.base ** (2 / self.dims.head) - 1)
        return {
            "w": jnp.zeros((self.dims.model, self.dims.heads)),
            "b": jnp.full(self.dims.heads, b),
        }

    def locate(self, params, x, pos, before):
        log_f = -jnp.log1p(jax.nn.softplus(x @ params["w"] + params["b"][None]))
        powers = jnp.arange(self.dims.head // 2, dtype=jnp.float32)
        sums = jnp.cumsum(jnp.exp(log_f[..., None] * powers[None, None]), axis=0)
        return (sums if before is None else sums + before[None]) % (2 * jnp.pi)

    def _angles(self, params, pos):
        return pos
