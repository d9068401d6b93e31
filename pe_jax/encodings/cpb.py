"""Continuous position bias: logits + MLP_h(sign(i - j) ln(1 + |i - j|)) (Liu et al., 2022, Swin v2;
arXiv:2111.09883).

The MLP has `depth` hidden layers of `width` ReLUs, and an output a head. Learned: the MLP, one for
all layers (per_layer=("*",) for one each). Beyond the training length it is extrapolated, over
ln(L' / L): the paper's reason for the logarithm.

The paper's width is 512, for two coordinates of an image. variant="code": 16 sigmoid(MLP(sign(n)
log2(1 + 8 |n| / (L - 1)) / 3)), which scales the distances to the window, as the paper does not
say; the window is the training length L. As in the authors' code the output layer has no bias.
"""

import dataclasses
from typing import Literal

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.fields import Count
from pe_jax.geometry import mlp, mlp_init


@dataclasses.dataclass(frozen=True)
class CPB(Encoding):
    """MLP(sign(n) ln(1 + |n|))."""

    depth: Count = 1
    """Hidden layers."""
    width: Count = 32
    variant: Literal["paper", "code"] = "paper"

    def init(self, key):
        return mlp_init(key, (1, *[self.width] * self.depth, self.dims.heads))

    def relative_bias(self, params, n):
        n = n.astype(jnp.float32)
        if self.variant == "paper":
            return mlp(params, (jnp.sign(n) * jnp.log1p(jnp.abs(n)))[:, None]).T
        part = 8 * jnp.abs(n) / max(1, self.dims.train_len - 1)
        return 16 * jax.nn.sigmoid(mlp(params, (jnp.sign(n) * jnp.log2(1 + part) / 3)[:, None])).T
