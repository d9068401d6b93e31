"""Path-integral GRAPE, GRAPE-AP: a bias that adds up over the keys between, by a match of the query
with each of them (Zhang et al., 2025; arXiv:2512.07805).

logit_ij + m_h sum_{l = j+1 .. i} ln sigmoid(p_i . R_l p'_l / P), m_h ALiBi's slopes. p = x W, of P
components, from the layer's normalised input; p' is p at unit mean square, R_l turns its P / 2
pairs by l radians each. Learned, in each layer: W, [D, H, P], from N(0, 1 / 4D). A match of 0 is
ALiBi with a slope of m ln 2. Beyond the training length the sums go on, so far keys fade out.

Formula and initial values follow the authors' code, where the query's p is neither turned nor
normalised, so that a match depends on the position l and not on a distance. Only causal models.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding, seen
from pe_jax.fields import Even
from pe_jax.geometry import rotate, slopes, suffix_sums


@dataclasses.dataclass(frozen=True)
class GrapeAP(Encoding):
    """Sums of the matches of p with R p', which `locate` computes."""

    causal_only = "its sums are over the keys up to the query"
    whole_rows = True
    size: Even = 8
    """P."""
    per_layer: tuple[str, ...] = dataclasses.field(default=("*",), kw_only=True)

    def init(self, key):
        D = self.dims.model
        return {"w": 0.5 * D**-0.5 * jax.random.normal(key, (D, self.dims.heads, self.size))}

    def locate(self, params, x, pos, before):
        p = jnp.einsum("ld,dhp->lhp", x, params["w"])
        unit = p * jax.lax.rsqrt((p**2).mean(-1, keepdims=True) + 1e-7)
        angle = jnp.broadcast_to(pos.astype(jnp.float32)[:, None], (len(pos), self.size // 2))
        return {"p": p, "turned": rotate(unit, angle)}

    def logits(self, params, logits, q, k, q_pos, k_pos):
        match = jnp.einsum("thp,shp->hts", q_pos["p"], k_pos["turned"]) / self.size
        steps = jnp.where(seen(logits), jax.nn.log_sigmoid(match), 0.0)
        m = jnp.asarray(slopes(self.dims.heads), jnp.float32)[:, None, None]
        return logits + m * (suffix_sums(steps) - steps)
