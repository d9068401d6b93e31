"""A corpus: documents of bytes, split into text to train on, to validate on and to test on.

A document is the UTF-8 bytes of a whole file, or of a part of it. A text of LARGE bytes or more is
read once, into a folder of the store, and mapped from there:

    text         the bytes of all documents, in the order in which they were read
    names        their names, a line each
    *.bounds     for each document of a split its number, its place in `text` and its size
    text.json    the source, the hash and the split: written last
    *            a tokenizer's folder: the same with tokens (tokenizer.py)
    overlap-*    how much of a text stands in the training text
"""

from __future__ import annotations

import array
import dataclasses
import hashlib
import io
import itertools
import json
import logging
import math
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pe_jax import record
from pe_jax.data.documents import Documents
from pe_jax.data.overlap import overlaps
from pe_jax.record import HELD_OUT, Overlap
from pe_jax.storage import atomic, locks
from pe_jax.storage.hashes import canonical, sha256
from pe_jax.storage.paths import cache, expanded

SPLITS = ("train", "valid", "test")
FEWEST_FILES = 10
"""From this many documents on whole documents are split; of fewer, each one is split."""
LARGE = 2**25
"""Bytes of a text that is kept in the store."""
FORMAT = 1  # of the store
QUIET_SECONDS = 20.0  # between two lines of progress
LOG = logging.getLogger("pe_jax")


class Document(NamedTuple):
    """A text that belongs together, or a part of one."""

    name: str
    """For people, such as the name of its file."""
    text: bytes
    """In UTF-8."""


class Source(NamedTuple):
    """A text before it is read."""

    name: str
    """As it was given, such as stdlib, files:PATH or tfds:NAME."""
    parts: Mapping[str, Iterable[Document]]
    """The documents of each split; "" has the ones that come without."""
    rules: tuple[str, str]
    """How documents without a split are split, if there are FEWEST_FILES and if there are fewer."""
    identity: Any = None
    """What changes with the text, such as the stamps of its files; canonical JSON."""
    bytes: int = 0
    """About how many it has."""
    by_text: bool = False
    """Whether documents are ranked by their text, and not by their name."""
    python: str | None = None
    """The version of Python whose standard library it is; None for other sources."""


@dataclasses.dataclass(frozen=True, eq=False)
class Corpus:
    """A text, split. `record.CorpusRecord` is what records hold of it."""

    splits: Mapping[str, Documents]
    """The documents of "train", "valid" and "test": UTF-8 bytes, read-only uint8."""
    source: str
    """As it was given: stdlib, files:PATH or tfds:NAME."""
    split: str
    """The rule by which the text was split, as in "by file: ..."."""
    hash: str
    """The SHA-256 of each split's name and number of documents, each followed by the length and the
    bytes of every document, in order."""
    python: str | None
    """The version of Python whose standard library it is; None for other sources."""
    names: bytes | Path
    """The names of all documents, a line each, or their file."""
    numbers: Mapping[str, np.ndarray]
    """The lines of the documents of each split: int64 [D]."""
    folder: Path | None = None
    """Its folder in the store; None: it lies in memory."""

    def name(self, split: str, place: int) -> str:
        """The name of a document of a split."""
        lines = io.BytesIO(self.names) if isinstance(self.names, bytes) else self.names.open("rb")
        with lines:
            line = next(itertools.islice(lines, int(self.numbers[split][place]), None))
        return line.removesuffix(b"\n").decode(errors="replace")

    def describe(
        self, trained_on: Corpus | None = None, splits: Iterable[str] = HELD_OUT
    ) -> record.CorpusRecord:
        """What records hold of this text, with the overlap of these splits with the training text
        of `trained_on`, which may be this corpus; None: it is not measured.
        """
        return record.CorpusRecord(
            source=self.source,
            hash=self.hash,
            split=self.split,
            documents={name: len(self.splits[name]) for name in SPLITS},
            bytes={name: int(self.splits[name].sizes.sum()) for name in SPLITS},
            python=self.python,
            overlap=trained_on.overlap(self, tuple(splits)) if trained_on else {},
        )

    def overlap(self, other: Corpus, splits: tuple[str, ...]) -> dict[str, Overlap]:
        """How much of these splits of another text, or of this one, stands in the training text of
        this one. In the store it is computed once.
        """
        if not self.folder:
            return overlaps(self, other, splits)
        path = self.folder / f"overlap-{sha256(canonical([other.hash, splits]))[:16]}.json"
        if not path.exists():
            with locks.locked(self.folder, wait=True):
                if not path.exists():
                    LOG.info("%s: comparing %s", self.source, " and ".join(splits))
                    found = overlaps(self, other, splits)
                    atomic.write(path, json.dumps({name: vars(o) for name, o in found.items()}))
        return {name: Overlap(**each) for name, each in json.loads(path.read_text()).items()}


def stored(source: Source, store: str = "") -> Corpus:
    """The corpus of a source: of fewer than LARGE bytes in memory, else in a folder below `store`
    ("": that of `paths.cache`), made if it is not there. Another process that makes it is waited
    for. Raises as `read` does, and OSError for a folder that cannot be written.
    """
    if source.bytes < LARGE:
        return read(source)
    root = Path(expanded(store, "data.store")) if store else cache() / "text"
    folder = root / sha256(canonical([FORMAT, source.name, source.rules, source.identity]))[:16]
    if not (folder / "text.json").exists():
        with locks.locked(folder, wait=True):
            if not (folder / "text.json").exists():
                LOG.info("%s is read into %s, once", source.name, folder)
                _make(source, folder)
    return _opened(folder)


def read(source: Source) -> Corpus:
    """Reads a text into memory, without empty documents. ValueError for a split without text."""
    text, names = io.BytesIO(), io.BytesIO()
    written = _written(source, text, names)
    array = np.frombuffer(text.getvalue(), np.uint8)
    bounds, rule = _split(source, *written, array)
    splits = {split: Documents(array, *rows[1:]) for split, rows in bounds.items()}
    numbers = {split: rows[0] for split, rows in bounds.items()}
    about = source.name, rule, _hash(splits), source.python
    return Corpus(splits, *about, names.getvalue(), numbers)


# Reads a text into files in `folder`.
def _make(source: Source, folder: Path) -> None:
    path = folder / "text"
    try:
        with path.open("wb") as text, (folder / "names").open("wb") as names:
            written = _written(source, text, names)
        array = np.memmap(path, np.uint8, "r") if len(written[0]) else np.empty(0, np.uint8)
        bounds, rule = _split(source, *written, array)
    except (OSError, ValueError) as error:
        path.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno and error.filename is None:
            raise OSError(error.errno, error.strerror, str(folder)) from error  # as of a full disk
        raise
    for split, rows in bounds.items():
        atomic.replace(
            folder / f"{split}.bounds", lambda file, rows=rows: file.write(rows.tobytes())
        )
    about = {"source": source.name, "split": rule, "python": source.python}
    about["hash"] = _hash({split: _mapped(folder, split)[1] for split in SPLITS})
    atomic.write(folder / "text.json", json.dumps(about))


def _opened(folder: Path) -> Corpus:
    about = json.loads((folder / "text.json").read_text("utf-8"))
    mapped = {split: _mapped(folder, split) for split in SPLITS}
    numbers = {split: numbers for split, (numbers, _) in mapped.items()}
    splits = {split: documents for split, (_, documents) in mapped.items()}
    return Corpus(splits, **about, names=folder / "names", numbers=numbers, folder=folder)


# The numbers of the documents of a split, and its documents.
def _mapped(folder: Path, split: str) -> tuple[np.ndarray, Documents]:
    bounds = np.memmap(folder / f"{split}.bounds", np.int64, "r").reshape(3, -1)
    numbers, starts, sizes = np.asarray(bounds)
    return numbers, Documents.mapped(folder / "text", np.uint8, starts, sizes)


def _hash(splits: Mapping[str, Documents]) -> str:
    digest = hashlib.sha256()
    for name in SPLITS:
        digest.update(f"{name} {len(splits[name])}\n".encode())
        for document in splits[name]:
            digest.update(b"%d\n" % document.size)
            digest.update(document.data)
    return digest.hexdigest()


Written = tuple[np.ndarray, np.ndarray, dict[str, int]]


# Appends the documents of a source to two files, their names as lines. Gives their sizes, the first
# 64 bits of the SHA-256 by which those without a split are ranked, and how many each part has.
def _written(source: Source, text: io.BufferedIOBase, names: io.BufferedIOBase) -> Written:
    sizes, keys, counts = array.array("q"), array.array("Q"), dict[str, int]()
    told = time.monotonic()
    for split, documents in source.parts.items():
        before = len(sizes)
        for name, content in documents:
            if not content:
                continue
            text.write(content)
            names.write(os.fsencode(name.replace("\n", " ")) + b"\n")
            sizes.append(len(content))
            if not split:
                key = hashlib.sha256(content if source.by_text else os.fsencode(name)).digest()
                keys.append(int.from_bytes(key[:8], "big"))
            if time.monotonic() > told + QUIET_SECONDS:
                told = time.monotonic()
                LOG.info("%s: %s MB are read", source.name, f"{text.tell() / 1e6:,.0f}")
        counts[split] = len(sizes) - before
    return np.array(sizes), np.array(keys), counts


# The number, the start and the size of each document of each split, int64 [3, D], and the rule.
# Documents without a split are split by their keys if there are FEWEST_FILES or more, else by
# position.
#
# By keys, no document is divided: ranked by them, the first 5 % (rounded up) are test, as many
# valid, the rest train. Within a split they keep their order. By position, the first nine tenths of
# each document are train, the halves of the last tenth valid and test; no character is cut in two.
# What would be test is train where the test text comes by itself.
def _split(
    source: Source, sizes: np.ndarray, keys: np.ndarray, counts: dict[str, int], text: np.ndarray
) -> tuple[dict[str, np.ndarray], str]:
    bounds = np.stack([np.arange(len(sizes)), np.cumsum(sizes) - sizes, sizes])
    ends = itertools.accumulate(counts.values())
    parts = {
        split: bounds[:, end - count : end]
        for (split, count), end in zip(counts.items(), ends, strict=True)
    }
    by_position = len(keys) < FEWEST_FILES
    rule = source.rules[by_position]
    if "" in parts:
        whole = parts.pop("")
        split = _by_position(whole, text) if by_position else _by_keys(whole, keys)
        if "test" in parts:
            split["train"] = np.concatenate([split["train"], split["test"]], axis=1)
        parts = split | parts
    parts = {split: parts[split][:, parts[split][2] > 0] for split in SPLITS}
    if empty := [split for split in SPLITS if not parts[split].size]:
        raise ValueError(
            f"{source.name} leaves no text for {' and '.join(empty)} (split {rule}): give longer "
            f"documents, at least {FEWEST_FILES} of them, or text that comes with a split, such as "
            f"a folder with the folders {', '.join(SPLITS)}"
        )
    return parts, rule


def _by_keys(whole: np.ndarray, keys: np.ndarray) -> dict[str, np.ndarray]:
    ranked, held = np.argsort(keys, kind="stable"), math.ceil(len(keys) / 20)
    places = {"train": ranked[2 * held :], "valid": ranked[held : 2 * held], "test": ranked[:held]}
    return {split: whole[:, np.sort(places[split])] for split in SPLITS}


def _by_position(whole: np.ndarray, text: np.ndarray) -> dict[str, np.ndarray]:
    split = {name: whole.copy() for name in SPLITS}
    for i, (_, start, size) in enumerate(whole.T.tolist()):
        cuts = [start, *(start + size * part // 20 for part in (18, 19)), start + size]
        for place in (1, 2):
            while text[cuts[place]] & 0xC0 == 0x80:  # inside a character
                cuts[place] -= 1
        for name, (first, after) in zip(SPLITS, itertools.pairwise(cuts), strict=True):
            split[name][1:, i] = first, after - first
    return split
