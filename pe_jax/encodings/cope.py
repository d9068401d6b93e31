"""Contextual positions, CoPE (Golovneva et al., 2024; arXiv:2405.18719).

logit_ij = q_i . (k_j + e[p_ij]) / sqrt(K), where p_ij = sum_{t = j .. i} g_it counts the keys from
j to i that the query lets count, g_it = sigmoid(q_i . k_t / sqrt(K)), and e[p] is interpolated
between rows: positions may count words or sentences. Learned, once for all layers: e, [positions,
K], 0 at first as in the authors' code. Counts beyond the last row take it, so that nothing is
undefined beyond the training length, and nothing told apart there.

The authors' table has 64 rows; None is min(64, train_len). Gates are of the content, before
rotations and biases of other members, and 0 at hidden keys. Only a causal model counts back from
its query.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding, seen
from pe_jax.geometry import lookup_between, suffix_sums


@dataclasses.dataclass(frozen=True)
class CoPE(Encoding):
    """q . e[p], p the sums of gates over the keys from j on."""

    whole_rows = True
    rows: int | None = None
    """Of e. None: min(64, the training length)."""

    def __post_init__(self):
        if not self.dims.causal:
            raise ValueError("cope needs a causal model: set lm.causal=True")
        if self._rows < 2:
            raise ValueError(f"cope's rows must be at least 2, got {self._rows}; raise it")

    @property
    def _rows(self):
        return max(2, min(64, self.dims.train_len)) if self.rows is None else self.rows

    def trained_from(self):
        return self._rows

    def init(self, key):
        return {"table": jnp.zeros((self._rows, self.dims.head))}

    def logits(self, params, logits, q, k, q_pos, k_pos):
        s = jnp.einsum("thk,shk->hts", q, k, preferred_element_type=jnp.float32)
        gates = jnp.where(seen(logits), jax.nn.sigmoid(s), 0.0)
        count = jnp.minimum(suffix_sums(gates), self._rows - 1.0)
        at = jnp.einsum("thk,rk->htr", q.astype(jnp.float32), params["table"])
        return logits + lookup_between(at, count)
