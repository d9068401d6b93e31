"""A universal relative position: weights times a learned function of the distance (Luo et al.,
2022; arXiv:2205.13401).

o_i = sum_j c[h, i - j] softmax(z + b)_ij v_j, where b is the bias of another encoding (t5+urpe).
The products are not normalised again, so that attention depends on the length of its input.
Learned: c, a number for each head and distance, 1 at first; distances are 0 .. rows - 1, on both
sides if the model is not causal. Distances beyond the last, and so beyond the training length, take
the last number, a choice of this file.
"""

import dataclasses

import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.fields import Count


@dataclasses.dataclass(frozen=True)
class URPE(Encoding):
    """Weights times c[h, i - j]."""

    rows: Count | None = None
    """The distances on one side that have a number of their own. None: the training length."""

    def constant_from(self):
        return self.trained_from() - 1

    def trained_from(self):
        return self.rows or self.dims.train_len

    def init(self, key):
        rows = (1 if self.dims.causal else 2) * self.constant_from() + 1
        return {"c": jnp.ones((self.dims.heads, rows))}

    def relative_gate(self, params, n):
        last = self.constant_from()
        first = 0 if self.dims.causal else -last
        return params["c"][:, jnp.clip(jnp.round(n).astype(jnp.int32), first, last) - first]
