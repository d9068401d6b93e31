"""Position coupling: equal positions for tokens that belong together (Cho et al., 2024;
arXiv:2405.20671).

    input a + b    a digit's distance to the separator behind it, so digits of equal significance
                   have equal positions; both numbers have their highest digit first
    answer         the distance to the =, so the lowest digit comes first; END: 0
    + and =        0

and to all but END a start s is added: 1 in evaluation, in training s ~ U{1, .., max_position -
the greatest distance}. 653+049=2070 has 4 3 2 1 4 3 2 1 2 3 4 5 at s = 1. Nothing is learned: they
read the positions from a table, position_coupling+learned(length=...). With numbers longer than in
training, up to max_position - 2 digits, a model meets positions that it has seen. Their
max_position is 202 for training on 1 .. 30 digits; None is 4 times the training length.

With backwards=False the input is counted from its start or the previous separator, as in their copy
and parity, whose answers run in its order. A digit's position depends on tokens behind it, up to
the =: prompts must be whole, and what predicts tokens of the input would see them.

The defaults fit the task addition with order="reversed_answer". Other tasks of that kind have
`digits` symbols, then END, separators and last the =.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.fields import Count, Natural


@dataclasses.dataclass(frozen=True)
class PositionCoupling(Encoding):
    """Distances to separators, + s; compose it with another: position_coupling+learned."""

    per_sequence = True
    causal_only = "it reads the digits of its answer"
    digits: Count = 10
    """The tokens 0 .. digits - 1 are digits, `digits` is END, and the others separate."""
    equals: Natural = 12
    """The token = before the answer."""
    backwards: bool = True
    """Whether the input is counted from the separator behind."""
    max_position: Count | None = None
    """Above the digits of each number in training. None: 4 times the training length."""

    def highest_position(self):
        return self.max_position or 4 * self.dims.train_len

    def positions(self, tokens, pos, key, train):
        place, length = jnp.arange(len(tokens)), len(tokens)
        separator = tokens > self.digits
        distance = place - jax.lax.cummax(jnp.where(separator | (tokens < 0), place, -1))
        if self.backwards:
            behind = jax.lax.cummin(jnp.where(separator, place, length), reverse=True)
            to_it = jnp.where(behind < length, behind - place, 0)  # 0: the prompt is not whole
            distance = jnp.where(jnp.cumsum(tokens == self.equals) > 0, distance, to_it)
        counted = (tokens >= 0) & (tokens != self.digits)
        start = 1
        if train:
            room = self.highest_position() - jnp.max(jnp.where(counted, distance, 0))
            start = jax.random.randint(self._drawing(key), (), 1, jnp.maximum(room, 1) + 1)
        return jnp.where(counted, start + distance, 0)
