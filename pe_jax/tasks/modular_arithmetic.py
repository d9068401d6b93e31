"""Modular arithmetic (Deletang et al., 2022, arXiv:2207.02098; Ruoss et al., 2023,
arXiv:2305.16843): an expression without brackets, modulo 5.

n symbols, or n - 1 where n is even: digits 0 .. 4 in turn with operators, 5 for +, 6 for - and 7
for *, each drawn uniformly. * binds more tightly than + and -. A regular task.

    1 5 2 7 3    1 + 2 * 3 = 7    -> 2

Symbol 8 is in the alphabet of their code and is never drawn.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.tasks.answer import Answer, Drawn

PLUS, MINUS, TIMES = 5, 6, 7


@dataclasses.dataclass(frozen=True)
class ModularArithmetic(Answer):
    """The value of an expression modulo 5."""

    symbols = 9
    answers = 5

    def _counts(self, n):
        return n - 1 + n % 2, 1

    def _draw(self, key, n, longest):
        for_digits, for_operators = jax.random.split(key)
        digits = jax.random.randint(for_digits, (longest,), 0, 5)
        operators = jax.random.randint(for_operators, (longest,), PLUS, TIMES + 1)
        input = jnp.where(jnp.arange(longest) % 2 == 0, digits, operators)

        factors = input[::2]
        before = jnp.append(PLUS, input[1::2])[: len(factors)]
        last = jnp.arange(len(factors)) == (n + 1) // 2 - 1
        ends = last | (jnp.roll(before, -1) != TIMES)  # where a product is complete
        signed = jnp.where(before == MINUS, -factors, factors)

        def multiply(left, right):
            """Products modulo 5 of the factors since the last + or -."""
            (product, _), (factor, begins) = left, right
            return jnp.where(begins, factor, product * factor % 5), left[1] | begins

        products, _ = jax.lax.associative_scan(multiply, (signed, before != TIMES))
        counts = ends & (jnp.arange(len(factors)) < (n + 1) // 2)
        return Drawn(input, jnp.where(counts, products, 0).sum(keepdims=True) % 5)

    def _answer(self, input):
        total, product = 0, input[0]
        for operator, digit in zip(input[1::2], input[2::2], strict=True):
            if operator == TIMES:
                product *= digit
            else:
                total, product = total + product, digit if operator == PLUS else -digit
        return [(total + product) % 5]
