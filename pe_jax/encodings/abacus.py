"""Abacus positions: the place of a digit in its number (McLeish et al., 2024; arXiv:2405.17399).

The position of a digit is its place in its run of digits, counted from 1; that of every other token
is 0. Where numbers are written with the lowest digit first, as they do, digits of equal
significance have equal positions. In training one k ~ U{0, .., max_shift} is added to the positions
of the digits. Nothing is learned: they read the positions from a table of 1024 rows,
abacus+learned(length=1024). Training reaches positions up to the digits of its longest number +
max_shift, which serve longer numbers; theirs is 99, and None is 4 times the training length. Each
sequence has a draw of its own; theirs serves the batch.

The defaults fit the task addition with order="reversed".
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.fields import Count, Natural


@dataclasses.dataclass(frozen=True)
class Abacus(Encoding):
    """Places in runs of digits, + k in training; compose it with another: abacus+learned."""

    per_sequence = True
    causal_only = "it reads the digits of its answer"
    digits: Count = 10
    """The tokens 0 .. digits - 1 are digits."""
    max_shift: Natural | None = None
    """None: 4 times the training length."""

    @property
    def _most(self):
        return 4 * self.dims.train_len if self.max_shift is None else self.max_shift

    def highest_position(self):
        return 1 + self._most

    def positions(self, tokens, pos, key, train):
        place = jnp.arange(len(tokens))
        digit = (tokens >= 0) & (tokens < self.digits)
        before = jax.lax.cummax(jnp.where(digit, -1, place))  # the last token that is no digit
        run = place - before
        if not train:
            return run
        shift = jax.random.randint(self._drawing(key), (), 0, self._most + 1)
        return jnp.where(digit, run + shift, 0)
