"""Heads that look one way, for models that see both sides: an encoding for a spec, as in
experiments/studies/one_sided.py:OneSided+kerple_log.

A bias by |i - j| is the same for the tokens before and after a query. Here every second head sees
those before it, and the others those after it; all see the query itself. Nothing is learned.
"""

import dataclasses

import jax.numpy as jnp

from pe_jax.encoding import HIDDEN, Encoding


@dataclasses.dataclass(frozen=True)
class OneSided(Encoding):
    """Hides later keys in heads 0, 2, .., and earlier ones in heads 1, 3, .."""

    def relative_bias(self, params, n):
        later = jnp.arange(self.dims.heads)[:, None] % 2 == 0
        return jnp.where(jnp.where(later, n < 0, n > 0), HIDDEN, 0.0)
