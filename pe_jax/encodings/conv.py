"""Convolutions that leak position by their padding (Gehring et al., 2017, arXiv:1705.03122; what a
network reads from zeros beyond the edge: Islam et al., 2020, arXiv:2001.08248).

`depth` times: x = sqrt(0.5) (x + GLU(conv(x))), GLU([a; g]) = a sigmoid(g), over the last `kernel`
tokens, this one included (around it, where the model is not causal), and zeros before the first.
Learned: kernels, [depth, kernel D, 2 D], from N(0, 4 / (kernel D)) as in the paper, and biases.

It reads the order of the tokens and not `pos`. Only the first depth (kernel - 1) tokens meet the
padding: further in a token sees its neighbours, but not where it is, at any length.

Deviations: no weight normalisation; the paper adds a learned table besides (`learned+conv`) and has
these convolutions in every layer (`conv[0:]`) in place of the rest of a Transformer.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.fields import AtLeastTwo, Count


@dataclasses.dataclass(frozen=True)
class Conv(Encoding):
    """Gated convolutions over the input."""

    kernel: AtLeastTwo = 3
    depth: Count = 2

    def init(self, key):
        D = self.dims.model
        shape = (self.depth, self.kernel * D, 2 * D)
        std = (4 / (self.kernel * D)) ** 0.5
        return {
            "kernel": std * jax.random.normal(key, shape),
            "bias": jnp.zeros((self.depth, 2 * D)),
        }

    def embed(self, params, x, tokens, pos):
        L, before = len(x), self.kernel - 1 if self.dims.causal else self.kernel // 2
        for w, b in zip(params["kernel"], params["bias"], strict=True):
            real = jnp.where(tokens[:, None] < 0, 0, x)
            padded = jnp.pad(real, [(before, self.kernel - 1 - before), (0, 0)])
            near = jnp.concatenate([padded[i : i + L] for i in range(self.kernel)], axis=-1)
            out, gate = jnp.split(near @ w.astype(x.dtype) + b.astype(x.dtype)[None], 2, axis=-1)
            x = (x + out * jax.nn.sigmoid(gate)) * 0.5**0.5
        return x
