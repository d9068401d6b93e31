"""Passkeys in the tokens of a pretrained model: a number hidden in filler text and asked for at its
end.

The text is that of tasks/passkey.py, with as many tokens of filler as make the window one of E + 1
tokens, of which the last ones are the number. Of P places, place p hides the number after the share
p / (P - 1) of the filler, its depth. Every place has a number of its own, the same at all lengths.
All tokens of the sentences that hold the number are in the window, whatever its length: a model
that has no answer has seen it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from pe_jax.data.tokenizer import Tokenizer
from pe_jax.evaluation.budget import Budget
from pe_jax.evaluation.by_place import Score
from pe_jax.evaluation.passes import Pass
from pe_jax.evaluation.scoring import Missing, merged, within_budget
from pe_jax.reason import Reason
from pe_jax.tasks.passkey import DIGITS, FILLER, INTRODUCTION, NEEDLE, QUESTION
from pe_jax.training.session import Session

ASKED = QUESTION + bytes([DIGITS - 1])
"""The question with the whole number after it."""


@dataclasses.dataclass(frozen=True)
class Passkeys:
    """The windows of one evaluation length E, one for each of P places."""

    tokens: np.ndarray
    """int32 [P, E + 1]."""
    depths: np.ndarray
    """float [P]: the share of the filler that stands before the number, in [0, 1]."""
    answers: np.ndarray
    """int [P]: how many tokens at the end are the number."""

    @classmethod
    def of(cls, tokenizer: Tokenizer, length: int, places: int) -> Passkeys:
        """ValueError where the sentences alone have more tokens than `length`."""

        def cut(text: bytes) -> np.ndarray:
            return tokenizer.encode([np.frombuffer(text, np.uint8)])[0]

        filler, depths = cut(FILLER * length), np.linspace(0, 1, places)
        windows, answers = [], []
        for place, depth in enumerate(depths):
            low, high = 10 ** (DIGITS - 1), 10**DIGITS
            number = str(np.random.default_rng(place).integers(low, high)).encode()
            first, needle, asked = (
                cut(_written(text, number)) for text in (INTRODUCTION, NEEDLE, ASKED)
            )
            room = length + 1 - sum(map(len, (first, needle, asked)))
            if room < 0:
                raise ValueError(
                    f"a passkey's sentences alone have {length - room} tokens, got the length "
                    f"{length}: give --lengths of at least {length - room}, and a model whose "
                    "training length, which is always scored, is as long"
                )
            before = round(depth * room)
            parts = first, filler[:before], needle, filler[: room - before], asked
            windows.append(np.concatenate(parts).astype(np.int32))
            bare = cut(_written(ASKED, number)[:-DIGITS])
            answers.append(len(asked) - _alike(bare, asked))
        return cls(np.stack(windows), depths, np.array(answers))


def _written(text: bytes, number: bytes) -> bytes:
    """The text with the digits of a number in place of the bytes 0 .. 4."""
    return text.translate(bytes.maketrans(bytes(range(DIGITS)), number))


def _alike(a: np.ndarray, b: np.ndarray) -> int:
    """How many tokens two texts have in common at their start."""
    size = min(len(a), len(b))
    differ = np.flatnonzero(a[:size] != b[:size])
    return int(differ[0]) if len(differ) else size


def scorer(
    graphdef: nnx.GraphDef, params: Any, keys: Mapping[int, Passkeys], session: Session
) -> Score:
    """What scores the passkeys of each length: 100 where each token of the number is the most
    likely one where it is predicted, as greedy decoding needs it to be, else 0.
    """
    budget = Budget(None)

    def score(part: Pass, place: int) -> float | Missing:
        own = keys[part.length]
        tokens, last = own.tokens[place : place + 1], int(own.answers.max())
        program = functools.partial(_below, graphdef=graphdef, encodings=part.encodings, last=last)
        below = within_budget(
            program,
            (params, tokens),
            part.length,
            session,
            budget,
            lambda program: np.asarray(program(params, tokens))[0, -own.answers[place] :],
        )
        if isinstance(below, Missing):
            return below
        if not np.isfinite(below).all():
            return Missing(Reason.NOT_FINITE)
        return 100.0 if (below == 0).all() else 0.0

    return score


@functools.partial(jax.jit, static_argnames=("graphdef", "encodings", "last", "blockwise"))
def _below(params, tokens, *, graphdef, encodings, last: int, blockwise: bool = False):
    """How far the logit of each of the last targets lies below the highest one, [B, last]."""
    model = merged(graphdef, params, blockwise)
    keys = jax.random.split(jax.random.key(0), len(tokens))
    logits, _ = model(tokens[:, :-1], encodings=encodings, key=keys, last=last)
    target = jnp.take_along_axis(logits, tokens[:, -last:, None], -1)[..., 0]
    return logits.max(-1) - target
