"""Contextual positions, CoPE (Golovneva et al., 2024; arXiv:2405.18719).

logit_ij = q_i . (k_j + e[p_ij]) / sqrt(K). The position p_ij = sum_{t = j .. i} g_it is the number
of keys from j to i, each counted by a gate between 0 and 1, g_it = sigmoid(q_i . k_t / sqrt(K)), so
that positions may count words or sentences; e[p] is interpolated between rows. Learned, once for
all layers: e, [rows, K], 0 at first as in the authors' code. Counts above the last row take that
row, so beyond the training length such keys cannot be distinguished.

The authors' table has 64 rows for texts of 1,024 tokens. At first gates are near one half, so a
query at the end of L tokens counts to L / 2, and no row beyond learns anything. None is
min(64, train_len // 2 + 1), and training reaches all.

Gates are of the content, before rotations and biases of other members, and 0 at hidden keys. Only a
causal model counts back from its query. Deviations: e is divided by sqrt(K) as in the authors'
code, not as in the paper's listing; both have a table in each layer (per_layer=("table",)).
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding, seen
from pe_jax.fields import AtLeastTwo
from pe_jax.geometry import lookup_between, suffix_sums


@dataclasses.dataclass(frozen=True)
class CoPE(Encoding):
    """q . e[p], p the sums of gates over the keys from j on."""

    causal_only = "its positions count the keys up to the query"
    whole_rows = True
    rows: AtLeastTwo | None = None
    """Rows of e. None: min(64, half of the training length + 1)."""

    @property
    def _rows(self):
        return self.rows or max(2, min(64, self.dims.train_len // 2 + 1))

    def trained_from(self):
        """The length whose half is the number of the last row, for gates of one half."""
        return 2 * (self._rows - 1)

    def init(self, key):
        return {"table": jnp.zeros((self._rows, self.dims.head))}

    def logits(self, params, logits, q, k, q_pos, k_pos):
        s = jnp.einsum("thk,shk->hts", q, k, preferred_element_type=jnp.float32)
        gates = jnp.where(seen(logits), jax.nn.sigmoid(s), 0.0)
        count = jnp.minimum(suffix_sums(gates), self._rows - 1.0)
        of_rows = jnp.einsum("thk,rk->htr", q.astype(jnp.float32), params["table"])
        return logits + lookup_between(of_rows, count)
