"""Stick-breaking attention: each key takes its part of what nearer keys left (Tan et al., 2024;
arXiv:2410.17980).

A_ij = s(z_ij) prod_{j < t < i} (1 - s(z_it)), s the logistic function, in place of the softmax: the
weights of a query sum to at most 1, and the nearest key that matches takes most. It is the order
that counts, so nothing is learned and no position needed; beyond the training length a key is
weighed as within it. In log space, A_ij = exp(z_ij - sum_{j <= t < i} softplus(z_it)).

A query does not see itself: the last key that it may see has weight 0, and so the attention of the
first token gives 0. The authors' code can also give what is left, 1 - sum_j A_ij, to v_i; not here.
Only a causal model has nearer keys.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.encoding import HIDDEN, Encoding, seen
from pe_jax.geometry import suffix_sums


@dataclasses.dataclass(frozen=True)
class StickBreaking(Encoding):
    """s(z_ij) prod (1 - s(z_it)) over the keys t between."""

    causal_only = "only it has nearer keys"

    def normalize(self, params, logits):
        keys = jnp.arange(logits.shape[-1])
        itself = jnp.max(jnp.where(seen(logits[:1]), keys[None, None], 0), -1, keepdims=True)
        z = jnp.where(keys[None, None] < itself, logits, HIDDEN)
        return jnp.exp(z - suffix_sums(jax.nn.softplus(z)))
