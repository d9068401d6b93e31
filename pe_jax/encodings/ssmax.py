"""Scalable softmax, SSMax: logits times s_h ln(i + 1) (Nakanishi, 2025; arXiv:2501.19399).

i + 1 is the number of keys that a causal query sees. Learned: s, [H] in each layer, 0.43 at first,
the value that the paper shows it at; with offset=True also b, [H], and logits are multiplied by s_h
ln(i + 1) + b_h, which the paper finds to extrapolate worse. Beyond the training length the softmax
stays as sharp as the number of keys grows. A bidirectional model takes i + 1 too, which is then not
the number of its keys.
"""

import dataclasses

import jax.numpy as jnp

from pe_jax.encoding import Encoding


@dataclasses.dataclass(frozen=True)
class SSMax(Encoding):
    """s_h ln(i + 1) [+ b_h] on the queries."""

    s: float = 0.43
    """The initial value."""
    offset: bool = False
    per_layer: tuple[str, ...] = dataclasses.field(default=("*",), kw_only=True)

    def init(self, key):
        s = jnp.full(self.dims.heads, self.s, jnp.float32)
        return {"s": s, "b": jnp.zeros_like(s)} if self.offset else {"s": s}

    def scale(self, params, q_pos):
        keys = jnp.maximum(q_pos.astype(jnp.float32) + 1.0, 1.0)
        grown = jnp.log(keys)[:, None] * params["s"][None]
        return grown + params["b"][None] if self.offset else grown
