"""Parity (Kazemnejad et al., 2023, arXiv:2305.19466), at the level of symbols, and with the running
parities of Cho et al. (2024, arXiv:2405.20671).

n bits, each 0 or 1 with equal probability; the answer is their sum modulo 2. The paper asks whether
the number of ones is even and answers Yes for 0 and No for 1; its words are left out. Without a
scratchpad this is parity_check of Deletang et al.

    running=False    1 0 1 1 -> 1
    running=True     1 0 1 0 -> 1 1 0 0 END, the parity of the bits so far
    scratchpad=True  for each bit b, with the parity p before it and q after it:
                     in b comp b ** var = b ** p out q var q re <the bits left> #

    0 1 1 -> in 0 comp 0 ** var = 0 ** 0 out 0 var 0 re 1 1 # in 1 comp 1 ** var = 1 ** 0
             out 1 var 1 re 1 # in 1 comp 1 ** var = 1 ** 1 out 0 var 0 re thus 0 END

Trained on n up to 8 there, and tested on 9 .. 16.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.tasks.answer import NOTHING, STEP, Written, upto


@dataclasses.dataclass(frozen=True)
class Parity(Written):
    """Whether the number of ones is odd."""

    scratchpad: bool = False
    running: bool = False
    """Whether the answer has the parity of every prefix."""

    def __post_init__(self):
        super().__post_init__()
        if self.scratchpad and self.running:
            raise ValueError("Parity has a scratchpad or running parities, not both")

    def _names(self):
        return ("0", "1", "end", *("**", *STEP) * self.scratchpad)

    def labels(self):
        return self.symbols if self.scratchpad else 2 + self.running

    def _counts(self, n):
        if self.scratchpad:
            return n, 16 * n + n * (n - 1) // 2 + 2
        return n, n + 1 if self.running else 1

    def _draw(self, key, n, longest):
        bits = jax.random.randint(key, (longest,), 0, 2)
        sums = jnp.cumsum(bits)
        parities = sums % 2
        if self.running:
            return self._drawn(upto(bits, n), upto(parities, n), longest)
        answer = parities[n - 1][None]
        if self.scratchpad:
            before = (sums - bits) % 2
            step = jnp.arange(longest)
            left = jnp.where(step[None] > step[:, None], upto(bits, n)[None], NOTHING)
            # fmt: off
            steps = self._steps(
                n, "in", bits, "comp", bits, "**", "var", "=", bits, "**", before,
                "out", parities, "var", parities, "re", left,
            )
            # fmt: on
            answer = jnp.concatenate([steps, answer])
        return self._drawn(upto(bits, n), answer, longest)

    def _answer(self, input):
        odd = [sum(input[: t + 1]) % 2 for t in range(len(input))]
        if self.running:
            return [*odd, 2]
        if not self.scratchpad:
            return odd[-1:]
        words = []
        for t, bit in enumerate(input):
            p = odd[t - 1] if t else 0
            words += f"in {bit} comp {bit} ** var = {bit} ** {p} out {odd[t]} var {odd[t]}".split()
            words += ["re", *map(str, input[t + 1 :]), "#"]
        words[-1:] = ["thus", str(odd[-1]), "end"]
        return self._ids(words)
