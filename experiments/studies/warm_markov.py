"""Masked Markov chains of a kind that small models learn: a task to train on, scored as `markov`.

Of chains whose rows are from Dirichlet(1, ..., 1) a model of two layers learns how often symbols
are, and hardly more in thousands of steps. Here a share of the samples has chains that teach it
where to look: one fixed chain says that the neighbours of a hidden token matter, and chains with
rows from Dirichlet(0.1, ..., 0.1), in which few transitions are likely, that the context tells
which.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.fields import Count, Fraction
from pe_jax.tasks.markov import Markov


@dataclasses.dataclass(frozen=True)
class WarmMarkov(Markov):
    """Masked Markov chains, of which some are easier."""

    symbols: Count = 4
    masked: bool = True
    fixed: Fraction = 0.5
    """The share of samples with the fixed chain."""
    sharp: Fraction = 0.5
    """The share of samples with few likely transitions."""

    def scored_form(self):
        return Markov(symbols=self.symbols, masked=self.masked, rate=0.0)

    def _matrix(self, key):
        for_share, for_rows = jax.random.split(key)
        share, k = jax.random.uniform(for_share), self.symbols
        usual = super()._matrix(for_rows)
        few = jax.random.dirichlet(for_rows, jnp.full(k, 0.1), (k,))
        known = jax.random.dirichlet(jax.random.key(0), jnp.full(k, 0.2), (k,))
        drawn = jnp.where(share < self.fixed, known, few)
        drawn = jnp.where(share < self.fixed + self.sharp, drawn, usual)
        return (drawn + 1e-6) / (1 + 1e-6 * k)  # every symbol is reached
