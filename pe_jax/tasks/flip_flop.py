"""Flip-flop language modelling (Liu et al., 2023, arXiv:2306.00946).

n tokens, n even: n / 2 pairs of an instruction and a bit. The first instruction is `w` (write), the
last `r` (read); the others are independent: `i` (ignore) with probability `ignore`, else `w` or `r`
with equal probability. The bit behind `w` and `i` is 0 or 1 with equal probability, and behind `r`
it is the bit of the last `w`. At each `r` the bit is predicted. Two of n = 20:

    w1 i1 i0 i0 i1 i0 i0 i1 i0 r1
    w0 w1 r1 r1 r1 r1 w1 w1 r1 r1

The paper has n = 512, trains with ignore = 0.8 and tests with 0.8, 0.98 (sparse) and 0.1 (dense).
Its loss covers every token, most of them unpredictable; here loss and scores cover the reads. The
guess is the bit of the pair before: right in 0.95, 0.60 and 0.51 of the reads for ignore = 0.1, 0.8
and 0.98. The definition is taken from two implementations which quote the paper.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.fields import Fraction
from pe_jax.task import Sample
from pe_jax.tasks.retrieval import Retrieval

WRITE, READ, IGNORE = 2, 3, 4  # the bits are 0 and 1


@dataclasses.dataclass(frozen=True)
class FlipFlop(Retrieval):
    """The bit that was written last."""

    ignore: Fraction = 0.8
    """Probability of an instruction to be ignored."""

    def vocab(self):
        return 5

    def labels(self):
        return 2

    def has(self, n):
        return n % 2 == 0 and n >= 4

    def sample(self, key, n, longest):
        for_instructions, for_reads, for_bits = jax.random.split(key, 3)
        pair = jnp.arange(longest // 2)
        ignored = jax.random.bernoulli(for_instructions, self.ignore, pair.shape)
        read = jax.random.bernoulli(for_reads, 0.5, pair.shape)
        instruction = jnp.where(ignored, IGNORE, jnp.where(read, READ, WRITE))
        instruction = jnp.where(pair == n // 2 - 1, READ, instruction).at[0].set(WRITE)
        bit = jax.random.bernoulli(for_bits, 0.5, pair.shape).astype(jnp.int32)
        written = jax.lax.cummax(jnp.where(instruction == WRITE, pair, 0))
        bit = jnp.where(instruction == READ, bit[written], bit)
        tokens = jnp.stack([instruction, bit], axis=1).ravel()
        scored = (tokens == READ) & (jnp.arange(len(tokens)) < n)
        return Sample(tokens, jnp.repeat(bit, 2), scored)

    def _sources(self, tokens):
        sources, written = {}, 0
        for place, token in enumerate(tokens):
            if token == WRITE:
                written = place + 1
            elif token == READ:
                sources[place] = written
        return sources

    def guess(self, tokens):
        return [0, *(tokens[place - 1] for place in range(1, len(tokens)))]
