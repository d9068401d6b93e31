"""Scalable softmax, SSMax: logits times s_h ln(i + 1) (Nakanishi, 2025; arXiv:2501.19399).

i + 1 is the number of keys that a causal query sees. Learned: s, [H] in each layer; with
offset=True also b, [H], and logits are multiplied by s_h ln(i + 1) + b_h, which the paper finds to
extrapolate worse. At first s is 1 / the mean of ln n over n = 1 .. the training length, so that
logits begin on average as large as without it; the 0.43 of the paper's figure 1 would make them 1.4
times as large at 64 tokens, 2.6 times at 1,024. Beyond the training length the softmax stays as
sharp as the number of keys grows. A bidirectional model takes i + 1 too, which is then not the
number of its keys.
"""

import dataclasses
import math

import jax.numpy as jnp

from pe_jax.encoding import Encoding


@dataclasses.dataclass(frozen=True)
class SSMax(Encoding):
    """s_h ln(i + 1) [+ b_h] on the queries."""

    from_zero = True
    s: float | None = None
    """The initial value. None: 1 / the mean of ln n, n = 1 .. the training length."""
    offset: bool = False
    per_layer: tuple[str, ...] = dataclasses.field(default=("*",), kw_only=True)

    def init(self, key):
        length = max(2, self.dims.train_len)
        start = length / math.lgamma(length + 1) if self.s is None else self.s
        s = jnp.full(self.dims.heads, start, jnp.float32)
        return {"s": s, "b": jnp.zeros_like(s)} if self.offset else {"s": s}

    def scale(self, params, q_pos):
        keys = jnp.maximum(q_pos.astype(jnp.float32) + 1.0, 1.0)
        grown = jnp.log(keys)[:, None] * params["s"][None]
        return grown + params["b"][None] if self.offset else grown
