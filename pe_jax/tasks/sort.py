"""Sort (Kazemnejad et al., 2023, arXiv:2305.19466), their lists of single tokens.

n symbols of 0 .. alphabet - 1, each drawn uniformly; the answer has them in ascending order, then
END. The words, brackets and commas of the prompt are left out: 4 1 4 0 -> 0 1 4 4 END. With
scratchpad=True each step selects the least symbol m of the list left, exchanges it with the front
f, and says what is left (the paper's step has no variable, and its computation is words alone):

    in f out m re <the list left> #

    4 1 0 -> in 4 out 0 re 1 4 # in 1 out 1 re 4 # in 4 out 4 re thus 0 1 4 END

Their alphabet are 50 pieces of T5's vocabulary; their lists of integers of several digits are not
here. Trained on n up to 8 there, and tested on 9 .. 16. bucket_sort is the task of Deletang et al.,
of five symbols and without END.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.fields import Count
from pe_jax.tasks.answer import NOTHING, STEP, Written, upto


@dataclasses.dataclass(frozen=True)
class Sort(Written):
    """The input in ascending order."""

    scratchpad: bool = False
    alphabet: Count = 50

    def _names(self):
        words = [word for word in STEP if word not in ("comp", "var", "=")]
        return (*map(str, range(self.alphabet)), "end", *words * self.scratchpad)

    def _counts(self, n):
        return n, n + 1 + self.scratchpad * (6 * n + n * (n - 1) // 2)

    def _draw(self, key, n, longest):
        x = jax.random.randint(key, (longest,), 0, self.alphabet)
        place = jnp.arange(longest)
        beyond = jnp.where(place < n, x, self.alphabet)
        answer = upto(jnp.sort(beyond), n)
        if self.scratchpad:

            def select(row, t):
                least = jnp.argmin(jnp.where(place < t, self.alphabet, row))
                front, chosen = row[t], row[least]
                row = row.at[least].set(front).at[t].set(chosen)
                return row, (front, chosen, jnp.where(place > t, upto(row, n), NOTHING))

            _, (front, chosen, left) = jax.lax.scan(select, beyond, place)
            steps = self._steps(n, "in", front, "out", chosen, "re", left)
            answer = jnp.concatenate([steps, answer])
        return self._drawn(upto(x, n), answer, longest)

    def _answer(self, input):
        if not self.scratchpad:
            return [*sorted(input), self.alphabet]
        words, rest = [], list(input)
        while rest:
            front, least = rest[0], min(rest)
            rest[rest.index(least)] = front
            rest = rest[1:]
            words += ["in", str(front), "out", str(least), "re", *map(str, rest), "#"]
        words[-1:] = ["thus", *map(str, sorted(input)), "end"]
        return self._ids(words)
