"""Solve equation (Deletang et al., 2022, arXiv:2207.02098; Ruoss et al., 2023, arXiv:2305.16843):
the digit that x stands for in an equation modulo 5.

n symbols: an expression of n - 2 with one digit replaced by x, =, and the expression's value.
Digits are 0 .. 4, 5 is +, 6 is -, 7 and 8 are the brackets (not 8 and 9, as in
modular_arithmetic_brackets), 9 is x and 10 is =. expression.py says how expressions are drawn, here
without *, so there is one solution. x takes the place of the first digit at or after a place drawn
uniformly, or else of the first digit of all. Inputs of n = 1 and 2 are zeros, and so is their
answer. A deterministic context-free task.

    7 0 6 7 9 8 8 10 2    (0-(x)) = 2    -> 3
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.tasks.answer import Answer, Drawn
from pe_jax.tasks.expression import expression, value

X, EQUALS = 9, 10


@dataclasses.dataclass(frozen=True)
class SolveEquation(Answer):
    """The unknown digit of an equation modulo 5."""

    symbols = 11
    answers = 5

    def _draw(self, key, n, longest):
        for_expression, for_x = jax.random.split(key)
        size = jnp.maximum(n - 2, 1)
        symbols, value = expression(for_expression, size, longest, operators=2)
        place = jnp.arange(longest)
        way = (place - jax.random.randint(for_x, (), 0, size)) % size
        x = jnp.argmin(jnp.where((symbols < 5) & (place < size), way, longest))
        input = jnp.where(place == x, X, symbols)
        input = jnp.where(place == size, EQUALS, input)
        input = jnp.where(place > size, value, input)
        return Drawn(jnp.where(n < 3, 0, input), jnp.where(n < 3, 0, symbols[x][None]))

    def _answer(self, input):
        if len(input) < 3:
            return [0]
        *left, _, right = input
        tried = ([d if symbol == X else symbol for symbol in left] for d in range(5))
        return [[value(symbols, operators=2) for symbols in tried].index(right)]
