"""A corpus: documents of bytes, split into text to train on, to validate on and to test on.

A document is the UTF-8 bytes of a whole file, or of a part of it. `by_file` and `by_position` split
documents that come without a split.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pe_jax import record
from pe_jax.data.overlap import Passages
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

    def describe(self, trained_on: Corpus | None = None) -> record.CorpusRecord:
        """What records hold of this text, with its overlap with the training text of `trained_on`,
        which may be this corpus; None: it is not measured.
        """
        return record.CorpusRecord(
            source=self.source,
            hash=self.hash,
            split=self.split,
            documents={name: len(self.splits[name]) for name in SPLITS},
            bytes={name: sum(d.size for d in self.splits[name]) for name in SPLITS},
            python=self.python,
            overlap=self._overlap(trained_on) if trained_on else {},
        )

    def _overlap(self, trained_on: Corpus) -> dict[str, Overlap]:
        passages = Passages(trained_on.splits["train"], trained_on.names["train"])
        return {
            split: passages.overlap(self.splits[split], self.names[split]) for split in HELD_OUT
        }


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


def by_name(document: Document) -> bytes:
    """What `by_file` ranks files by."""
    return os.fsencode(document.name)


def by_file(
    documents: Sequence[Document], rank: Callable[[Document], bytes] = by_name
) -> dict[str, list[Document]]:
    """{split: documents}, no document divided. Ranked by the SHA-256 of what `rank` gives of each,
    the first 5 % (rounded up) are test, as many valid, the rest train. Within a split they keep
    their order.
    """
    hashes = [hashlib.sha256(rank(document)).digest() for document in documents]
    ranked = sorted(range(len(documents)), key=hashes.__getitem__)
    held = math.ceil(len(documents) / 20)  # in each of valid and test
    members = {"train": ranked[2 * held :], "valid": ranked[held : 2 * held], "test": ranked[:held]}
    return {split: [documents[i] for i in sorted(indices)] for split, indices in members.items()}


def by_position(documents: Sequence[Document]) -> dict[str, list[Document]]:
    """{split: parts} of documents that are not empty: the first nine tenths of each are train, the
    halves of the last tenth valid and test. No character is cut in two.
    """
    splits: dict[str, list[Document]] = {split: [] for split in SPLITS}
    for name, text in documents:
        first, second = (boundary(text, len(text) * part // 20) for part in (18, 19))
        for split, part in zip(
            SPLITS, (text[:first], text[first:second], text[second:]), strict=True
        ):
            splits[split].append(Document(name, part))
    return splits


def boundary(text: bytes, cut: int) -> int:
    """The last place at or before `cut` where a UTF-8 character begins."""
    while text[cut] & 0xC0 == 0x80:
        cut -= 1
    return cut
