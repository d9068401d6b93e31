"""A corpus: documents of bytes, split into text to train on, to validate on and to test on; and how
much of a test split also stands in the training text.

A document is the UTF-8 bytes of a whole file, or of a part of it.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pe_jax import record
from pe_jax.record import HELD_OUT, Overlap

SPLITS = ("train", "valid", "test")
FEWEST_FILES = 10
"""From this many documents on whole documents are split; of fewer, each one is split."""


class Document(NamedTuple):
    """A text that belongs together, or a part of one."""

    name: str
    """For people, such as the name of its file."""
    text: bytes
    """In UTF-8."""


@dataclasses.dataclass(frozen=True, eq=False)
class Corpus:
    """A text, split. `record.CorpusRecord` is what records hold of it."""

    splits: Mapping[str, tuple[np.ndarray, ...]]
    """The documents of "train", "valid" and "test": UTF-8 bytes, read-only uint8 [n]."""
    names: Mapping[str, tuple[str, ...]]
    """Their names."""
    source: str
    """As it was given: stdlib, files:PATH or tfds:NAME."""
    split: str
    """The rule by which the text was split, as in "by file: ..."."""
    python: str | None = None
    """The version of Python whose standard library it is; None for other sources."""

    @functools.cached_property
    def hash(self) -> str:
        """The SHA-256 of each split's name and number of documents, each followed by the length and
        the bytes of every document, in order.
        """
        digest = hashlib.sha256()
        for name in SPLITS:
            digest.update(f"{name} {len(self.splits[name])}\n".encode())
            for document in self.splits[name]:
                digest.update(f"{document.size}\n".encode())
                digest.update(document.tobytes())
        return digest.hexdigest()

    def describe(
        self, trained_on: Corpus | None = None, splits: Iterable[str] = HELD_OUT
    ) -> record.CorpusRecord:
        """What records hold of this text, with the overlap of these splits with the training text
        of `trained_on`, which may be this corpus; None: it is not measured.
        """
        overlap = {}
        if trained_on:
            passages = Passages(trained_on.splits["train"], trained_on.names["train"])
            overlap = {s: passages.overlap(self.splits[s], self.names[s]) for s in splits}
        return record.CorpusRecord(
            source=self.source,
            hash=self.hash,
            split=self.split,
            documents={name: len(self.splits[name]) for name in SPLITS},
            bytes={name: sum(d.size for d in self.splits[name]) for name in SPLITS},
            python=self.python,
            overlap=overlap,
        )


def corpus_of(
    source: str, splits: Mapping[str, Sequence[Document]], rule: str, python: str | None = None
) -> Corpus:
    """The corpus of these documents by split, empty ones left out; `rule` says how they were split,
    as in "by file: ...". ValueError for a split without any text.
    """
    kept = {split: [each for each in splits[split] if each.text] for split in SPLITS}
    if empty := [split for split in SPLITS if not kept[split]]:
        raise ValueError(
            f"{source} leaves no text for {' and '.join(empty)} (split {rule}): give longer "
            f"documents, at least {FEWEST_FILES} of them, or text that comes with a split, such as "
            f"a folder with the folders {', '.join(SPLITS)}"
        )
    arrays = {s: tuple(np.frombuffer(each.text, np.uint8) for each in kept[s]) for s in SPLITS}
    names = {split: tuple(each.name for each in kept[split]) for split in SPLITS}
    return Corpus(arrays, names, source, rule, python)


def split_of(documents: Sequence[Document], keys: Iterable[bytes]) -> dict[str, list[Document]]:
    """The split of documents that come without one: of FEWEST_FILES or more by file, else by
    position.

    By file, no document is divided: ranked by the SHA-256 of their keys, the first 5 % (rounded up)
    are test, as many valid, the rest train. Within a split they keep their order. By position, the
    first nine tenths of each document are train, the halves of the last tenth valid and test; no
    character is cut in two.
    """
    if len(documents) >= FEWEST_FILES:
        hashes = [hashlib.sha256(key).digest() for key in keys]
        ranked = sorted(range(len(documents)), key=hashes.__getitem__)
        held = math.ceil(len(documents) / 20)  # in each of valid and test
        places = {"train": ranked[2 * held :], "valid": ranked[held : 2 * held]}
        places["test"] = ranked[:held]
        return {split: [documents[i] for i in sorted(places[split])] for split in SPLITS}
    splits: dict[str, list[Document]] = {split: [] for split in SPLITS}
    for name, text in documents:
        cuts = [0, *(boundary(text, len(text) * part // 20) for part in (18, 19)), len(text)]
        for split, (first, after) in zip(SPLITS, itertools.pairwise(cuts), strict=True):
            splits[split].append(Document(name, text[first:after]))
    return splits


def boundary(text: bytes, cut: int) -> int:
    """The last place at or before `cut` where a UTF-8 character begins."""
    while text[cut] & 0xC0 == 0x80:
        cut -= 1
    return cut


# How much of a text also stands in a training text
#
# It is the share of its bytes that lie in a passage which stands there, too, as language models are
# checked for test text that they were trained on. Texts are compared with case folded and every run
# of white space as one space, so that line ends, indentation and capitals make no difference; bytes
# are counted in that form.
#
# A passage is WINDOW bytes, about the 13 words of GPT-3's check (Brown et al., 2020,
# arXiv:2005.14165). Windows of the training text are hashed at every STRIDE-th byte, and those of
# the text that is checked at every byte. So what both have in common is found wherever it begins,
# if it is at least WINDOW + STRIDE - 1 bytes long; up to STRIDE - 1 bytes at either end are not
# counted. A document that is equal to one of the training text counts whole, however short it is.
# Shorter lines that are shuffled or numbered, and text that is rewritten, are not found.


WINDOW = 64
STRIDE = 16
FACTORS = np.random.default_rng(0).integers(1 << 63, size=WINDOW // 8, dtype=np.uint64) | 1


class Passages:
    """The passages of a training text, by documents, uint8 [n] each, and their names."""

    def __init__(self, documents: Sequence[np.ndarray], names: Sequence[str]):
        self.names = names
        self.hashes: list[np.ndarray] = []  # of the windows of each document
        self.by_digest: dict[bytes, int] = {}  # the first document with each digest
        for number, document in enumerate(map(_folded, documents)):
            self.hashes.append(_window_hashes(document, STRIDE))
            self.by_digest.setdefault(hashlib.sha256(document.data).digest(), number)
        self.known = np.sort(np.concatenate(self.hashes))

    def overlap(self, documents: Sequence[np.ndarray], names: Sequence[str]) -> Overlap:
        """How much of other documents stands in these, and which of them is a copy, else shares the
        most.
        """
        documents = [_folded(document) for document in documents]
        copied = [self.by_digest.get(hashlib.sha256(text.data).digest()) for text in documents]
        found = _found_in([_window_hashes(document) for document in documents], self.known)
        shared = [
            _bytes_covered(windows) if copy is None else document.size
            for document, copy, windows in zip(documents, copied, found, strict=True)
        ]
        share = sum(shared) / max(1, sum(document.size for document in documents))
        if not share:
            return Overlap(share=share)
        most = max(range(len(documents)), key=lambda i: (copied[i] is not None, shared[i]))
        nearest = copied[most]
        if nearest is None:
            windows = _found_in(self.hashes, np.sort(_window_hashes(documents[most])))
            nearest = int(np.argmax([which.sum() for which in windows]))
        return Overlap(
            share=share,
            copies=sum(copy is not None for copy in copied),
            document=names[most],
            beside=self.names[nearest],
        )


# The UTF-8 bytes of a document with case folded and every run of white space one space.
def _folded(document: np.ndarray) -> np.ndarray:
    words = document.tobytes().decode().casefold().split()
    return np.frombuffer(" ".join(words).encode(), np.uint8)


# How many bytes lie in the windows that bool [n] marks by their first byte.
def _bytes_covered(windows: np.ndarray) -> int:
    starts = np.flatnonzero(windows)
    return int(np.minimum(np.diff(starts), WINDOW).sum()) + WINDOW * bool(starts.size)


# bool [n] for each part: which of its hashes are among `known`, which is sorted.
def _found_in(parts: Sequence[np.ndarray], known: np.ndarray) -> list[np.ndarray]:
    hashes = np.concatenate(parts)
    order = np.argsort(hashes)  # values in order are found many times faster
    hashes = hashes[order]
    first, after = (np.searchsorted(known, hashes, side) for side in ("left", "right"))
    found = np.empty(len(hashes), bool)
    found[order] = first < after
    return np.split(found, np.cumsum([len(part) for part in parts])[:-1])


# uint64 [n]: of each window that begins at a multiple of `stride`; none where the document is
# shorter than a window.
def _window_hashes(document: np.ndarray, stride: int = 1) -> np.ndarray:
    count = max(0, (document.size - WINDOW) // stride + 1)
    total = np.zeros(count, np.uint64)
    if count:
        for i, factor in enumerate(FACTORS):
            words = np.ndarray(count, "<u8", document, 8 * i, (stride,))
            total += (words ^ (words >> 32)) * factor
    return total ^ (total >> 32)
