"""FIRE, progressive interpolation: logits + f_h(psi(i - j) / psi(max(i, |m| T))) (Li et al., 2024;
arXiv:2310.04418).

psi(x) = ln(|c| x + 1), f is an MLP 1-width-H with a ReLU. Learned, in each layer: f, c (0.1 at
first) and m (1 at first); per_layer=() is the paper's FIRE-S, one for all layers. Beyond the
training length distances are relative to the query's position, so that f meets [0, 1] alone.

The threshold T is 512 in the paper, for a training length of 2048; None is the training length. As
in the paper's listing 1e-6 is added to the divisor. Deviations: f has no output bias, which would
cancel in the softmax; a bidirectional model uses |i - j|, and meets more than 1 at early queries.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.fields import Count, Positive
from pe_jax.geometry import mlp, mlp_init


@dataclasses.dataclass(frozen=True)
class FIRE(Encoding):
    """f(psi(|i - j|) / psi(max(i, |m| T)))."""

    width: Count = 32
    """Of the hidden layer of f."""
    c: Positive = 0.1
    """Its initial value."""
    threshold: Count | None = None
    """T. None: the training length."""
    per_layer: tuple[str, ...] = dataclasses.field(default=("*",), kw_only=True)

    @property
    def _threshold(self):
        return self.dims.train_len if self.threshold is None else self.threshold

    def init(self, key):
        drawn = mlp_init(key, (1, self.width, self.dims.heads))
        return {"c": jnp.float32(self.c), "m": jnp.float32(1.0), **drawn}

    def bias(self, params, q_pos, k_pos):
        def psi(x):
            return jnp.log1p(jnp.abs(params["c"]) * x)

        threshold = jnp.abs(params["m"]) * self._threshold
        i, j = q_pos.astype(jnp.float32), k_pos.astype(jnp.float32)
        most = (psi(jnp.maximum(i, threshold)) + 1e-6)[:, None]
        ratio = psi(jnp.abs(i[:, None] - j[None])) / most

        @jax.checkpoint
        def of_query(query):
            return mlp(params, query[:, None])

        at_once = max(1, 4096 // ratio.shape[1])  # few queries: `width` numbers for each pair
        return jnp.moveaxis(jax.lax.map(of_query, ratio, batch_size=at_once), -1, 0)
