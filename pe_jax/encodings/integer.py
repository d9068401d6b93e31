"""The raw index as a feature: x_i + i w, the first naive baseline.

No paper proposes it; arguments for the sinusoid begin by dismissing it. Learned: w, [D], the
direction in which the index is written. Beyond the training length the feature grows on in
proportion to the index, until it drowns the tokens.

w starts at N(0, std^2), std = 1 / train_len: the last position of training has the tokens' scale.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.fields import NotNegative


@dataclasses.dataclass(frozen=True)
class Integer(Encoding):
    """x_i + i w."""

    std: NotNegative | None = None
    """Of w at first. None: 1 / the training length."""

    def init(self, key):
        std = 1 / self.dims.train_len if self.std is None else self.std
        return {"w": std * jax.random.normal(key, (self.dims.model,))}

    def embed(self, params, x, tokens, pos):
        return x + (pos.astype(jnp.float32)[:, None] * params["w"][None]).astype(x.dtype)
