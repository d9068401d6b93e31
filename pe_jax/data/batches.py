"""Training batches by random access: a batch is a function of the seed and the step alone, so a run
that goes on after a kill needs nothing but its step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import grain

FOLLOWED = 8
"""A row of `segments` stays in one document for this many times the memory."""
SHUFFLED = 4096
"""The fewest items that are shuffled at once: fewer windows are repeated until they are so many,
since Grain's shuffle takes milliseconds for each item where there are only a few."""


class _Windows:
    """A random-access source for Grain: window i holds length + 1 tokens of one document."""

    def __init__(self, documents: Sequence[np.ndarray], length: int):
        self.documents, self.length = documents, length
        # Of each document: how many windows it has, and how many it and those before it have.
        self.counts = np.array([max(document.size - 1, 0) // length for document in documents])
        self.ends = np.cumsum(self.counts)
        self.passes = -(-SHUFFLED // int(self.ends[-1]))

    def __len__(self) -> int:
        return self.passes * int(self.ends[-1])

    def __getitem__(self, index: int) -> np.ndarray:
        document, start = self.place(index % int(self.ends[-1]))
        return self.documents[document][start : start + self.length + 1].astype(np.int32)

    def place(self, window: int) -> tuple[int, int]:
        """(number of the document, its first token in there) of a window."""
        document = int(np.searchsorted(self.ends, window, side="right"))
        return document, int(window - self.ends[document] + self.counts[document]) * self.length


class _Segments:
    """A random-access source for Grain: item s * batch + b is row b of step s, (window, whether it
    begins a piece of text).
    """

    def __init__(self, windows: _Windows, batch: int):
        self.windows, self.batch, self.count = windows, batch, int(windows.ends[-1])

    def __len__(self) -> int:
        return self.count * self.batch

    def __getitem__(self, index: int) -> tuple[np.ndarray, bool]:
        step, row = divmod(index, self.batch)
        window = (row * self.count // self.batch + step) % self.count
        return self.windows[window], self.windows.place(window)[1] == 0


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


def segments(
    documents: Sequence[np.ndarray], length: int, batch: int, seed: int, memory: int
) -> grain.MapDataset:
    """Batches of consecutive windows, for a segment memory: ds[step] is (int32 [batch, length + 1],
    bool [batch]). The bool is true where a row does not continue its text of the step before.

    Documents are cut into pieces of FOLLOWED times `memory` tokens (rounded up to whole windows),
    in an order drawn from the seed, the same in every epoch. A row reads one piece after another;
    row b begins b / batch of the way through all of them, and after the last piece comes the first.
    Pieces are shorter than documents so that a short training sees many documents. Windows and
    errors are those of `batches`.
    """
    _check(documents, length, batch, seed)
    import grain  # imports jax: seconds

    size = FOLLOWED * -(-memory // length) * length
    pieces = [
        document[start : start + size + 1]
        for document in documents
        for start in range(0, document.size - length, size)
    ]
    order = np.random.default_rng(seed).permutation(len(pieces))
    windows = _Windows([pieces[i] for i in order], length)
    source = grain.MapDataset.source(_Segments(windows, batch))
    return source.repeat().batch(batch, drop_remainder=True)


def stack(datasets: Sequence[grain.MapDataset], first: int, count: int) -> Any:
    """The batches of steps first .. first + count - 1 of R replicas, one dataset each, as one:
    every array of a batch has the axes [count, R] in front.
    """
    import jax

    items = [ds[step] for step in range(first, first + count) for ds in datasets]
    lead = (count, len(datasets))
    return jax.tree.map(lambda *a: np.stack(a).reshape(*lead, *a[0].shape), *items)


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
