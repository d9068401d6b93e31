"""Predictions of the models as they are within eval.reference, by default their training length.

KL and LongPPL compare with them: KL with the rows of their distributions, LongPPL (Fang et al.,
2024; arXiv:2410.23771) by its key tokens. Both are computed once for every way and length.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from pe_jax.evaluation.passes import Pass
from pe_jax.evaluation.scoring import Missing, Programs
from pe_jax.evaluation.windows import Windows
from pe_jax.metric import TextMetric
from pe_jax.metrics import named
from pe_jax.record import AS_TRAINED, Replica

GAIN, FULL = 2.0, 2.0
"""Nats: a key token has more than GAIN nats more from few tokens, and below FULL from all."""


class Short(NamedTuple):
    """Short contexts of the targets of windows, each shared by `stride` consecutive targets."""

    tokens: int
    """K: the tokens that the first of these targets sees; the last one sees K + stride - 1."""
    stride: int

    @classmethod
    def of(cls, length: int) -> Short:
        """A quarter of a length, and a quarter of that."""
        return cls(max(1, length // 4), max(1, length // 16))

    # (window, first target, number of targets) of each short window
    def _pieces(self, whole: Windows) -> Iterator[tuple[int, int, int]]:
        for window, (lo, end) in enumerate(zip(whole.lo, whole.hi, strict=True)):
            for first in range(max(lo + 1, self.tokens), end + 1, self.stride):
                yield window, first, min(self.stride, end + 1 - first)

    def windows(self, whole: Windows) -> Windows:
        """The short windows of all `whole` ones, one after another. Targets with fewer than K
        tokens before them have none.
        """
        context, stride = self
        pieces = list(self._pieces(whole))
        tokens = np.zeros((len(pieces), context + stride), np.int32)
        for row, (window, first, _) in zip(tokens, pieces, strict=True):
            part = whole.tokens[window, first - context : first + stride]
            row[: len(part)] = part
        if whole.bos is not None:
            tokens[:, 0] = whole.bos
        size, lo = context + stride - 1, np.full(len(pieces), context - 1)
        hi = lo + [count for _, _, count in pieces]
        return Windows(whole.metric, size, tokens, np.ones((len(pieces), size), int), lo, hi)

    def spread(self, whole: Windows, nats: np.ndarray) -> np.ndarray:
        """-ln p of the last targets of the `whole` windows, [W, last], from that of the `windows`,
        [pieces, stride]; NaN where there is none.
        """
        out = np.full((len(whole.tokens), whole.length), np.nan)
        for row, (window, first, count) in zip(nats, self._pieces(whole), strict=True):
            out[window, first - 1 : first - 1 + count] = row[:count]
        return out[:, -whole.last :]


def key_tokens(full: np.ndarray, short: np.ndarray) -> np.ndarray:
    """The key tokens among targets, from their -ln p in nats: full < 2 and short - full > 2."""
    return (full < FULL) & (short - full > GAIN)


class Reference:
    """The predictions within eval.reference. `cuts` are the windows of each metric and length,
    eval.reference included.
    """

    def __init__(self, programs: Programs, cuts: Mapping[tuple[str, int], Windows]):
        self.programs, self.cuts = programs, cuts
        self.length = programs.config.reference or 0
        made = tuple(e.at(self.length) for e in programs.models.encodings)
        self.part = Pass(AS_TRAINED, self.length, self.length, made).computed()
        """The pass of the models as they are at eval.reference."""
        self.kept: dict[tuple[Any, ...], tuple[np.ndarray | Missing, float]] = {}
        self.lock = threading.Lock()

    def get(
        self, kind: Literal["rows", "keys"], metric: str, replica: Replica
    ) -> tuple[np.ndarray | Missing, float]:
        """(for the last targets of a metric's windows, or of the one window of a place, the rows
        [W, last, D] of `LM.logits_of`, or which targets are key tokens, bool [W, last]; the seconds
        that they took).

        They are computed once for metrics of the same windows and for all threads; those of places
        are kept until the next place.
        """
        key = kind, named(metric, TextMetric).places, replica
        with self.lock:
            if replica.kind != "seed":
                self.kept = {old: rows for old, rows in self.kept.items() if old[-1] == replica}
            if key not in self.kept:
                whole, began = self.cuts[metric, self.length].of(replica), time.monotonic()
                if kind == "rows":
                    computed = self._score(whole, replica, measure=None)
                else:
                    computed = self._keys(whole, replica)
                self.kept[key] = computed, time.monotonic() - began
            return self.kept[key]

    def _keys(self, whole: Windows, replica: Replica) -> np.ndarray | Missing:
        short = Short.of(whole.length)
        full = self._score(whole, replica)
        little = self._score(short.windows(whole), replica)
        if isinstance(full, Missing):
            return full
        if isinstance(little, Missing):
            return little
        return key_tokens(full, short.spread(whole, little))

    def _score(self, cut: Windows, replica: Replica, **options: Any) -> np.ndarray | Missing:
        made = tuple(e.at(cut.length) for e in self.programs.models.encodings)
        return self.programs.text(cut, replica, made, **options)
