"""A corpus: documents of bytes, split into text to train on, to validate on and to test on.

A document is the UTF-8 bytes of a whole file, or of a part of it. `by_file` and `by_position` split
documents that come without a split.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import os
from collections.abc import Mapping, Sequence

import numpy as np

from pe_jax import record

SPLITS = ("train", "valid", "test")
FEWEST_FILES = 10
"""From this many documents on whole documents are split; of fewer, each one is split."""


@dataclasses.dataclass(frozen=True, eq=False)
class Corpus:
    """A text, split. `record.Corpus` is what records hold of it."""

    splits: Mapping[str, tuple[np.ndarray, ...]]
    """The documents of "train", "valid" and "test": UTF-8 bytes, read-only uint8 [n]."""
    source: str
    """As it was given: stdlib, files:PATH or tfds:NAME."""
    split: str
    """The rule by which the text was split, as in "by file: ..."."""
    python: str | None = None
    """The version of Python whose standard library it is; None for other sources."""

    def describe(self) -> record.Corpus:
        """What tells this text from any other, as records hold it.

        The hash is the SHA-256 of each split's name and number of documents, each followed by the
        length and the bytes of every document, in order.
        """
        digest = hashlib.sha256()
        for name in SPLITS:
            digest.update(f"{name} {len(self.splits[name])}\n".encode())
            for document in self.splits[name]:
                digest.update(f"{document.size}\n".encode())
                digest.update(document.tobytes())
        return record.Corpus(
            source=self.source,
            hash=digest.hexdigest(),
            split=self.split,
            documents={name: len(self.splits[name]) for name in SPLITS},
            bytes={name: sum(d.size for d in self.splits[name]) for name in SPLITS},
            python=self.python,
        )


def corpus_of(
    source: str, splits: Mapping[str, Sequence[bytes]], rule: str, python: str | None = None
) -> Corpus:
    """The corpus of these texts by split, empty texts left out; `rule` says how they were split, as
    in "by file: ...". ValueError for a split without any text.
    """
    arrays = {s: tuple(np.frombuffer(text, np.uint8) for text in splits[s] if text) for s in SPLITS}
    if empty := [split for split in SPLITS if not arrays[split]]:
        raise ValueError(
            f"{source} leaves no text for {' and '.join(empty)} (split {rule}): give longer "
            f"documents, at least {FEWEST_FILES} of them, or text that comes with a split, such as "
            f"a folder with the folders {', '.join(SPLITS)}"
        )
    return Corpus(arrays, source, rule, python)


def by_file(texts: Sequence[tuple[str | bytes, bytes]]) -> dict[str, list[bytes]]:
    """{split: texts} of (name, text) pairs, no text divided. Ranked by the SHA-256 of their names,
    the first 5 % (rounded up) are test, as many valid, the rest train. Within a split they keep
    their order.
    """
    hashes = [hashlib.sha256(os.fsencode(name)).digest() for name, _ in texts]
    ranked = sorted(range(len(texts)), key=hashes.__getitem__)
    held = math.ceil(len(texts) / 20)  # in each of valid and test
    members = {"train": ranked[2 * held :], "valid": ranked[held : 2 * held], "test": ranked[:held]}
    return {split: [texts[i][1] for i in sorted(indices)] for split, indices in members.items()}


def by_position(texts: Sequence[bytes]) -> dict[str, list[bytes]]:
    """{split: parts} of texts that are not empty: the first nine tenths of each are train, the
    halves of the last tenth valid and test. No character is cut in two.
    """
    splits: dict[str, list[bytes]] = {split: [] for split in SPLITS}
    for text in texts:
        first, second = (boundary(text, len(text) * part // 20) for part in (18, 19))
        splits["train"].append(text[:first])
        splits["valid"].append(text[first:second])
        splits["test"].append(text[second:])
    return splits


def boundary(text: bytes, cut: int) -> int:
    """The last place at or before `cut` where a UTF-8 character begins."""
    while text[cut] & 0xC0 == 0x80:
        cut -= 1
    return cut
