"""Prompts: texts that are written to ask a model for something, each with its answer at the end.
Each function gives the prompt of one number at the evaluation length E, in the model's tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

Encode = Callable[[bytes], np.ndarray]
"""The tokens of a text."""
FILLER = (
    b"The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again. "
)
INTRODUCTION = (
    b"There is an important info hidden inside a lot of irrelevant text. Find it and memorize "
    b"them. I will quiz you about the important information there.\n"
)
DIGITS = 5
# The bytes 0 .. 4 stand for the digits of the number.
NEEDLE = b"\nThe pass key is \0\1\2\3\4. Remember it. \0\1\2\3\4 is the pass key.\n"
QUESTION = b"\nWhat is the pass key? The pass key is \0\1\2\3"
DEPTHS = 8
"""Prompts of consecutive numbers hide what they ask for at so many depths, evenly from 0 to 1."""


class Prompt(NamedTuple):
    """A text with its answer."""

    tokens: Int[np.ndarray, "E1"]
    """E + 1 tokens, the answer at the end."""
    answer: int
    """Tokens of the answer."""
    depth: float
    """The share of the filler that stands before what is asked for, in [0, 1]."""


def passkey(encode: Encode, length: int, number: int) -> Prompt:
    """The passkey of tasks/passkey.py, a number of five digits hidden in filler text and asked for
    at its end, with as many tokens of filler as make E + 1 tokens. The digits are drawn by the
    number of the prompt, and are the same at every length.
    """
    digits = str(np.random.default_rng(number).integers(10 ** (DIGITS - 1), 10**DIGITS)).encode()

    def written(text: bytes) -> bytes:
        """The text with the digits in place of the bytes 0 .. 4."""
        return text.translate(bytes.maketrans(bytes(range(DIGITS)), digits))

    asked = written(QUESTION + bytes([DIGITS - 1]))
    first, needle, end = map(encode, (written(INTRODUCTION), written(NEEDLE), asked))
    room = length + 1 - sum(map(len, (first, needle, end)))
    if room < 0:
        raise ValueError(
            f"a passkey's sentences alone have {length - room} tokens, got the length {length}: "
            f"give eval.lengths of at least {length - room}, and a model whose training length, "
            "which is always scored, is as long"
        )
    depth, filler = number % DEPTHS / (DEPTHS - 1), encode(FILLER * length)
    before = round(depth * room)
    tokens = np.concatenate([first, filler[:before], needle, filler[: room - before], end])
    bare = encode(asked[:-DIGITS])
    return Prompt(tokens.astype(np.int32), len(end) - _alike(bare, end), depth)


def _alike(a: np.ndarray, b: np.ndarray) -> int:
    """How many tokens two texts have in common at their start."""
    size = min(len(a), len(b))
    differ = np.flatnonzero(a[:size] != b[:size])
    return int(differ[0]) if len(differ) else size
