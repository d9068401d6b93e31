"""Llama 4's temperature of far queries: logits times 1 + c ln(1 + floor((i + 1) / f)) (Meta, 2025;
formula from Hugging Face's code for Llama 4, `attn_temperature_tuning`).

c = `slope` is 0.1, and f is 8192 in Llama 4, where it acts in the layers without RoPE alone:
`rope[0::4,1::4,2::4]+temperature_tuning(length=8192)[3::4]`. None is the training length. Nothing
is learned, and nothing changes at the first f - 1 positions; beyond, softmaxes sharpen in steps.
"""

import dataclasses

import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.fields import Count, NotNegative


@dataclasses.dataclass(frozen=True)
class TemperatureTuning(Encoding):
    """1 + c ln(1 + floor((i + 1) / f)) on the queries."""

    from_zero = True
    causal_only = "it counts the keys up to a query"
    length: Count | None = None
    """f. None: the training length."""
    slope: NotNegative = 0.1
    """c."""

    def scale(self, params, q_pos):
        f = self.length or self.dims.train_len
        grown = 1 + self.slope * jnp.log1p(jnp.maximum((q_pos + 1) // f, 0))
        return jnp.broadcast_to(grown[:, None], (grown.size, self.dims.heads))
