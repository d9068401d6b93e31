"""What introductions ask of an ideal encoding, by probes of attention: a value of its own for each
position, the same difference between two places whatever the length of the text, bounded values.

The value of a key for a query is what the encoding adds to the logit of the pair; where it leaves
all logits as they are, the logarithm of the weight over the query's largest. All tokens of a probe
have one content, so that nothing but their places differs: input, query and key with normal and
independent components. CONTENTS such contents give so many values in each head. Parameters have
noise, since some encodings change nothing at their initial values.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float, Int

from pe_jax.atlas.kinds import moves_positions
from pe_jax.atlas.probe import LEAST, SMALL, Content, Probed, probe
from pe_jax.atlas.subject import Subject

CONTENTS = 4
NEAR, FAR = (2**10, 64), (2**20, 256)
"""Lengths of two texts, and how many of their tokens are probed. From the first to the second a
logarithm of the length doubles, and a sum over tokens is four times as large.
"""
GROWTH = 1.5
"""The ratio of root mean squares of values from which they grow: halfway to a logarithm's."""


@dataclasses.dataclass(frozen=True)
class Ideals:
    """The three properties; all None for an encoding that only moves positions."""

    distinct: bool | None
    """Whether the last query of the longest text shown sees a value of its own at every key."""
    same_at_any_length: bool | None
    """Whether two places have the same value in a text as in one of half its length or less."""
    bounded: bool | None
    """Whether values stay as large at distances that are a thousand times as far. An encoding that
    serves a limited number of positions has bounded values.
    """


def ideals(subject: Subject) -> Ideals:
    """The three properties of the encodings of a subject together."""
    if moves_positions(subject.encodings):
        return Ideals(None, None, None)
    longest = subject.served
    long, short = (values(subject, n) for n in (longest, min(subject.length, longest // 2)))
    T = short.shape[-1]
    scale = max(1.0, float(np.abs(short).max()))
    return Ideals(
        distinct=_distinct(long[..., -1, :].reshape(-1, longest)),
        same_at_any_length=bool(np.abs(long[..., :T, :T] - short).max() < SMALL * scale),
        bounded=_bounded(subject),
    )


def values(
    subject: Subject, length: int, places: Int[np.ndarray, "T"] | None = None
) -> Float[np.ndarray, "C H T T"]:
    """The value of each key for each query; 0 where the query does not see the key."""
    (D, H, K), rng = subject.dims[:3], np.random.default_rng(0)
    sizes = ((1, D), (1, H, K), (1, H, K))
    tokens = length if places is None else len(places)
    drawn = [
        Content(*(np.repeat(rng.normal(size=s).astype(np.float32), tokens, axis=0) for s in sizes))
        for _ in range(CONTENTS)
    ]
    return np.nan_to_num(
        [_value(one) for one in probe(subject, length, drawn, subject.noisy(), places)]
    )


def _value(probed: Probed) -> Float[np.ndarray, "H T T"]:
    if probed.on_logits:
        return probed.added
    weights = np.where(np.isnan(probed.factor), np.nan, np.maximum(np.abs(probed.weights), LEAST))
    return np.log(weights / np.maximum(np.nanmax(weights, axis=-1, keepdims=True), LEAST))


def _distinct(rows: Float[np.ndarray, "N T"]) -> bool:
    """Whether each two columns differ."""
    apart = np.zeros((rows.shape[1],) * 2)
    for row in rows:
        np.maximum(apart, np.abs(row[:, None] - row), out=apart)
    np.fill_diagonal(apart, np.inf)
    return bool(apart.min() > SMALL)


def _bounded(subject: Subject) -> bool:
    if any(e.limit() is not None for e in subject.encodings):
        return True

    def size(length: int, tokens: int) -> float:
        places = np.sort(np.random.default_rng(0).choice(length, tokens, replace=False))
        of_pairs = values(subject, length, places.astype(np.int32))
        return float(np.sqrt(np.mean(np.square(of_pairs))))

    return size(*FAR) < GROWTH * max(size(*NEAR), SMALL)
