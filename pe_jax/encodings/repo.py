"""RePo: RoPE at real positions that each token chooses for itself (Li et al., 2025;
arXiv:2512.14391).

Pair i of token t is turned by z_th base^(-2i / K) in head h, z_t = (SiLU(x_t W_g) * x_t W_c) W_z,
with x the layer's normalised input. Nothing is added up: a token's position depends on the others
through x alone, so that one layer by itself does not know their order. Learned, in each layer: W_g
and W_c, [D, hidden], and W_z, [hidden, H]. Beyond the training length no position need be new.

By the authors' code; of the paper only the abstract could be read for this file. There, hidden is
D / 8 and the base 500000, and a model of sixteen layers that was trained with RoPE keeps it in the
first five: rope[:5]+repo[5:]. Here weights are N(0, 1 / inputs) at first.
"""

import dataclasses

import jax

from pe_jax.encodings.rotary import Rotary
from pe_jax.fields import Count, Positive


@dataclasses.dataclass(frozen=True)
class RePo(Rotary):
    """RoPE at positions z, which `locate` computes from the tokens."""

    base: Positive = 500000.0
    hidden: Count | None = None
    """Numbers between. None: an eighth of the model's size."""
    per_layer: tuple[str, ...] = dataclasses.field(default=("*",), kw_only=True)

    def init(self, key):
        D, hidden = self.dims.model, self.hidden or max(1, self.dims.model // 8)
        gate, content, final = jax.random.split(key, 3)
        return {
            "gate": D**-0.5 * jax.random.normal(gate, (D, hidden)),
            "content": D**-0.5 * jax.random.normal(content, (D, hidden)),
            "final": hidden**-0.5 * jax.random.normal(final, (hidden, self.dims.heads)),
        }

    def locate(self, params, x, pos, before):
        hidden = jax.nn.silu(x @ params["gate"]) * (x @ params["content"])
        return hidden @ params["final"]

    def _angles(self, params, pos):
        return pos[..., None] * self._frequencies()[None, None]
