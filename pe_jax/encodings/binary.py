"""The bits of the index: x_i + the sum of w_b over its set bits b, the third naive baseline.

No paper proposes it; it is the step before the sinusoid, whose slow components are soft bits.
Learned: W, [bits, D], from N(0, std^2). Training at L tokens never sets the bits from ceil(log2 L)
on, and their rows keep their small initial values: beyond L the vectors of training repeat, with
that noise added. Positions from 2^bits on are NaN.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.fields import Count, NotNegative
from pe_jax.geometry import whole


@dataclasses.dataclass(frozen=True)
class Binary(Encoding):
    """x_i + bits(i) W."""

    bits: Count | None = None
    """None: as many as the positions of 64 times the training length have."""
    std: NotNegative = 0.02

    def __post_init__(self):
        if not 1 <= self._bits <= 31:
            raise ValueError(f"binary's bits must be 1 .. 31 (of an int32), got {self._bits}")

    @property
    def _bits(self):
        return (64 * self.dims.train_len - 1).bit_length() if self.bits is None else self.bits

    def init(self, key):
        return {"table": self.std * jax.random.normal(key, (self._bits, self.dims.model))}

    def limit(self):
        return 2**self._bits

    def trained_from(self):
        return self.limit() // 2 + 1

    def embed(self, params, x, tokens, pos):
        pos = whole(pos)[:, None]
        rows = (pos >> jnp.arange(self._bits)[None] & 1).astype(jnp.float32) @ params["table"]
        return x + jnp.where(pos >> self._bits == 0, rows, jnp.nan).astype(x.dtype)
