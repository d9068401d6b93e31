"""A learned table of N rows that serves N^2 positions (Su, 2020; kexue.fm/archives/7947).

P(pos) = a u[pos div N] + (1 - a) u[pos mod N] with a = `alpha`, 0.4, and u chosen such that P is
the table p itself below N: u_i = (p_i - a p_0) / (1 - a). That is, as computed here,

    P(pos) = p[pos mod N] + a / (1 - a) (p[pos div N] - p[0]),

which below N is `learned`, bit for bit. Learned: p, the parameters of `learned`, so that it can be
swapped in on a model trained with that; trained by itself at more than `length` tokens, it learns
both levels. Beyond N, which is the training length by default, the sums are of rows that training
has seen, though not together; beyond N^2 they are NaN. a = 0.5 is refused, where the two levels
cannot be distinguished.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.fields import Count, Fraction, NotNegative
from pe_jax.geometry import lookup


@dataclasses.dataclass(frozen=True)
class Hierarchical(Encoding):
    """x_i + a u[i div N] + (1 - a) u[i mod N]."""

    family = "Learned"
    length: Count | None = None
    """N, rows of the table; None: the training length."""
    std: NotNegative = 0.02
    clip: bool = False
    """Whether positions beyond N^2 take the last one's vector in place of NaN."""
    alpha: Fraction = 0.4

    def __post_init__(self):
        if not 0 < self.alpha < 1 or self.alpha == 0.5:
            raise ValueError(
                f"hierarchical's alpha must be in (0, 1) and not 0.5, got {self.alpha}: at 0.5 "
                "positions qN + r and rN + q are one; the author's is 0.4"
            )

    def trained_from(self):
        return self.length or self.dims.train_len

    def init(self, key):
        return {"table": self.std * jax.random.normal(key, (self.trained_from(), self.dims.model))}

    def limit(self):
        return None if self.clip else self.trained_from() ** 2

    def embed(self, params, x, tokens, pos):
        N, table = self.trained_from(), params["table"]
        pos = jnp.minimum(pos, min(N**2, 2**31) - 1) if self.clip else pos
        far = lookup(table, pos // N) - table[:1]
        vectors = lookup(table, pos % N) + self.alpha / (1 - self.alpha) * far
        return x + vectors.astype(x.dtype)
