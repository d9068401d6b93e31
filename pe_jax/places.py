"""Where in the documents of a text the windows of its metrics lie (metric.py): each function gives
the windows of one metric from the documents' sizes in tokens and the evaluation length E.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np


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


def same_targets(sizes, E, scope) -> Iterator[Place]:
    k = scope.last
    for document, e in _ends(sizes, scope.targets // k, scope.longest, k):
        yield Place(document, e - E, E - 1 - k, E - 1)


def last_k(sizes, E, scope) -> Iterator[Place]:
    k = min(scope.last, E)
    for document, e in _ends(sizes, scope.targets // scope.last, E + 1, k):
        yield Place(document, e - E - 1, E - k, E)


def nonoverlapping(sizes, E, scope) -> Iterator[Place]:
    for document, begin, end in _spans(sizes, scope):
        for start in range(begin, end, E):
            yield Place(document, start, 0, min(E, end - start))


def sliding(sizes, E, scope) -> Iterator[Place]:
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
