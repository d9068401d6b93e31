"""Cycle navigation (Deletang et al., 2022, arXiv:2207.02098; Ruoss et al., 2023, arXiv:2305.16843).

n moves on a cycle of five places, drawn uniformly: 0 is a step back, 1 none and 2 a step forward.
The walk begins at place 0, and the answer is the place where it ends. A regular task.
20100 -> 3, for one step forward and three steps back end at -2, which is place 3.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.tasks.answer import Answer, Drawn


@dataclasses.dataclass(frozen=True)
class CycleNavigation(Answer):
    """Where a walk on a cycle of five places ends."""

    symbols = 5

    def _draw(self, key, n, longest):
        moves = jax.random.randint(key, (longest,), 0, 3)
        steps = jnp.where(jnp.arange(longest) < n, moves - 1, 0).sum(keepdims=True)
        return Drawn(moves, steps % 5)

    def _answer(self, input):
        return [(input.count(2) - input.count(0)) % 5]
