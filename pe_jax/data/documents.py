"""Documents as one array of bytes or tokens and the bounds of each, in memory or mapped from a
file, so that what reads a text does not depend on its size.
"""

from __future__ import annotations

import dataclasses
import mmap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

BLOCK = 2**25
"""Bytes of a mapped file that are in memory before they are given back."""
MAPPED = 2**16  # bytes that Linux maps at a place that is read


@dataclasses.dataclass(frozen=True, eq=False)
class Documents(Sequence[np.ndarray]):
    """D documents, each a view of the array that they share."""

    tokens: np.ndarray
    """Bytes or ids of tokens: [N]."""
    starts: np.ndarray
    """The place in `tokens` where each document begins: int64 [D]."""
    sizes: np.ndarray
    """The tokens of each document: int64 [D]."""
    file: mmap.mmap | None = None
    """The mapped file of `tokens`; None: they lie in memory."""

    @classmethod
    def of(cls, documents: Iterable[np.ndarray]) -> Documents:
        """From arrays [n], which are copied; `Documents` as they are."""
        if isinstance(documents, Documents):
            return documents
        arrays = [*documents] or [np.empty(0, np.uint8)]
        sizes = np.array([each.size for each in arrays], np.int64)
        tokens = np.concatenate(arrays)
        tokens.flags.writeable = False
        return cls(tokens, np.cumsum(sizes) - sizes, sizes)

    @classmethod
    def mapped(cls, path: Path, dtype: Any, starts: np.ndarray, sizes: np.ndarray) -> Documents:
        """From the file of their tokens."""
        with path.open("rb") as opened:
            file = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        return cls(np.frombuffer(file, dtype), starts, sizes, file)

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, number):
        start = int(self.starts[number])
        return self.tokens[start : start + int(self.sizes[number])]

    def __iter__(self) -> Iterator[np.ndarray]:
        read = 0
        for start, size in zip(self.starts, self.sizes, strict=True):
            yield self.tokens[start : start + size]
            read += size * self.tokens.itemsize + MAPPED
            if read > BLOCK:
                read = 0
                self.release()

    def take(self, chosen: np.ndarray | slice) -> Documents:
        """Some of the documents, by their numbers or a mask."""
        fields = {"starts": self.starts[chosen], "sizes": self.sizes[chosen]}
        return dataclasses.replace(self, **fields)

    def rows(self, starts: np.ndarray, length: int) -> np.ndarray:
        """int32 [n, length]: the tokens from each of these places of `tokens` on."""
        return self.tokens[starts[:, None] + np.arange(length)].astype(np.int32)

    def release(self) -> None:
        """Gives back the memory of what has been read of a mapped file; it is read again."""
        if self.file and hasattr(mmap, "MADV_DONTNEED"):  # not on Windows
            self.file.madvise(mmap.MADV_DONTNEED)


def joined(parts: Sequence[Documents]) -> Documents:
    """The documents of parts that share one array."""
    starts = np.concatenate([part.starts for part in parts])
    sizes = np.concatenate([part.sizes for part in parts])
    return dataclasses.replace(parts[0], starts=starts, sizes=sizes)
