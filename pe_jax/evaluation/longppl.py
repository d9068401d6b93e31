"""The key tokens of LongPPL (Fang et al., 2024; arXiv:2410.23771)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pe_jax.evaluation.windows import Windows

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
        for window, scored in enumerate(whole.scored):
            begin, end = np.flatnonzero(scored)[[0, -1]] + 1
            for first in range(max(begin, self.tokens), end + 1, self.stride):
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
        row, sizes = np.arange(context + stride - 1), np.ones(tokens[:, 1:].shape, int)
        scored = [(row >= context - 1) & (row < context - 1 + count) for _, _, count in pieces]
        return Windows(whole.metric, len(row), tokens, sizes, np.stack(scored))

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
