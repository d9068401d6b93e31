"""Binary multiplication (Deletang et al., 2022, arXiv:2207.02098; Ruoss et al., 2023,
arXiv:2305.16843).

n symbols: two binary numbers with their lowest bits first, and a 2 between them; the answer is
their product in the same form, and a 2. binary.py says how they are drawn. The answer has n places,
so at n = 1 it is the 2 alone. A context-sensitive task.

    0 0 1 2 0 1 1 0 1    4 * 22 = 88    -> 0 0 0 1 1 0 1 2 0
"""

import dataclasses

import jax.numpy as jnp

from pe_jax.tasks.binary import Operation


@dataclasses.dataclass(frozen=True)
class BinaryMultiplication(Operation):
    """The product of two binary numbers."""

    def _counts(self, n):
        return n, n

    def _result(self, a, b):
        limb = jnp.arange(len(a))  # the product has no more limbs than the input has room for
        rest = limb[:, None] - limb[None, :]
        return (a[None, :] * jnp.where(rest < 0, 0, b[rest])).sum(axis=1)

    def _value(self, a, b):
        return a * b
