"""Log-n scaling: logits times max(1, ln(i + 1) / ln L) (Su, 2021, kexue.fm/archives/8823; Chiang
and Cholak, 2022, arXiv:2202.12172).

L is the training length. Nothing is learned, and nothing changes within L, so that it can be a swap
in models that move no positions; beyond L the softmax over the i + 1 keys gets sharper.
"""

import dataclasses
import math

import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.fields import Count


@dataclasses.dataclass(frozen=True)
class LogN(Encoding):
    """max(1, ln(i + 1) / ln L) on the queries."""

    from_zero = True
    causal_only = "it counts the keys up to a query"
    length: Count | None = None
    """L. None: the training length."""

    def __post_init__(self):
        if self._length < 2:
            raise ValueError(f"log_n's length must be at least 2, got {self._length}; set length")

    @property
    def _length(self):
        return self.length or self.dims.train_len

    def scale(self, params, q_pos):
        keys = jnp.maximum(q_pos.astype(jnp.float32) + 1.0, self._length)
        grown = jnp.maximum(1.0, jnp.log(keys) / math.log(self._length))
        return jnp.broadcast_to(grown[:, None], (grown.size, self.dims.heads))
