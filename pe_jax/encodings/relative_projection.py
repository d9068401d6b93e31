"""Inkling's relative projection: each token mixes its own bias from a few curves over the distance
(Thinking Machines, 2026; no paper, code of x-transformers, RelativeProjPositionalBias).

b_h(i, j) = sum_d (x_i W_h + c_h)_d bank[d, i - j], x_i the normalised input of the layer. Learned,
in each layer: W, [D, H, curves], c, [H, curves], both from U(-1, 1) / sqrt(D), and the bank,
[curves, distances], from N(0, 0.02^2). At distances beyond the bank the bias is 0: beyond the
training length such keys differ by content alone. Later keys have a bias of 0, too.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.fields import Count
from pe_jax.geometry import uniform, whole


@dataclasses.dataclass(frozen=True)
class RelativeProjection(Encoding):
    """Curves over the distance, mixed by weights that `locate` computes for each token."""

    curves: Count = 16
    distances: Count | None = None
    """Distances that have a bias, 0 .. distances - 1. None: the training length."""
    per_layer: tuple[str, ...] = dataclasses.field(default=("*",), kw_only=True)

    def trained_from(self):
        return self.distances or self.dims.train_len

    def init(self, key):
        D, H = self.dims.model, self.dims.heads
        of_w, of_c, of_bank = jax.random.split(key, 3)
        return {
            "w": uniform(of_w, (D, H, self.curves), D),
            "c": uniform(of_c, (H, self.curves), D),
            "bank": 0.02 * jax.random.normal(of_bank, (self.curves, self.trained_from())),
        }

    def locate(self, params, x, pos, before):
        weights = jnp.einsum("ld,dhc->lhc", x, params["w"]) + params["c"][None]
        return {"weights": weights, "pos": whole(pos)}

    def bias(self, params, q_pos, k_pos):
        n, end = q_pos["pos"][:, None] - k_pos["pos"][None], self.trained_from()
        every = jnp.einsum("thc,cn->htn", q_pos["weights"], params["bank"])
        at = jnp.clip(n, 0, end - 1)[None]
        inside = (n >= 0) & (n < end)
        return jnp.where(inside[None], jnp.take_along_axis(every, at, axis=-1), 0.0)
