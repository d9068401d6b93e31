"""Modular arithmetic with brackets (Deletang et al., 2022, arXiv:2207.02098; Ruoss et al., 2023,
arXiv:2305.16843): the value of an expression modulo 5.

n symbols: digits 0 .. 4, 5 for +, 6 for -, 7 for *, 8 and 9 for the brackets. expression.py says
how they are drawn. A deterministic context-free task.

    8 4 7 8 6 3 9 9    (4*(-3)) = -12    -> 3

Symbol 10 is in the alphabet of their code and is never drawn. The value 0 is the most frequent one,
.29 of all at n = 40 and .32 at n = 500.
"""

import dataclasses

from pe_jax.tasks.answer import Answer, Drawn
from pe_jax.tasks.expression import expression, value


@dataclasses.dataclass(frozen=True)
class ModularArithmeticBrackets(Answer):
    """The value of an expression with brackets, modulo 5."""

    symbols = 11
    answers = 5

    def _draw(self, key, n, longest):
        input, value = expression(key, n, longest, operators=3)
        return Drawn(input, value[None])

    def _answer(self, input):
        return [value(input, operators=3)]
