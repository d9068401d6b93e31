"""Copying a string of symbols that are all different (Zhou et al., 2023; arXiv:2310.16028): a task
for a config, experiments/studies/unique_copy.py:UniqueCopy.

    3 0 4 -> 3 0 4 END

The place of a symbol in the input is known from the symbol alone, so induction copies it.
"""

import dataclasses

import jax

from pe_jax.fields import AtLeastTwo
from pe_jax.tasks.answer import Written, upto


@dataclasses.dataclass(frozen=True)
class UniqueCopy(Written):
    """The input again; its symbols are drawn without replacement."""

    alphabet: AtLeastTwo = 100

    def has(self, n):
        return 1 <= n <= self.alphabet

    def _names(self):
        return (*map(str, range(self.alphabet)), "end")

    def _counts(self, n):
        return n, n + 1

    def _draw(self, key, n, longest):
        x = upto(jax.random.permutation(key, self.alphabet)[:longest], n)
        return self._drawn(x, x, longest)

    def _answer(self, input):
        return [*input, self.alphabet]
