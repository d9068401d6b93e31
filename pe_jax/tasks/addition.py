"""Addition of two decimal numbers (Kazemnejad et al., 2023, arXiv:2305.19466), a digit a symbol, in
the formats of three papers.

n is the number of digits of the longer number. The numbers of digits of both are drawn uniformly
from the 2n - 1 pairs whose greater one is n; then each number uniformly from those of so many
digits, with 0 among those of one digit. The input is a + b, without the words of a prompt, and
SEPARATOR is the =. The answer is the sum, then END.

    order            padded  example of 653 + 49, n = 3
    plain            no      6 5 3 + 4 9 = 7 0 2 END              Kazemnejad et al. (2023)
    reversed_answer  yes     6 5 3 + 0 4 9 = 2 0 7 0 END          Cho et al. (2024)
    reversed         no      3 5 6 + 9 4 = 2 0 7 END              McLeish et al. (2024)

padded=True writes both numbers with n digits and the sum with n + 1. scratchpad=True (order plain)
adds column by column, from the lowest digits x and y with the carry c before them, and once more
where a carry is left:

    in x y comp x + y + var = <x + y> + c = <s> out <s mod 10> var <carry> re <the rest> #

    7 + 1 5 -> in 7 5 comp 7 + 5 + var = 1 2 + 0 = 1 2 out 2 var 1 re 0 + 1 #
               in 0 1 comp 0 + 1 + var = 1 + 1 = 2 out 2 var 0 re + thus 2 2 END

All three papers have each pair of lengths up to some N equally often, so longer samples are more
frequent there than with n drawn uniformly. McLeish et al. (arXiv:2405.17399) draw no number 0. The
format of Cho et al. is that of arXiv:2405.20671.
"""

import dataclasses
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from pe_jax.tasks.written import NOTHING, STEP, Written, two_digits, upto


@dataclasses.dataclass(frozen=True)
class Addition(Written):
    """The sum of two numbers."""

    scratchpad: bool = False
    order: Literal["plain", "reversed_answer", "reversed"] = "plain"
    """plain: the highest digit first. reversed: the lowest first, in all numbers or in the sum."""
    padded: bool = False
    """Whether zeros make all numbers as long as they may be."""

    def __post_init__(self):
        super().__post_init__()
        if self.scratchpad and (self.order != "plain" or self.padded):
            raise ValueError("Addition's scratchpad is of order='plain', without padding")

    def _names(self):
        return (*"0123456789", "end", "+", *STEP * self.scratchpad)

    def labels(self):
        return self.symbols - (not self.scratchpad)  # "+", the last, is no digit

    def _counts(self, n):
        steps = self.scratchpad * (24 * (n + 1) + n * (n - 1))
        return 2 * n + 1, n + 2 + steps

    def _draw(self, key, n, longest):
        pair, first, second, _ = jax.random.split(key, 4)
        other = jax.random.randint(pair, (), 1 - n, n)  # below 0: the second number is the longer
        a_length, b_length = n + jnp.minimum(other, 0), n - jnp.maximum(other, 0)
        a, b = _number(first, a_length, longest), _number(second, b_length, longest)
        carry = _carry(a + b)
        total = (a + b + carry) % 10
        lengths = (a_length, b_length, n + carry[n])
        if self.padded:
            lengths = n, n, n + 1
        low_first = self.order == "reversed", self.order == "reversed", self.order != "plain"
        a_digits, b_digits, answer = (
            upto(number, length)[:: 1 if low else -1]  # numbers are given from the lowest digit on
            for number, length, low in zip((a, b, total), lengths, low_first, strict=True)
        )
        input = jnp.concatenate([a_digits, jnp.array([self._id("+")]), b_digits])
        if self.scratchpad:
            steps = self._columns(a, b, carry, (a_length, b_length), n)
            answer = jnp.concatenate([steps, answer])
        return self._drawn(input, answer, longest)

    def _columns(self, a, b, carry, lengths, n) -> Int[Array, "S"]:
        """The steps of the scratchpad."""
        column = jnp.arange(len(a))

        def left(number, length):
            """In each step, the digits above, without leading zeros but for one digit."""
            place, step = column[None, ::-1], column[:, None]
            here = (place > step) & (place < n) & ((place < length) | (place == step + 1))
            return jnp.where(here, number[None, ::-1], NOTHING)

        both, total = two_digits(a + b), a + b + carry
        # fmt: off
        return self._steps(
            n + carry[n], "in", a, b, "comp", a, "+", b, "+", "var", "=", both, "+", carry, "=",
            two_digits(total), "out", total % 10, "var", total // 10,
            "re", left(a, lengths[0]), "+", left(b, lengths[1]),
        )
        # fmt: on

    def _answer(self, input):
        plus, forward = input.index(self._id("+")), -1 if self.order == "reversed" else 1
        numbers = input[:plus], input[plus + 1 :]
        a, b = (int("".join(map(str, digits[::forward]))) for digits in numbers)
        digits = [int(digit) for digit in str(a + b).zfill((plus + 1) * self.padded)]
        steps = self._ids(self._worked(a, b)) if self.scratchpad else []
        return [*steps, *digits[:: 1 if self.order == "plain" else -1], self._id("end")]

    def _worked(self, a: int, b: int) -> list[str]:
        """The words of a scratchpad."""
        words, carry = [], 0
        while a or b or carry or not words:
            x, y, a, b = a % 10, b % 10, a // 10, b // 10
            both, total = (" ".join(str(number)) for number in (x + y, x + y + carry))
            words += f"in {x} {y} comp {x} + {y} + var = {both} + {carry} = {total}".split()
            carry = (x + y + carry) // 10
            rest = [" ".join(str(number)) if a or b else "" for number in (a, b)]
            words += f"out {total[-1]} var {carry} re {rest[0]} + {rest[1]} #".split()
        words[-1] = "thus"
        return words


def _number(key: Key[Array, ""], length, longest: int) -> Int[Array, "N"]:
    """The digits of a number from the lowest on, `length` of them, then zeros to longest + 1."""
    rest, top = jax.random.split(key)
    digits = jax.random.randint(rest, (longest + 1,), 0, 10)
    leading = jax.random.randint(top, (), jnp.where(length == 1, 0, 1), 10)
    digits = digits.at[length - 1].set(leading)
    return jnp.where(jnp.arange(longest + 1) < length, digits, 0)


def _carry(sums: Int[Array, "N"]) -> Int[Array, "N"]:
    """The carry into each column from those below, given the sums of their digits: a column hands
    on what it gets where its sum is 9, and else a 1 where that is more.
    """
    origin = jax.lax.cummax(jnp.where(sums == 9, -1, jnp.arange(len(sums))))
    out = jnp.where(origin < 0, 0, sums[origin] >= 10).astype(jnp.int32)
    return jnp.append(0, out[:-1])
