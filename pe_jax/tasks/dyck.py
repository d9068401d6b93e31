"""Dyck-(k, m): brackets of k types, nested to a depth of m (Hewitt et al., 2020, arXiv:2010.07515,
john-hewitt/dyckkm-learning; Yao et al., 2021, arXiv:2105.11115).

n tokens, n even: openings 0 .. k - 1 and their closings k .. 2k - 1. The type of each closing is
predicted at the token before it. Whether an opening or a closing comes next is not scored, for
nobody can know it. With k = 2, `([])` is

    0 1 3 2        3 is predicted at place 1, and 2 at place 2

The source draws strings of all lengths: at depth 0 it ends or opens with equal probability, at
depth m it closes, between them it closes or opens with equal probability; types are uniform.
Samples here have that distribution given their length: a way from depth 0 back to it in n steps has
a weight of 1/2 for each step, but of 1 for a closing at depth m. The weights of all ways to the end
are summed backwards, and the steps are drawn forwards in their proportion. Yao et al. have k = 8
and m = 10, train on lengths to 700 and test to 1400.

The guess is the closing of the last opening, closed or not, which needs no stack. It is right where
the closing stands behind its opening, and at chance elsewhere: with k = 2, m = 4 and n = 32 at 0.81
of all closings.

Hewitt et al. measure p(right closing), renormalised over the closings, by the distance from a
closing to its opening: the metric `by_distance` is its mean over the distances, in which the many
short ones have no more weight than the few long ones.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.fields import Count
from pe_jax.task import Sample, Task


@dataclasses.dataclass(frozen=True)
class Dyck(Task):
    """The type of each closing bracket."""

    types: Count = 8
    """Types of brackets, k."""
    deepest: Count = 10
    """The largest depth, m."""

    def vocab(self):
        return 2 * self.types

    def labels(self):
        return self.types

    def first_label(self):
        return self.types

    def has(self, n):
        return n % 2 == 0 and n >= 2

    def sample(self, key, n, longest):
        for_steps, for_types = jax.random.split(key)
        place = jnp.arange(longest)
        weights = self._weights(longest)

        def step(state, drawn):
            depth, stack = state
            left, share, kind = drawn
            to_close, to_open = weights[left, :, depth]
            opens = share * (to_close + to_open) < to_open
            token = jnp.where(opens, kind, self.types + stack[depth - 1])
            stack = jnp.where(opens & (jnp.arange(self.deepest) == depth), kind, stack)
            return (jnp.where(opens, depth + 1, jnp.maximum(depth - 1, 0)), stack), token

        drawn = (
            jnp.maximum(n - 1 - place, 0),
            jax.random.uniform(for_steps, (longest,)),
            jax.random.randint(for_types, (longest,), 0, self.types),
        )
        start = jnp.int32(0), jnp.zeros(self.deepest, jnp.int32)
        tokens = jax.lax.scan(step, start, drawn)[1]
        targets = jnp.where(place < n - 1, jnp.roll(tokens, -1), 0)
        return Sample(tokens, targets, targets >= self.types)

    def _weights(self, longest):
        # Weights of the ways to the end that begin with (a closing, an opening), for 0 .. longest -
        # 1 steps after that and each depth. Those of as many steps have one unknown factor.
        depth = jnp.arange(self.deepest + 1)

        def back(weight, _):
            to_close = jnp.where(depth > 0, jnp.roll(weight, 1), 0)
            to_close = jnp.where(depth == self.deepest, 2, 1) * to_close
            to_open = jnp.where(depth < self.deepest, jnp.roll(weight, -1), 0)
            total = to_close + to_open
            return total / total.sum(), jnp.stack([to_close, to_open])

        return jax.lax.scan(back, jnp.where(depth == 0, 1.0, 0.0), length=longest)[1]

    def _opened(self, tokens) -> list[int | None]:
        # For each token, the place of the opening whose closing is predicted there.
        opened, stack = [], []
        for place, token in enumerate(tokens):
            if token < self.types:
                stack.append(place)
            else:
                stack.pop()
            closes = place + 1 < len(tokens) and tokens[place + 1] >= self.types
            opened.append(stack[-1] if closes else None)
        return opened

    def oracle(self, tokens):
        return [None if at is None else tokens[at] + self.types for at in self._opened(tokens)]

    def distances(self, tokens):
        """From the opening to its closing, 1 where the one stands behind the other."""
        opened = enumerate(self._opened(tokens), 1)
        return [None if at is None else closing - at for closing, at in opened]

    def guess(self, tokens):
        guesses, last = [], 0
        for token in tokens:
            last = token if token < self.types else last
            guesses.append(last + self.types)
        return guesses
