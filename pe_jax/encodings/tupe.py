"""Untied absolute positions and a relative bias (Ke et al., 2021, TUPE-R; arXiv:2006.15595).

logit_ij = [q_i . k_j + (LN(p_i) U_Q) . (LN(p_j) U_K)] / sqrt(2K) + b[h, bucket(i - j)]: the word
and the position meet in products of their own. Learned, once for all layers: p, [length, D], U_Q
and U_K, [D, H, K], and b, [H, buckets], in T5's buckets. Positions beyond p are undefined: `limit`
says so, results print n/a, and a lookup there gives NaN.

Deviations: the paper unties [CLS] from positions, and here there is no such token; its LN has a
learned scale, which U_Q and U_K can take over, and a learned shift. p starts at unit scale and U at
D^-1/2, so that the term starts at the content's scale at any D.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.encodings.t5 import T5
from pe_jax.fields import Count
from pe_jax.geometry import lookup


@dataclasses.dataclass(frozen=True)
class TUPE(Encoding):
    """The positions' products as a bias, T5's bias, and the scale 1 / sqrt(2) of both products."""

    length: Count | None = None
    """Rows of p; None: the training length."""
    buckets: Count = 32
    max_distance: Count | None = None
    """As in t5.py."""

    def __post_init__(self):
        _ = self._t5  # which checks buckets and max_distance

    @property
    def _t5(self):
        return T5(self.dims, self.buckets, self.max_distance)

    def init(self, key):
        D, H, K, *_ = self.dims
        p, u, b = jax.random.split(key, 3)
        w_q, w_k = D**-0.5 * jax.random.normal(u, (2, D, H, K))
        table, bias = jax.random.normal(p, (self.limit(), D)), self._t5.init(b)["table"]
        return {"table": table, "query": w_q, "key": w_k, "bias": bias}

    def limit(self):
        return self.length or self.dims.train_len

    def constant_from(self):
        return self._t5.constant_from()

    def trained_from(self):
        return max(self.limit(), self._t5.trained_from())

    def bias(self, params, q_pos, k_pos):
        def vectors(pos, kernel):
            rows = lookup(params["table"], pos)
            return jnp.einsum("ld,dhk->lhk", jax.nn.standardize(rows, axis=-1), params[kernel])

        q, k = vectors(q_pos, "query"), vectors(k_pos, "key")
        return (2 * self.dims.head) ** -0.5 * jnp.einsum("thk,shk->hts", q, k)

    def relative_bias(self, params, n):
        return self._t5.relative_bias({"table": params["bias"]}, n)

    def scale(self, params, q_pos):
        return jnp.full((q_pos.shape[0], self.dims.heads), 2**-0.5)
