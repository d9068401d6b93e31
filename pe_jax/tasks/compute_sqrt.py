"""Compute sqrt (Deletang et al., 2022, arXiv:2207.02098; Ruoss et al., 2023, arXiv:2305.16843).

n bits of a number that is uniform in 1 .. 2 ** n - 1, the highest bit first; the answer is its
square root, rounded down, in (n + 1) // 2 bits. A context-sensitive task. 100101 -> 110, for the
root of 37 is 6.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from pe_jax.tasks.answer import Answer, Drawn
from pe_jax.tasks.binary import carried, number, to_bits, to_limbs


@dataclasses.dataclass(frozen=True)
class ComputeSqrt(Answer):
    """The integer square root of a binary number."""

    symbols = 2

    def _counts(self, n):
        return n, (n + 1) // 2

    def _draw(self, key, n, longest):
        bits = number(key, n, longest + 1)
        place = jnp.arange(longest + 1)
        half = (jnp.max(jnp.where(bits == 1, place + 1, 0)) + 1) // 2  # bits of the root
        root = _root(jnp.where(place < 2 * half, bits[2 * half - 1 - place], 0))
        zeros = (n + 1) // 2 - half
        at = jnp.arange(len(root))
        return Drawn(bits[n - 1 - place], jnp.where(at < zeros, 0, root[at - zeros]))

    def _answer(self, input):
        number = int("".join(str(bit) for bit in input), 2)
        return [int(bit) for bit in f"{math.isqrt(number):0{(len(input) + 1) // 2}b}"]


def _root(bits: Int[Array, "N"]) -> Int[Array, "R"]:
    # The bits of the square root of a fraction .b0 b1 ..., at least 1/4, cut off at a whole limb.
    # One limb of the root at each step, as by hand: the remainder's highest limbs, divided by twice
    # the root, give the next one. Limbs may be negative, so a quotient that is too large by a
    # little is mended by the next, and no step needs the carries of all limbs.
    steps = -(-len(bits) // 16)
    place = jnp.arange(2 * steps + 1)
    limbs = to_limbs(jnp.pad(bits, (0, 16 * steps - len(bits)))[::-1])[::-1]
    weights = 256.0 ** -jnp.arange(4)
    rest = jnp.append(0, limbs)
    estimate = jnp.sqrt((rest[:4] * weights[: len(rest)]).sum())

    def step(state, i):
        root, rest = state
        twice = jnp.where(i == 1, estimate, 2 * estimate)
        limb = jnp.round(256 * (rest[:4] * weights[: len(rest)]).sum() / twice).astype(jnp.int32)
        here = jnp.where(place == i, limb, 0)
        rest = jnp.append(rest[1:], 0).at[0].add(256 * rest[0]) - limb * (2 * root + here)
        for _ in range(2):
            carry = jnp.where(place > 0, (rest + 128) >> 8, 0)
            rest = rest - (carry << 8) + jnp.append(carry[1:], 0)
        return (root + here, rest), None

    start = jnp.zeros_like(place), rest
    (root, rest), _ = jax.lax.scan(step, start, jnp.arange(1, steps + 1))
    above = carried(rest[::-1])[0] < 0  # the last limb was rounded up
    root = root[1 : steps + 1].at[-1].add(-above.astype(jnp.int32))
    return to_bits(carried(root[::-1])[1])[::-1]
