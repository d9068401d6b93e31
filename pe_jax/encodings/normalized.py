"""The index as a part of the length: x_i + (i / length) w, the second naive baseline.

No paper proposes it. Learned: w, [D], from N(0, std^2). At any length the feature is in [0, 1), but
the step from token to token is 1 / length: a model has not seen the spacing of another length.

It depends on the total length: that of training in training, of the window in evaluation, of the
prompt with all that will follow it in generation (`at`). So it is absolute and, though it reads no
token, not causal: the vector of a position changes with what comes after it. `length` fixes it.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.fields import Count, NotNegative


@dataclasses.dataclass(frozen=True)
class Normalized(Encoding):
    """x_i + (i / length) w."""

    length: Count | None = None
    """None: that of the sequence; the training length in training."""
    std: NotNegative = 1.0

    def at(self, length):
        return self if self.length else dataclasses.replace(self, length=length)

    def init(self, key):
        return {"w": self.std * jax.random.normal(key, (self.dims.model,))}

    def embed(self, params, x, tokens, pos):
        part = pos.astype(jnp.float32) / (self.length or self.dims.train_len)
        return x + (part[:, None] * params["w"][None]).astype(x.dtype)
