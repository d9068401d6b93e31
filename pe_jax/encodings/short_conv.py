"""A short convolution in place of attention: the one that recurrent layers have before queries,
keys and values (Gu and Dao, 2023; arXiv:2312.00752).

y_t = W silu(sum_d c_d * x_{t - d}), d = 0 .. kernel - 1, of the layer's normalised input x, with
zeros before the first token: each component by itself, then a map. Learned, in each layer: c,
[kernel, D], and W, [D, D]. It tells apart the last kernel - 1 tokens and nothing beyond, at any
length; n layers together reach n (kernel - 1) tokens back.
"""

import dataclasses

import jax

from pe_jax.encoding import Encoding
from pe_jax.encodings import recurrences
from pe_jax.fields import AtLeastTwo
from pe_jax.geometry import uniform, wide


@dataclasses.dataclass(frozen=True)
class ShortConv(Encoding):
    """A causal convolution of each component."""

    kernel: AtLeastTwo = 4
    per_layer: tuple[str, ...] = dataclasses.field(default=("*",), kw_only=True)

    def init(self, key):
        D, (of_taps, of_out) = self.dims.model, jax.random.split(key)
        std = (2 * self.dims.layers * D) ** -0.5
        return {
            "taps": uniform(of_taps, (self.kernel, D), self.kernel),
            "out_kernel": std * jax.random.normal(of_out, (D, D)),
        }

    def mix(self, params, x, state):
        y, rows = recurrences.convolved(params["taps"], wide(x), state)
        return recurrences.linear(y.astype(x.dtype), params["out_kernel"]).astype(x.dtype), rows
