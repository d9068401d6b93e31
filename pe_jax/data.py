"""Training batches by random access: functions of (seed, step), so a resumed run needs no more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import grain

LEAST = 4096  # items of a shuffle: Grain's takes milliseconds an item when there are only a few


class _Windows:
    """A random-access source: window i holds length + 1 tokens of one document."""

    def __init__(self, documents: Sequence[np.ndarray], length: int):
        self.documents, self.length = documents, length
        self.counts = np.array([max(document.size - 1, 0) // length for document in documents])
        self.ends = np.cumsum(self.counts)
        self.passes = -(-LEAST // int(self.ends[-1]))

    def __len__(self) -> int:
        return self.passes * int(self.ends[-1])

    def __getitem__(self, index: int) -> np.ndarray:
        window = index % self.ends[-1]
        which = np.searchsorted(self.ends, window, side="right")
        start = (window - self.ends[which] + self.counts[which]) * self.length
        return self.documents[which][start : start + self.length + 1].astype(np.int32)


def batches(
    documents: Sequence[np.ndarray], length: int, batch: int, seed: int
) -> grain.MapDataset:
    """Batches of shuffled windows: ds[step] is int32 [batch, length + 1] for every step >= 0.

    A window holds length + 1 tokens of one document: inputs are [:length], targets [1:]. Windows
    begin at multiples of `length`, so a document of n tokens has (n - 1) // length of them,
    neighbours share one token, and no token is a target twice in an epoch. The last
    (n - 1) % length tokens of a document are left out.

    Every epoch has each window equally often (once, from 4096 windows on), in an order of its own.
    A batch may end one epoch and begin the next. Documents are not copied.

    Raises ValueError for no window at all, sizes below 1 and seeds outside 0 .. 2**32 - 1.
    """
    _check(documents, length, batch, seed)
    import grain  # imports jax: seconds

    source = grain.MapDataset.source(_Windows(documents, length))
    return source.seed(seed).shuffle().repeat().batch(batch, drop_remainder=True)


def stack(datasets: Sequence[grain.MapDataset], first: int, count: int) -> np.ndarray:
    """int32 [count, R, batch, length + 1]: steps first .. first + count - 1 of R replicas."""
    steps = range(first, first + count)
    return np.array([[ds[step] for ds in datasets] for step in steps])


def _check(documents: Sequence[np.ndarray], length: int, batch: int, seed: int) -> None:
    for name, value in (("length", length), ("batch", batch)):
        if value < 1:
            raise ValueError(f"train.{name} must be at least 1, got {value}")
    if not 0 <= seed < 2**32:
        raise ValueError(f"a seed of the data must be in 0 .. 2**32 - 1, got {seed}")
    longest = max((document.size for document in documents), default=0)
    if longest < length + 1:
        raise ValueError(
            f"the longest training document has {longest} tokens, a window needs {length + 1} "
            "(train.length + 1); give longer documents or a smaller train.length"
        )
