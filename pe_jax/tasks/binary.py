"""Binary numbers of any size, for three tasks of Deletang et al. (2022, arXiv:2207.02098). Bits and
limbs, the digits of base 256, are little-endian: the lowest comes first.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from pe_jax.tasks.answer import Answer, Drawn

SEPARATOR = END = 2
"""Stands between two operands, and after a result."""


def number(key: Key[Array, ""], count: Int[Array, ""], longest: int) -> Int[Array, "N"]:
    """The bits of a number that is uniform in 1 .. 2 ** count - 1, padded with zeros.

    The lowest 30 bits of a longer number are never all 0, which they would be once in 10 ** 9.
    """
    for_low, for_high = jax.random.split(key)
    place = jnp.arange(longest)
    low = jax.random.randint(for_low, (), 1, 1 << jnp.clip(count, 0, 30))
    high = jax.random.randint(for_high, (longest,), 0, 2)
    return jnp.where(place < 30, low >> jnp.minimum(place, 30) & 1, high) * (place < count)


def to_limbs(bits: Int[Array, "N"]) -> Int[Array, "L"]:
    return jnp.packbits(bits, bitorder="little").astype(jnp.int32)


def to_bits(limbs: Int[Array, "L"]) -> Int[Array, "N"]:
    return jnp.unpackbits(limbs.astype(jnp.uint8), bitorder="little").astype(jnp.int32)


def carried(sums: Int[Array, "L"]):
    """(what is carried out of the highest limb, the limbs) of a number that is given by sums for
    limbs, of any size and sign.
    """

    def step(carry, sum):
        return (sum + carry) >> 8, (sum + carry) & 255

    return jax.lax.scan(step, jnp.int32(0), sums)


@dataclasses.dataclass(frozen=True)
class Operation(Answer):
    """A task whose input are two binary numbers and whose answer is a third.

    Of the n symbols the first number has a digits, a uniform in 1 .. n - 2, SEPARATOR is one, and
    the second number has the rest; each is uniform in 1 .. 2 ** digits - 1. Inputs of n = 1 and 2
    are one number of n digits, uniform in 0 .. 2 ** n - 2, and the second number is 0. The answer
    has no leading zeros but for 0 itself, and ends with END; the zeros after it are not scored.
    """

    symbols = 3

    def _result(self, a: Int[Array, "L"], b: Int[Array, "L"]) -> Int[Array, "R"]:
        """The result of two numbers in limbs, as sums for limbs."""
        raise NotImplementedError

    def _value(self, a: int, b: int) -> int:
        """The same in plain Python."""
        raise NotImplementedError

    def _draw(self, key, n, longest):
        for_digits, for_a, for_b = jax.random.split(key, 3)
        place = jnp.arange(longest)
        drawn = jax.random.randint(for_digits, (), 1, jnp.maximum(n - 1, 2))
        digits = jnp.where(n < 3, n, drawn)
        a, b = number(for_a, digits, longest), number(for_b, n - 1 - digits, longest)
        a = jnp.where((n < 3) & (place < n), 1 - a, a)
        input = jnp.where(place == digits, SEPARATOR, b[(place - digits - 1) % longest])
        input = jnp.where(place < digits, a, input)

        result = to_bits(carried(self._result(to_limbs(a), to_limbs(b)))[1])
        place = jnp.arange(len(result))
        size = jnp.max(jnp.where(result == 1, place + 1, 1))
        end = jnp.minimum(size, self._counts(n)[1] - 1)
        return Drawn(input, jnp.where(place == end, END, result), place <= end)

    def _answer(self, input):
        a, _, b = "".join(map(str, input)).partition(str(SEPARATOR))
        result = self._value(int(a[::-1], 2), int(b[::-1] or "0", 2))
        return [*map(int, f"{result:b}"[::-1]), END][-self._counts(len(input))[1] :]
