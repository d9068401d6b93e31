"""Indirect indexing (PoPE: Gopalakrishnan et al., 2025, arXiv:2509.10534, appendix A.1).

The input is a string of n letters, all different, then one of them, then a shift; the answer is the
letter that stands so many places to the right (+) or left (-) of that one in the string:

    N Z T U I G W k X F r h C J D z s c a t , N , + 0 4        I

The ids are the letters, the ten digits, `+`, `-` and `,`. The paper draws n from 20 .. 40 and the
string from 52 letters; with more `letters` it can be longer. Its text does not say what happens at
the ends of the string: here the letter is drawn uniformly, and then the shift, uniformly from the
shifts that end in the string. Shifts are -15 .. 15 without 0, which is neither left nor right. They
are written with two digits always (the paper: `+4`), so that the samples of length n have one size;
the last `,` of the paper, behind the shift, is the separator of a decoder's form.
"""

import dataclasses
from typing import Annotated

import jax
import jax.numpy as jnp
import msgspec

from pe_jax.fields import Count
from pe_jax.tasks.answer import Answer, Drawn


@dataclasses.dataclass(frozen=True)
class IndirectIndexing(Answer):
    """The letter at a distance from a given one."""

    letters: Count = 52
    """Letters that a string is drawn from."""
    farthest: Annotated[int, msgspec.Meta(ge=1, le=99)] = 15
    """The largest shift, of two digits."""

    @property
    def symbols(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.letters + 13

    def labels(self):
        return self.letters

    def has(self, n):
        return 2 <= n <= self.letters

    def _counts(self, n):
        return n + 6, 1

    def _draw(self, key, n, longest):
        for_string, for_letter, for_shift = jax.random.split(key, 3)
        string = jax.random.permutation(for_string, self.letters)
        at = jax.random.randint(for_letter, (), 0, n)
        left, right = jnp.minimum(at, self.farthest), jnp.minimum(n - 1 - at, self.farthest)
        shift = jax.random.randint(for_shift, (), -left, right)
        shift = jnp.where(shift < 0, shift, shift + 1)
        size = abs(shift)
        plus, minus, comma = self.letters + 10 + jnp.arange(3)
        sign = jnp.where(shift > 0, plus, minus)
        digits = self.letters + jnp.array([size // 10, size % 10])
        question = jnp.stack([comma, string[at], comma, sign, *digits])
        place = jnp.arange(longest + 6)
        input = jnp.where(place < n, string[place % self.letters], question[(place - n) % 6])
        return Drawn(input, string[at + shift][None])

    def _answer(self, input):
        *string, _, letter, _, sign, tens, units = input
        size = 10 * (tens - self.letters) + units - self.letters
        shift = size if sign == self.letters + 10 else -size
        return [string[string.index(letter) + shift]]
