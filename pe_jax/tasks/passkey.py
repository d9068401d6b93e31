"""Passkey retrieval (Mohtashami and Jaggi, 2023, arXiv:2305.16300; epfml/landmark-attention).

A number is hidden in filler text, and asked for at the end. Tokens are bytes; n is the number of
characters of filler, as in the source, and a sample has 252 more. The text is five lines:

    1. There is an important info hidden inside a lot of irrelevant text. Find it and memorize
       them. I will quiz you about the important information there.
    2. the first p characters of the filler, p uniform in 0 .. n
    3. The pass key is 41203. Remember it. 41203 is the pass key.
    4. the first n - p characters of the filler
    5. What is the pass key? The pass key is 41203

The filler is `FILLER` over and over. The five digits at the end are predicted, each from the text
before it. In the source the number is uniform in 1 .. 50000, the model writes ten tokens, and the
first number in them is its answer. Here it always has five digits and is uniform in 10000 .. 99999,
so that it is scored digit by digit and the samples of length n have one size. The depth of a
sample is p / n, as in the source.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.metrics.prompts import DIGITS, FILLER, INTRODUCTION, NEEDLE, QUESTION
from pe_jax.task import Sample
from pe_jax.tasks.retrieval import Retrieval

FRAME = len(INTRODUCTION + NEEDLE + QUESTION)


@dataclasses.dataclass(frozen=True)
class Passkey(Retrieval):
    """The digits of a number hidden in a text."""

    def vocab(self):
        return 256

    def labels(self):
        return 10

    def first_label(self):
        return ord("0")

    def size(self, n):
        return FRAME + n

    def sample(self, key, n, longest):
        for_place, for_number = jax.random.split(key)
        before = jax.random.randint(for_place, (), 0, n + 1)
        number = jax.random.randint(for_number, (), 10 ** (DIGITS - 1), 10**DIGITS)
        digits = ord("0") + number // 10 ** jnp.arange(DIGITS - 1, -1, -1) % 10
        place = jnp.arange(FRAME + longest)
        tokens, start = jnp.zeros_like(place), 0
        for text, size in (
            (INTRODUCTION, len(INTRODUCTION)),
            (FILLER, before),
            (NEEDLE, len(NEEDLE)),
            (FILLER, n - before),
            (QUESTION, len(QUESTION)),
        ):
            here = jnp.array(list(text))[(place - start) % len(text)]
            tokens = jnp.where(place >= start, here, tokens)
            start = start + size
        tokens = jnp.where(tokens < DIGITS, digits[jnp.minimum(tokens, DIGITS - 1)], tokens)
        answered = place - (FRAME + n - DIGITS)
        scored = (answered >= 0) & (answered < DIGITS)
        return Sample(tokens, digits[jnp.clip(answered, 0, DIGITS - 1)], scored)

    def _sources(self, tokens):
        number = bytes(tokens).index(b"pass key is ") + len("pass key is ")
        return {len(tokens) - DIGITS + digit: number + digit for digit in range(DIGITS)}

    def depths(self, tokens):
        lines = bytes(tokens).split(b"\n")
        depth = len(lines[1]) / len(lines[1] + lines[3])
        return [depth if want is not None else None for want in self.oracle(tokens)]
