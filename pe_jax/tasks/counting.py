"""Counting (CoPE: Golovneva et al., 2024, arXiv:2405.18719; facebookresearch/RAM, projects/cope).

A program sets variables to 0 and increments them, mostly it passes, and at the end one variable is
printed: its value, 0 .. 10, is predicted at the last token. n tokens, as the code's tokenizer
splits them: a set has four, an increment two, a pass one. With two variables, n = 16:

    pass; a = 0 ; a ++; pass; b = 0 ; a ++; print a        2

The tokens are the values, `=`, `;`, `++;`, `pass;`, `print` and the variables. Operations are drawn
one by one: a set has a weight of 1, an increment of 7, a pass of `passes`. A set takes any
variable, an increment any that was set; an increment of a variable that has 10 is drawn again. The
variable printed is any that was set, and the sample is drawn again if there is none.

In the source lengths are counted in operations, drawn from 3 .. 512, with 1, 3 or 5 variables; its
tests with more passes are `passes` here. The tokens of as many operations vary, so here the tokens
are counted: an operation that has no room before `print` is drawn again. Instead of drawing samples
again until one has a set, the place of the first set is drawn from its distribution given that
there is one.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp

from pe_jax.fields import Count, Positive
from pe_jax.task import Sample, Task

LARGEST = 10
EQUALS, SEMICOLON, INCREMENT, PASS, PRINT, FIRST_VARIABLE = range(LARGEST + 1, LARGEST + 7)
SET_WEIGHT, INCREMENT_WEIGHT = 1, 7
UNSET = -1


@dataclasses.dataclass(frozen=True)
class Counting(Task):
    """The value of a variable of a program."""

    variables: Count = 3
    """Variables that a program may use."""
    passes: Positive = 50.0
    """Weight of a pass in the draw of an operation; a set has 1 and an increment 7."""

    def vocab(self):
        return FIRST_VARIABLE + self.variables

    def labels(self):
        return LARGEST + 1

    def has(self, n):
        return n >= 6

    def sample(self, key, n, longest):
        for_first, for_operations, for_print = jax.random.split(key, 3)
        place = jnp.arange(longest)
        first = self._first_set(for_first, n)
        variable = jnp.arange(self.variables)
        # Operations are numbered: a pass, a set of each variable, an increment of each.
        table, width = self._operations()

        def step(state, drawn):
            values, operation, written = state
            place, share = drawn
            bounds = jnp.cumsum(self._operation_weights(values, n - 2 - place, place - first))
            begins = written == 0
            operation = jnp.where(begins, (bounds <= share * bounds[-1]).sum(), operation)
            sets = begins & (operation == 1 + variable)
            increments = begins & (operation == 1 + self.variables + variable)
            values = jnp.where(sets, 0, values + increments)
            token = table[operation, written]
            written = jnp.where(written + 1 < width[operation], written + 1, 0)
            return (values, operation, written), token

        start = jnp.full(self.variables, UNSET), jnp.int32(0), jnp.int32(0)
        shares = jax.random.uniform(for_operations, (longest,))
        (values, *_), tokens = jax.lax.scan(step, start, (place, shares))
        order = jnp.where(values == UNSET, -1, jax.random.uniform(for_print, values.shape))
        printed = order.argmax()
        tokens = jnp.where(place == n - 2, PRINT, tokens)
        tokens = jnp.where(place == n - 1, FIRST_VARIABLE + printed, tokens)
        return Sample(tokens, jnp.full(longest, values[printed]), place == n - 1)

    def _first_set(self, key, n):
        """The place of the first set, given that there is one: so many passes precede it."""
        rate = -math.log1p(SET_WEIGHT / self.passes)  # of a pass, the logarithm of its probability
        share = jax.random.uniform(key) * -jnp.expm1((n - 5) * rate)
        place = jnp.floor(jnp.log1p(-share) / rate).astype(jnp.int32)
        return jnp.minimum(place, n - 6)

    def _operations(self):
        variables = range(FIRST_VARIABLE, FIRST_VARIABLE + self.variables)
        sets = [[variable, EQUALS, 0, SEMICOLON] for variable in variables]
        increments = [[variable, INCREMENT, 0, 0] for variable in variables]
        width = [1, *[4] * self.variables, *[2] * self.variables]
        return jnp.array([[PASS, 0, 0, 0], *sets, *increments]), jnp.array(width)

    def _operation_weights(self, values, room, after_first):
        # The weight of each operation, with so much room for its tokens, and so many places behind
        # that of the first set.
        known = values != UNSET
        passes = jnp.where((room >= 1) & (after_first != 0), self.passes, 0)
        sets = jnp.where((room >= 4) & (after_first >= 0), SET_WEIGHT / self.variables, 0)
        each = INCREMENT_WEIGHT / jnp.maximum(known.sum(), 1)
        increments = jnp.where(known & (values < LARGEST) & (room >= 2), each, 0)
        return jnp.concatenate([passes[None], jnp.full(self.variables, sets), increments])

    def oracle(self, tokens):
        values, variable = {}, None
        for token in tokens:
            if token >= FIRST_VARIABLE:
                variable = token
            elif token == EQUALS:
                values[variable] = 0
            elif token == INCREMENT:
                values[variable] += 1
        return [*[None] * (len(tokens) - 1), values[variable]]
