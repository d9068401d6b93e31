"""The contract of a metric: which tokens of a text are scored, in windows of which kind, and how
the scores become one number.

A metric is a frozen dataclass of pure functions. All that depends on the metric is a field of it:
windows, value, unit, whether lower is better, and the sentence that tables print. To add one, add
an entry to METRICS.

    same_targets    fixed places e, evenly spread over the documents of at least the longest E; the
                    window is [e - E, e) and its last k tokens are scored, k = L/2 by default: the
                    same targets at every E, each of which sees E - k to E - 1 tokens. The headline.
    nonoverlapping  spans of the longest E, evenly spread over the documents and the same at every
                    E, are cut into windows of E, every token scored: early tokens see little
    sliding         the same spans, in windows of E that move by `stride` tokens, of which only the
                    new tokens are scored
    last_k          windows of E evenly spread over the documents, their last k tokens scored

E is the evaluation length and L the training length, in tokens.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

from pe_jax.errors import nearest


class Scope(NamedTuple):
    """What the config of an evaluation fixes for every length, in tokens."""

    longest: int
    """The longest evaluation length."""
    targets: int
    """Tokens scored at each length."""
    last: int
    """k of same_targets and last_k: the scored tokens at the end of each window."""
    stride: int
    """Tokens by which the windows of `sliding` move."""


class Place(NamedTuple):
    """A window of a document, and the rows of it that are scored, begin <= row < end.

    The window begins at token `start`. Row r sees the tokens start .. start + r and predicts the
    next one.
    """

    document: int
    start: int
    begin: int
    end: int


class NoRoom(ValueError):
    """The documents are too short for as many targets as were asked for."""


def bits_per_byte(nats: np.ndarray, sizes: np.ndarray) -> float:
    """sum(nats) / sum(sizes) / ln 2, of -ln p in nats and sizes in bytes, both [n]."""
    return float(nats.sum(dtype=np.float64) / sizes.sum(dtype=np.int64) / math.log(2))


@dataclasses.dataclass(frozen=True)
class Metric:
    """How one checkpoint is scored at an evaluation length."""

    name: str
    sentence: str
    """What is scored, for the notes below a table. {split} stands for "test" or "validation",
    {last} for `eval.last`, which is "L/2" where it is not set.
    """
    places: Callable[[Sequence[int], int, Scope], Iterator[Place]]
    """The windows, from the documents' sizes in tokens and the evaluation length E. Raises NoRoom
    if there are too few.
    """
    beyond: int = 1
    """Tokens that a document needs beyond the longest window."""
    uses: tuple[str, ...] = ()
    """The fields of Scope, "last" or "stride", that it reads and that must be below the shortest
    length.
    """
    by_position: bool = False
    """Whether every row of its windows is scored, so that results can be drawn by position."""
    value: Callable[[np.ndarray, np.ndarray], float] = bits_per_byte
    """One number from the scored targets' -ln p, in nats, float [n], and their sizes in bytes, int
    [n].
    """
    unit: str = "bits per byte"
    better: Literal["lower", "higher"] = "lower"

    @property
    def sign(self) -> int:
        """1 if lower is better, else -1: of values times `sign` the lowest is the best."""
        return 1 if self.better == "lower" else -1

    @property
    def title(self) -> str:
        """For example "Bits per byte, same targets (lower is better)"."""
        unit = self.unit[:1].upper() + self.unit[1:]
        return f"{unit}, {self.words} ({self.better} is better)"

    @property
    def best(self) -> str:
        """ "lowest" or "highest": which of several values is the best."""
        return "lowest" if self.better == "lower" else "highest"

    @property
    def words(self) -> str:
        """Its name in a sentence."""
        return self.name.replace("_", " ")


def _same_targets(sizes, E, scope) -> Iterator[Place]:
    k = scope.last
    for document, e in _ends(sizes, scope.targets // k, scope.longest, k):
        yield Place(document, e - E, E - 1 - k, E - 1)


def _last_k(sizes, E, scope) -> Iterator[Place]:
    k = min(scope.last, E)
    for document, e in _ends(sizes, scope.targets // scope.last, E + 1, k):
        yield Place(document, e - E - 1, E - k, E)


def _nonoverlapping(sizes, E, scope) -> Iterator[Place]:
    for document, begin, end in _spans(sizes, scope):
        for start in range(begin, end, E):
            yield Place(document, start, 0, min(E, end - start))


def _sliding(sizes, E, scope) -> Iterator[Place]:
    for document, begin, end in _spans(sizes, scope):
        for first in range(begin, end, scope.stride):
            last = min(first + scope.stride, end)
            start = max(0, last - E)
            yield Place(document, start, first - start, last - start)


def _spans(sizes, scope) -> Iterator[tuple[int, int, int]]:
    """(document, begin, end) of spans of the longest E; the last is cut so that all have `targets`
    tokens together.
    """
    count, left = math.ceil(scope.targets / scope.longest), scope.targets
    for document, end in _ends(sizes, count, scope.longest + 1, scope.longest):
        begin = end - 1 - scope.longest
        yield document, begin, begin + min(scope.longest, left)
        left -= scope.longest


def _ends(sizes, count: int, least: int, apart: int) -> list[tuple[int, int]]:
    """(document, e) of `count` places e, evenly spread over the documents, with e >= least and at
    least `apart` tokens between two of one document. Raises NoRoom if they do not fit.
    """
    room = [max(0, (size - least) // apart + 1) for size in sizes]
    if count < 1 or sum(room) < count:
        raise NoRoom(f"room for {sum(room) * apart} targets")
    slots = np.linspace(0, sum(room) - 1, count).round().astype(int)
    document = np.searchsorted(np.cumsum(room), slots, side="right")
    before = np.cumsum([0, *room])[document]
    return [
        (int(d), int(least + (s - b) * apart))
        for d, s, b in zip(document, slots, before, strict=True)
    ]


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(
            "same_targets",
            "The targets are the same tokens at every length: the {last} tokens before fixed "
            "places in {split} documents, L being the training length. Only the window before "
            "these places grows, so differences come from context alone, and the value at L is "
            "what a model that crops the longer context away scores at every length.",
            _same_targets,
            beyond=0,
            uses=("last",),
        ),
        Metric(
            "nonoverlapping",
            "{split} documents are cut into windows of the evaluation length and every token is "
            "scored. Short windows hold a larger share of tokens with little context, so part of "
            "a negative gain is that share shrinking.",
            _nonoverlapping,
            by_position=True,
        ),
        Metric(
            "sliding",
            "Windows of the evaluation length move over {split} documents by a fixed stride. Only "
            "the tokens that are new in a window are scored.",
            _sliding,
            uses=("stride",),
        ),
        Metric(
            "last_k",
            "{split} documents are cut into windows of the evaluation length. Only the last k "
            "tokens of each window are scored.",
            _last_k,
            uses=("last",),
        ),
    )
}


def named(name: str) -> Metric:
    """The metric of that name; ValueError, with the nearest name, for one that is not known."""
    if name not in METRICS:
        raise ValueError(
            f"unknown metric {name!r}{nearest(name, METRICS)} Known: {', '.join(METRICS)}."
        )
    return METRICS[name]
