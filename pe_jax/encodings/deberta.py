"""Disentangled attention (He et al., 2021; arXiv:2006.03654).

logit_ij = [q_i . k_j + q_i . (r_d(i,j) W_K) + k_j . (r_d(j,i) W_Q)] / sqrt(3K), content to content,
content to position, position to content; d(i, j) = clip(i - j + k, 0, 2k - 1). Learned, once for
all layers: r, [2k, D], W_Q and W_K, [D, H, K]. Beyond the training length distances over k look
alike. The paper's late absolute positions are a second member: deberta+learned[-1:].

variant="v2", their later code: distances over k / 2 fall into logarithmic buckets up to 2k. The
paper's k is 512, v2's 256; None trains every row. Deviation: the paper reuses each layer's W_Q and
W_K of the content; here r has its own. It starts at unit scale and they at D^-1/2.
"""

import dataclasses
import math
from typing import Literal

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding


@dataclasses.dataclass(frozen=True)
class DeBERTa(Encoding):
    """Relative keys, relative queries, and the scale 1 / sqrt(3) of all products."""

    clip: int | None = None
    """k. None: min(512, the training length - 1), in v2 min(256, half the training length)."""
    variant: Literal["v1", "v2"] = "v1"

    def __post_init__(self):
        if self.variant not in ("v1", "v2") or self._clip < 2:
            raise ValueError(f"deberta takes variant v1 or v2 and clip of 2 or more, got {self}")

    @property
    def _clip(self):
        L, first = self.dims.train_len, self.variant == "v1"
        return self.clip or max(2, min(512, L - 1) if first else min(256, L // 2))

    def init(self, key):
        D, H, K, *_ = self.dims
        r, q, k = jax.random.split(key, 3)
        own = {n: D**-0.5 * jax.random.normal(w, (D, H, K)) for n, w in (("query", q), ("key", k))}
        return own | {"table": jax.random.normal(r, (2 * self._clip, D))}

    def _vectors(self, params, kernel, m):
        k, m = self._clip, jnp.round(m).astype(jnp.int32)
        if self.variant == "v2":
            exact = k // 2
            ratio = jnp.log(jnp.maximum(jnp.abs(m), exact) / exact) / math.log((2 * k - 1) / exact)
            far = jnp.ceil((exact - 1) * ratio - 1e-5).astype(jnp.int32) + exact
            m = jnp.where(jnp.abs(m) <= exact, m, jnp.sign(m) * far)
        rows = jnp.einsum("rd,dhk->hrk", params["table"], params[kernel])
        return rows[:, jnp.clip(m + k, 0, 2 * k - 1)]

    def relative_keys(self, params, n):
        return self._vectors(params, "key", n)

    def relative_queries(self, params, n):
        return (3 * self.dims.head) ** -0.5 * self._vectors(params, "query", -n)

    def scale(self, params, q_pos):
        return jnp.full((q_pos.shape[0], self.dims.heads), 3**-0.5)
