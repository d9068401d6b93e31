"""How much of one text also stands in another, in the sense in which language models are checked
for test text that they were trained on: the share of its bytes that lie in a passage which stands
there, too.

A passage is WINDOW bytes, about the 13 words of GPT-3's check (Brown et al., 2020,
arXiv:2005.14165). Windows of the training text are hashed at every STRIDE-th byte, and those of the
text that is checked at every byte. So what both have in common is found wherever it begins, if it
is at least WINDOW + STRIDE - 1 bytes long; up to STRIDE - 1 bytes at either end are not counted. A
document that is equal to one of the training text counts whole, however short it is.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from pe_jax.held_out import Overlap

WINDOW = 64
STRIDE = 16
_FACTORS = np.random.default_rng(0).integers(1 << 63, size=WINDOW // 8, dtype=np.uint64) | 1


@dataclasses.dataclass(frozen=True, eq=False)
class Passages:
    """The passages of a training text."""

    documents: Sequence[np.ndarray]
    """uint8 [n] each."""
    names: Sequence[str]

    def overlap(self, documents: Sequence[np.ndarray], names: Sequence[str]) -> Overlap:
        """How much of other documents stands in these, and in which of them most of it does."""
        copied = [self._equal(document) for document in documents]
        found = _found([_hashes(document) for document in documents], self._known)
        shared = [
            _covered(windows) if copy is None else document.size
            for document, copy, windows in zip(documents, copied, found, strict=True)
        ]
        share = sum(shared) / sum(document.size for document in documents)
        if not share:
            return Overlap(share=share)
        most = max(range(len(documents)), key=lambda i: (copied[i] is not None, shared[i]))
        beside = copied[most]
        if beside is None:
            windows = _found(self._hashes, np.sort(_hashes(documents[most])))
            beside = int(np.argmax([which.sum() for which in windows]))
        return Overlap(
            share=share,
            copies=sum(copy is not None for copy in copied),
            document=names[most],
            beside=self.names[beside],
        )

    def _equal(self, document: np.ndarray) -> int | None:
        """The index of the first document with the same bytes."""
        same = (i for i, other in enumerate(self.documents) if np.array_equal(document, other))
        return next(same, None)

    @functools.cached_property
    def _hashes(self) -> list[np.ndarray]:
        return [_hashes(document, STRIDE) for document in self.documents]

    @functools.cached_property
    def _known(self) -> np.ndarray:
        return np.sort(np.concatenate(self._hashes))


def _covered(windows: np.ndarray) -> int:
    """How many bytes lie in the windows that bool [n] marks by their first byte."""
    starts = np.flatnonzero(windows)
    return int(np.minimum(np.diff(starts), WINDOW).sum()) + WINDOW * bool(starts.size)


def _found(parts: Sequence[np.ndarray], known: np.ndarray) -> list[np.ndarray]:
    """bool [n] for each part: which of its hashes are among `known`, which is sorted."""
    hashes = np.concatenate(parts)
    order = np.argsort(hashes)  # values in order are found many times faster
    hashes = hashes[order]
    first, after = (np.searchsorted(known, hashes, side) for side in ("left", "right"))
    found = np.empty(len(hashes), bool)
    found[order] = first < after
    return np.split(found, np.cumsum([len(part) for part in parts])[:-1])


def _hashes(document: np.ndarray, stride: int = 1) -> np.ndarray:
    """uint64 [n]: of each window that begins at a multiple of `stride`; none where the document is
    shorter than a window.
    """
    count = max(0, (document.size - WINDOW) // stride + 1)
    total = np.zeros(count, np.uint64)
    if count:
        for i, factor in enumerate(_FACTORS):
            words = np.ndarray(count, "<u8", document, 8 * i, (stride,))
            total += (words ^ (words >> 32)) * factor
    return total ^ (total >> 32)
