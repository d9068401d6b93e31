"""Expressions with brackets, modulo 5, for two tasks of Deletang et al. (2022, arXiv:2207.02098).

Digits are the symbols 0 .. 4, operators 5 (+), 6 (-) and perhaps 7 (*); the next two symbols are
the brackets. An expression e(n) of n symbols is, with a digit d, drawn uniformly,

    e(1) = d    e(2) = -d    e(3) = (d)    e(4) = (-d)
    e(n) = ( e(l) operator e(n - 3 - l) ), with l uniform in 1 .. n - 4 and a uniform operator

A sampler knows of each place the part that holds it, by its first place and its size. All places
begin in the whole expression and move into smaller parts together, one depth at each step, until no
place moves. Two parts never begin at one place, so what is drawn for a part is kept at its first
place. The values of the parts come in the same way, from the smallest to the whole.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

PLUS, MINUS = 5, 6


def expression(key: Key[Array, ""], n: Int[Array, ""], longest: int, operators: int):
    """(the symbols of an expression e(n), padded; its value)."""
    for_splits, for_digits, for_operators = jax.random.split(key, 3)
    place = jnp.arange(longest)
    split = jax.random.randint(for_splits, (longest,), 0, jnp.iinfo(jnp.int32).max)
    digit = jax.random.randint(for_digits, (longest,), 0, 5)
    operator = jax.random.randint(for_operators, (longest,), PLUS, PLUS + operators)

    def left(start, size):
        """The size of the part before the operator of a part."""
        return 1 + split[start] % jnp.maximum(size - 4, 1)

    def inwards(part):
        """(first place, size) of the parts that hold each place, one depth further in."""
        start, size = part
        first, at = left(start, size), place - start
        before = (size > 4) & (at > 0) & (at <= first)
        after = (size > 4) & (at > first + 1) & (at < size - 1)
        start = jnp.where(before, start + 1, jnp.where(after, start + first + 2, start))
        return jnp.stack(
            [start, jnp.where(before, first, jnp.where(after, size - 3 - first, size))]
        )

    whole = jnp.stack([jnp.zeros_like(place), jnp.full_like(place, n)])
    start, size = _settled(inwards, whole)
    at = place - start
    small = jnp.where(at == size // 2, digit, MINUS)
    symbols = jnp.where(size > 4, operator, small)
    symbols = jnp.where((size > 2) & (at == 0), PLUS + operators, symbols)
    symbols = jnp.where((size > 2) & (at == size - 1), PLUS + operators + 1, symbols)

    # From here on place i stands for the part that begins there.
    middle = place + jnp.where(size > 4, left(place, size) + 1, size // 2)
    middle = jnp.minimum(middle, longest - 1)

    def outwards(value):
        """The values of the parts, one depth further out."""
        a, b = jnp.roll(value, -1), jnp.roll(value, -1)[middle]
        both = a + jnp.where(symbols[middle] == MINUS, -b, b)
        both = jnp.where(symbols[middle] > MINUS, a * b, both)
        return jnp.where((at == 0) & (size > 4), both % 5, value)

    values = jnp.where(size % 2 == 0, -digit[middle], digit[middle]) % 5
    return symbols, _settled(outwards, values)[0]


def _settled(step: Callable[[Array], Array], state: Array) -> Array:
    """What becomes of a state by steps that go on until nothing changes."""
    return jax.lax.while_loop(
        lambda states: (states[0] != states[1]).any(),
        lambda states: (states[1], step(states[1])),
        (state, step(state)),
    )[1]


def value(symbols: list[int], operators: int) -> int:
    """The value of an expression, in plain Python."""
    stack = []
    for symbol in symbols:
        if symbol == PLUS + operators + 1:
            start = len(stack) - 1 - stack[::-1].index(PLUS + operators)
            stack[start:], inside = [], stack[start + 1 :]
            symbol = _between(*inside)
        elif symbol < 5 and stack[-1:] == [MINUS] and all(before > 4 for before in stack[-2:-1]):
            stack.pop()
            symbol = -symbol % 5
        stack.append(symbol)
    return stack[0]


def _between(a: int, operator: int = PLUS, b: int = 0) -> int:
    """What brackets enclose: a value, or an operator between two."""
    return {PLUS: a + b, MINUS: a - b}.get(operator, a * b) % 5
