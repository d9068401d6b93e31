"""Relative position vectors (Shaw et al., 2018; arXiv:1803.02155).

logit_ij = q_i . (k_j + a_n) / sqrt(K), o_i = sum_j w_ij (v_j + b_n), with n = i - j clipped to
-k .. k. Learned: a and b, one row a distance, shared by the heads and, unless per_layer says
otherwise, by the layers; a causal model meets n >= 0 alone and has k + 1 rows, another 2k + 1.
Beyond the training length every distance over k takes the last row, which training has seen.

The paper's k is 16 for translation; None is min(16, train_len - 1), so that every row is trained.
The paper has rows for each layer (per_layer=("*",)). values=False leaves b out, which the paper's
table 3 finds as good. Fractional distances, as with CAPE, are rounded.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.fields import Count


@dataclasses.dataclass(frozen=True)
class Shaw(Encoding):
    """a_n as relative keys, b_n as relative values."""

    clip: Count | None = None
    """k. None: min(16, the training length - 1)."""
    values: bool = True
    """Whether there are relative values b."""

    def constant_from(self):
        return self.clip or max(1, min(16, self.dims.train_len - 1))

    def trained_from(self):
        return self.constant_from() + 1

    def init(self, key):
        rows = (1 if self.dims.causal else 2) * self.constant_from() + 1
        names, std = ("keys", "values") if self.values else ("keys",), self.dims.head**-0.5
        return {
            name: std * jax.random.normal(jax.random.fold_in(key, i), (rows, self.dims.head))
            for i, name in enumerate(names)
        }

    def _rows(self, table, n):
        last = self.constant_from()
        first = 0 if self.dims.causal else -last
        rows = table[jnp.clip(jnp.round(n).astype(jnp.int32), first, last) - first]
        return jnp.broadcast_to(rows[None], (self.dims.heads, *rows.shape))

    def relative_keys(self, params, n):
        return self._rows(params["keys"], n)

    def relative_values(self, params, n):
        return self._rows(params["values"], n) if self.values else 0.0
