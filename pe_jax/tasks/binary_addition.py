"""Binary addition (Deletang et al., 2022, arXiv:2207.02098; Ruoss et al., 2023, arXiv:2305.16843).

n symbols: two binary numbers with their lowest bits first, and a 2 between them; the answer is
their sum in the same form, and a 2. binary.py says how they are drawn. A context-sensitive task.

    0 0 1 2 0 1 1 0 1    4 + 22 = 26    -> 0 1 0 1 1 2 0 0 0 0
"""

import dataclasses

import jax.numpy as jnp

from pe_jax.tasks.binary import Operation


@dataclasses.dataclass(frozen=True)
class BinaryAddition(Operation):
    """The sum of two binary numbers."""

    def _counts(self, n):
        return n, n + 1

    def _result(self, a, b):
        return jnp.append(a + b, 0)

    def _value(self, a, b):
        return a + b
