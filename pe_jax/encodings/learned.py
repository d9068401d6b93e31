"""Learned absolute positions: x_i + P[i], with P of shape [length, D] (Gehring et al., 2017;
arXiv:1705.03122).

Learned: P, drawn from N(0, std^2) with std = 0.02 as in GPT-2. Positions beyond the table are
undefined: `limit` says so, results print n/a, and a lookup there gives NaN. With clip=True they
take the last row, which no paper proposes, to show what an untrained position costs.
"""

import dataclasses

import jax

from pe_jax.encoding import Encoding
from pe_jax.fields import Count, NotNegative
from pe_jax.geometry import lookup


@dataclasses.dataclass(frozen=True)
class Learned(Encoding):
    """x_i + P[i]."""

    length: Count | None = None
    """Rows of the table; None: the training length."""
    std: NotNegative = 0.02
    clip: bool = False
    """Whether positions beyond the table take its last row in place of NaN."""

    def init(self, key):
        return {"table": self.std * jax.random.normal(key, (self.trained_from(), self.dims.model))}

    def limit(self):
        return None if self.clip else self.trained_from()

    def trained_from(self):
        return self.length or self.dims.train_len

    def embed(self, params, x, tokens, pos):
        return x + lookup(params["table"], pos, self.clip).astype(x.dtype)
