"""Summation modulo 10 (Kazemnejad et al., 2023, arXiv:2305.19466), at the level of symbols.

n digits, each drawn uniformly from 1 .. 9, with a + between them; the answer is the last digit of
their sum. The words of the prompt are left out: 3 + 8 + 6 -> 7. With scratchpad=True there is a
step for each digit d, with the last digit s of the sum before it:

    in d comp d + var = d + s = out <d + s> var <d + s> = <its last digit> re <the input left> #

    3 + 8 -> in 3 comp 3 + var = 3 + 0 = out 3 var 3 = 3 re 8 # in 8 comp 8 + var = 8 + 3 = out 1 1
             var 1 1 = 1 re thus 1 END

Trained on n up to 8 there, and tested on 9 .. 16. The answer 0 is impossible at n = 1, and has
probability 0.1 from about n = 8 on.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.tasks.answer import NOTHING, STEP, Written, two_digits, upto


@dataclasses.dataclass(frozen=True)
class Summation(Written):
    """The last digit of a sum of digits."""

    scratchpad: bool = False

    def _names(self):
        return (*"0123456789", "end", "+", *STEP * self.scratchpad)

    def labels(self):
        return self.symbols if self.scratchpad else 10

    def _counts(self, n):
        return 2 * n - 1, 21 * n + (n - 1) * (n - 1) + 2 if self.scratchpad else 1

    def _draw(self, key, n, longest):
        digits = jax.random.randint(key, (longest,), 1, 10)
        plus = jnp.full(longest, self._id("+"))
        sums = jnp.cumsum(digits)
        input = upto(jnp.stack([digits, plus], axis=1).reshape(-1), 2 * n - 1)
        answer = sums[n - 1][None] % 10
        if self.scratchpad:
            before = (sums - digits) % 10
            out, kept = two_digits(digits + before), sums % 10
            done = 2 * jnp.arange(1, longest + 1)[:, None]
            left = jnp.where(jnp.arange(2 * longest)[None] >= done, input[None], NOTHING)
            # fmt: off
            steps = self._steps(
                n, "in", digits, "comp", digits, "+", "var", "=", digits, "+", before, "=",
                "out", out, "var", out, "=", kept, "re", left,
            )
            # fmt: on
            answer = jnp.concatenate([steps, answer])
        return self._drawn(input, answer, longest)

    def _answer(self, input):
        digits, total, words = input[::2], 0, []
        for t, digit in enumerate(digits):
            s, out = total % 10, " ".join(str(total % 10 + digit))
            total += digit
            left = " + ".join(map(str, digits[t + 1 :]))
            words += f"in {digit} comp {digit} + var = {digit} + {s} = out {out}".split()
            words += f"var {out} = {total % 10} re {left} #".split()
        if not self.scratchpad:
            return [total % 10]
        words[-1:] = ["thus", str(total % 10), "end"]
        return self._ids(words)
