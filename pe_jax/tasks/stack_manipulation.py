"""Stack manipulation (Deletang et al., 2022, arXiv:2207.02098; Ruoss et al., 2023,
arXiv:2305.16843).

n symbols: the bits of a stack, its lowest first, then actions 2 (pop), 3 (push 0) and 4 (push 1).
The number of bits is uniform in 1 .. n - 1, and 1 where n = 1; bits and actions are uniform. A pop
from an empty stack does nothing. The answer is the final stack, its highest bit first, and the
terminator 2; the zeros after it are not scored. A deterministic context-free task.

    0 1 1 0 4 2 2    push 1, pop, pop leave 0 1 1    -> 1 1 0 2 0 0 0 0
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.tasks.answer import Answer, Drawn

POP, END = 2, 2


@dataclasses.dataclass(frozen=True)
class StackManipulation(Answer):
    """The stack that is left."""

    symbols = 5
    answers = 3

    def _counts(self, n):
        return n, n + 1

    def _draw(self, key, n, longest):
        for_count, for_bits, for_actions = jax.random.split(key, 3)
        bits = jax.random.randint(for_bits, (longest,), 0, 2)
        actions = jax.random.randint(for_actions, (longest,), POP, POP + 3)
        place = jnp.arange(longest)
        count = jax.random.randint(for_count, (), 1, jnp.maximum(n, 2))
        input = jnp.where(place < count, bits, actions)

        # A pushed bit is left in the end where the stack is never lower than just after the push.
        up = jnp.where(input == POP, -1, 1)
        level = jnp.cumsum(jnp.where(place < n, up, 0))
        height = level - jnp.minimum(jax.lax.cummin(level), 0)
        left = (place < n) & (input != POP) & (height == jax.lax.cummin(height, reverse=True))
        from_top = jnp.where(left, height[-1] - height, longest + 1)
        answer = jnp.zeros(longest + 1, jnp.int32).at[from_top].set(input % 3, mode="drop")
        at = jnp.arange(longest + 1)
        return Drawn(input, jnp.where(at == height[-1], END, answer), at <= height[-1])

    def _answer(self, input):
        stack = []
        for symbol in input:
            if symbol != POP:
                stack.append(symbol - 3 if symbol > POP else symbol)
            elif stack:
                stack.pop()
        return [*reversed(stack), END]
