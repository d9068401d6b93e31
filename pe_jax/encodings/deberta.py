"""Disentangled attention (He et al., 2021; arXiv:2006.03654).

logit_ij = [q_i . k_j + q_i . (r_d(i,j) W_K) + k_j . (r_d(j,i) W_Q)] / sqrt(3K), where d(i, j) is
clip(i - j + k, 0, 2k - 1). Learned, once for all layers: r, [2k, D], from N(0, 1), and W_Q and W_K,
[D, H, K], from N(0, 1 / D). Beyond the training length distances over k look alike. The paper's
late absolute positions are a second member: deberta+learned[-1:].

variant="v2", as in their later code: distances over k / 2 fall into logarithmic buckets up to 2k.
W_Q and W_K are the encoding's own, in the paper the content projections of each layer; the third
term has the paper's d(j, i), where their code has d(i, j).
"""

import dataclasses
from typing import Literal

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.fields import AtLeastTwo


@dataclasses.dataclass(frozen=True)
class DeBERTa(Encoding):
    """Relative keys, relative queries, and the scale 1 / sqrt(3) of all products."""

    clip: AtLeastTwo | None = None
    """k, in the paper 512, in v2 256. None: up to these, all that training reaches; even in v2."""
    variant: Literal["v1", "v2"] = "v1"

    def __post_init__(self):
        if self.variant == "v2" and (self._clip % 2 or self._clip < 4):
            raise ValueError(
                "deberta's clip must be even and at least 4 in v2, half of whose distances are "
                f"exact, got {self._clip}; change it"
            )

    @property
    def _clip(self):
        L = self.dims.train_len
        v1, v2 = max(2, min(512, L - 1)), max(4, min(256, (L - 1) // 2) // 2 * 2)
        return (v1 if self.variant == "v1" else v2) if self.clip is None else self.clip

    def constant_from(self):
        return self._clip if self.variant == "v1" else 2 * self._clip

    def trained_from(self):
        return self.constant_from() + 1

    def init(self, key):
        D, (r, w) = self.dims.model, jax.random.split(key)
        w_q, w_k = D**-0.5 * jax.random.normal(w, (2, D, self.dims.heads, self.dims.head))
        return {"table": jax.random.normal(r, (2 * self._clip, D)), "query": w_q, "key": w_k}

    def _vectors(self, params, kernel, m):
        """r_d of the distances m, times W_Q or W_K: [H, N, K]."""
        k, m = self._clip, jnp.round(m).astype(jnp.int32)
        if self.variant == "v2":
            exact = k // 2
            x = (exact - 1) / jnp.log((2 * k - 1) / exact) * jnp.log(jnp.abs(m) / exact)
            # 1e-5: a rounding error must not lift x to the next whole number
            far = exact + jnp.ceil(jnp.maximum(x, 0) - 1e-5).astype(jnp.int32)
            m = jnp.where(jnp.abs(m) > exact, jnp.sign(m) * far, m)
        rows = jnp.einsum("rd,dhk->hrk", params["table"], params[kernel])
        return rows[:, jnp.clip(m + k, 0, 2 * k - 1)]

    def relative_keys(self, params, n):
        return self._vectors(params, "key", n)

    def relative_queries(self, params, n):
        return (3 * self.dims.head) ** -0.5 * self._vectors(params, "query", -n)

    def scale(self, params, q_pos):
        return jnp.full((q_pos.shape[0], self.dims.heads), 3**-0.5)
