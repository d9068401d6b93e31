"""Training batches by random access: a batch is a function of the seed and the step alone, so a run
that goes on after a kill needs nothing but its step.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from pe_jax.data.documents import Documents

FOLLOWED = 8
"""A row of `Segments` stays in one document for this many times the memory."""
SHUFFLED = 4096
"""The fewest items that are shuffled at once: fewer windows are repeated until they are so many,
since Grain's shuffle takes milliseconds for each item where there are only a few."""
RELEASED = 2048
"""Windows after which the memory of a mapped text is given back: 64 KiB each, as Linux maps it."""


class _Windows:
    """Windows by their numbers: each holds length + 1 tokens of one document."""

    def __init__(self, documents: Documents, length: int):
        self.documents, self.length = documents, length
        # Of each document: how many windows it and those before it have.
        self.ends = np.cumsum(np.maximum(documents.sizes - 1, 0) // length)
        self.count = int(self.ends[-1])

    def read(self, windows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(tokens int32 [n, length + 1], the place of the first one in its document [n])."""
        numbers = np.searchsorted(self.ends, windows, side="right")
        before = np.where(numbers, self.ends[numbers - 1], 0)
        starts = (windows - before) * self.length
        return self.documents.rows(self.documents.starts[numbers] + starts, self.length + 1), starts

    def release(self, first: int, count: int) -> None:
        """Gives back the memory of a mapped text, once in RELEASED of all windows that are read;
        these are the numbers first .. first + count - 1.
        """
        if first % RELEASED < count:
            self.documents.release()


class Batches:
    """Batches of shuffled windows: batches[step] is int32 [batch, length + 1] for every step >= 0.

    A window holds length + 1 tokens of one document: inputs are [:length], targets [1:]. Windows
    begin at multiples of `length`, so a document of n tokens has (n - 1) // length of them,
    neighbours share one token, and no token is a target twice in an epoch. The last
    (n - 1) % length tokens of a document are left out.

    Every epoch has each window equally often (once, from 4096 windows on), in an order of its own,
    which is that of Grain's `MapDataset.source(windows).seed(seed).shuffle().repeat()`. A batch may
    end one epoch and begin the next. `Documents` are not copied. `bos` (`Tokenizer.bos`) takes the
    place of the first token of every window: what follows is predicted from it.

    Raises ValueError for documents without a window.
    """

    def __init__(
        self,
        documents: Sequence[np.ndarray],
        length: int,
        batch: int,
        seed: int,
        bos: int | None = None,
    ):
        documents = checked(documents, length)
        self.windows, self.batch, self.bos = _Windows(documents, length), batch, bos
        self.epoch = self.windows.count * -(-SHUFFLED // self.windows.count)
        # Grain's seed for what stands one transformation behind its source.
        self.seed = int(np.random.SeedSequence([seed, 1]).generate_state(1)[0])

    def __getitem__(self, step: int) -> np.ndarray:
        from grain.experimental import index_shuffle  # imports jax: seconds

        shuffled = []
        for item in range(step * self.batch, (step + 1) * self.batch):
            epoch, place = divmod(item, self.epoch)
            seed = (self.seed + epoch) % 2**32
            shuffled.append(index_shuffle(place, max_index=self.epoch - 1, seed=seed, rounds=4))
        tokens, _ = self.windows.read(np.array(shuffled) % self.windows.count)
        self.windows.release(step * self.batch, self.batch)
        if self.bos is not None:
            tokens[:, 0] = self.bos
        return tokens


class Segments:
    """Batches of consecutive windows, for a segment memory: segments[step] is (int32
    [batch, length + 1], bool [batch]). The bool is true where a row does not continue its text of
    the step before.

    Documents are cut into pieces of FOLLOWED times `memory` tokens (rounded up to whole windows),
    in an order drawn from the seed, the same in every epoch. A row reads one piece after another;
    row b begins b / batch of the way through all of them, and after the last piece comes the first.
    Pieces are shorter than documents so that a short training sees many documents. Windows and
    errors are as of `Batches`; `bos` replaces the first token of every piece.
    """

    def __init__(
        self,
        documents: Sequence[np.ndarray],
        length: int,
        batch: int,
        seed: int,
        memory: int,
        bos: int | None = None,
    ):
        documents = checked(documents, length)
        size = FOLLOWED * -(-memory // length) * length
        counts = np.maximum(0, -(-(documents.sizes - length) // size))  # of pieces
        numbers = np.repeat(np.arange(len(documents)), counts)
        places = size * (np.arange(len(numbers)) - np.repeat(np.cumsum(counts) - counts, counts))
        pieces = dataclasses.replace(
            documents,
            starts=documents.starts[numbers] + places,
            sizes=np.minimum(documents.sizes[numbers] - places, size + 1),
        )
        order = np.random.default_rng(seed).permutation(len(pieces))
        self.windows, self.batch = _Windows(pieces.take(order), length), batch
        self.bos = bos

    def __getitem__(self, step: int) -> tuple[np.ndarray, np.ndarray]:
        count = self.windows.count
        begins = np.arange(self.batch) * count // self.batch
        tokens, starts = self.windows.read((begins + step) % count)
        self.windows.release(step * self.batch, self.batch)
        begins_piece = starts == 0
        if self.bos is not None:
            tokens[begins_piece, 0] = self.bos
        return tokens, begins_piece


def stack(replicas: Sequence[Batches] | Sequence[Segments], first: int, count: int) -> Any:
    """The batches of steps first .. first + count - 1 of R replicas as one: every array of a batch
    has the axes [count, R] in front.
    """
    import jax

    items = [batches[step] for step in range(first, first + count) for batches in replicas]
    lead = (count, len(replicas))
    return jax.tree.map(lambda *a: np.stack(a).reshape(*lead, *a[0].shape), *items)


def checked(documents: Sequence[np.ndarray], length: int) -> Documents:
    """The documents; ValueError if none has a window."""
    documents = Documents.of(documents)
    longest = int(documents.sizes.max(initial=0))
    if longest < length + 1:
        raise ValueError(
            f"the longest training document has {longest} tokens, a window needs {length + 1} "
            "(train.length + 1); give longer documents or a smaller train.length"
        )
    return documents
