"""Addition of two decimal numbers, a digit a symbol, in the formats of five papers.

n is the number of digits of the longer number. The numbers of digits of both are drawn uniformly
from the 2n - 1 pairs whose greater one is n; then each number uniformly from all of so many
digits, 0 counting as one digit. The input is a + b, without the words of a prompt, and
SEPARATOR is the =. The answer is the sum, then END.

    order            padded  hints  example of 653 + 49, n = 3
    plain            no      0      6 5 3 + 4 9 = 7 0 2 END              Kazemnejad et al. (2023)
    reversed_answer  yes     0      6 5 3 + 0 4 9 = 2 0 7 0 END          Cho et al. (2024)
    reversed         no      0      3 5 6 + 9 4 = 2 0 7 END              McLeish et al. (2024)
    reversed         no      h >= 4 h0 3 h1 5 h2 6 + h0 9 h1 4 = h0 2 h1 0 h2 7 END

padded=True writes both numbers with n digits and the sum with n + 1. With hints=h each digit stands
behind a marker, the same for digits of equal significance in a, b and the sum (Zhou et al., 2023,
arXiv:2310.16028, and 2024, arXiv:2402.09371). The n + 1 markers of a sample are consecutive and
begin at random, so there are lengths up to h - 1. The first is that of the lowest digit where order
is "reversed", and otherwise that of the highest digit which a sum may have. Beside markers padded
numbers have n + 1 digits, too, as in the code of Cho et al. (arXiv:2405.20671). Its markers run
backwards in the sum, by an error that is not followed.

scratchpad=True (Kazemnejad et al., arXiv:2305.19466; order plain) adds column by column, from the
lowest digits x and y with the carry c before them, and once more where a carry is left:

    in x y comp x + y + var = <x + y> + c = <s> out <s mod 10> var <carry> re <the rest> #

    7 + 1 5 -> in 7 5 comp 7 + 5 + var = 1 2 + 0 = 1 2 out 2 var 1 re 0 + 1 #
               in 0 1 comp 0 + 1 + var = 1 + 1 = 2 out 2 var 0 re + thus 2 2 END

All three papers have each pair of lengths up to some N equally often, so longer samples are more
frequent there than with n drawn uniformly. McLeish et al. (arXiv:2405.17399) draw no number 0.
"""

import dataclasses
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from pe_jax.fields import Natural
from pe_jax.tasks.answer import NOTHING, STEP, Written, two_digits, upto


@dataclasses.dataclass(frozen=True)
class Addition(Written):
    """The sum of two numbers."""

    scratchpad: bool = False
    order: Literal["plain", "reversed_answer", "reversed"] = "plain"
    """plain: the highest digit first. reversed: the lowest first, in all numbers or in the sum."""
    padded: bool = False
    """Whether zeros make all numbers as long as they may be."""
    hints: Natural = 0
    """How many markers of significance there are; 0: digits have none."""

    def __post_init__(self):
        super().__post_init__()
        if self.scratchpad and (self.order != "plain" or self.padded or self.hints):
            raise ValueError("Addition's scratchpad is of order='plain', without padding and hints")

    def _names(self):
        hints = (f"h{i}" for i in range(self.hints))
        return (*"0123456789", "end", "+", *STEP * self.scratchpad, *hints)

    def has(self, n):
        return n >= 1 and (self.hints == 0 or n + 1 <= self.hints)

    def labels(self):
        return self.symbols - (not self.hints and not self.scratchpad)  # "+", the last, is no digit

    def _counts(self, n):
        each = 2 if self.hints else 1
        width = n + 1 if self.padded and self.hints else n
        steps = self.scratchpad * (24 * (n + 1) + n * (n - 1))
        return 2 * each * width + 1, each * (n + 1) + 1 + steps

    def _draw(self, key, n, longest):
        pair, first, second, hint = jax.random.split(key, 4)
        other = jax.random.randint(pair, (), 1 - n, n)  # below 0: the second number is the longer
        a_length, b_length = n + jnp.minimum(other, 0), n - jnp.maximum(other, 0)
        a, b = _number(first, a_length, longest), _number(second, b_length, longest)
        carry = _carry(a + b)
        total = (a + b + carry) % 10
        lengths = (a_length, b_length, n + carry[n])
        if self.padded:
            width = n + (self.hints > 0)
            lengths = (width, width, n + 1)
        start = jax.random.randint(hint, (), 0, jnp.maximum(self.hints - n, 1))
        low_first = self.order == "reversed", self.order == "reversed", self.order != "plain"
        a_digits, b_digits, answer = (
            self._digits(number, length, n, start, low)
            for number, length, low in zip((a, b, total), lengths, low_first, strict=True)
        )
        input = jnp.concatenate([a_digits, jnp.array([self._id("+")]), b_digits])
        if self.scratchpad:
            steps = self._columns(a, b, carry, (a_length, b_length), n)
            answer = jnp.concatenate([steps, answer])
        return self._drawn(input, answer, longest)

    def _digits(self, number, length, n, start, lowest_first) -> Int[Array, "D"]:
        """A number's digits, which are given from the lowest on, as they are written."""
        written = upto(number, length)
        if self.hints:
            place = jnp.arange(len(number))
            marker = self._id("h0") + start + (place if self.order == "reversed" else n - place)
            marker = jnp.where(written == NOTHING, NOTHING, marker)
            pair = (marker, written) if lowest_first else (written, marker)
            written = jnp.stack(pair, axis=1).reshape(-1)
        return written if lowest_first else written[::-1]

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
        numbers, each = (input[:plus], input[plus + 1 :]), 2 if self.hints else 1
        a, b = (int("".join(map(str, x[each - 1 :: each][::forward]))) for x in numbers)
        width = plus // each + (not self.hints) if self.padded else 0
        digits = [int(digit) for digit in str(a + b).zfill(width)]
        if self.hints:  # the markers of the longer number, which go on beyond its highest digit
            lowest = max(numbers, key=len)[::2][::forward][-1]
            marks = [lowest - forward * place for place in range(len(digits))][::-1]
            digits = [symbol for pair in zip(marks, digits, strict=True) for symbol in pair]
        if self.order != "plain":
            digits = [x for i in range(len(digits), 0, -each) for x in digits[i - each : i]]
        steps = self._ids(self._worked(a, b)) if self.scratchpad else []
        return [*steps, *digits, self._id("end")]

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
    # The carry into each column from those below, given the sums of their digits: a column hands on
    # what it gets where its sum is 9, and else a 1 where that is more.
    origin = jax.lax.cummax(jnp.where(sums == 9, -1, jnp.arange(len(sums))))
    out = jnp.where(origin < 0, 0, sums[origin] >= 10).astype(jnp.int32)
    return jnp.append(0, out[:-1])
