"""How much of a text also stands in a training text.

It is the share of its bytes that lie in a passage which stands there, too, as language models are
checked for test text that they were trained on. Texts are compared with case folded and every run
of white space as one space, so that line ends, indentation and capitals make no difference; bytes
are counted in that form.

A passage is WINDOW bytes, about the 13 words of GPT-3's check (Brown et al., 2020,
arXiv:2005.14165). Windows of the training text are hashed at every STRIDE-th byte, windows
of the checked text at every byte. So what both have in common is found wherever it begins,
if it is at least WINDOW + STRIDE - 1 bytes long; up to STRIDE - 1 bytes at either end are not
counted. A document that is equal to one of the training text counts whole, however short it is.
Shorter lines that are shuffled or numbered, and text that is rewritten, are not found.

Memory holds the windows of the text that is checked, and the training text is read through them. Of
more than COMPARED bytes whole documents are drawn: the share is then a ratio estimate, with half of
its 95 % interval over documents (Cochran, Sampling Techniques, 1977, 6.4) as its error.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pe_jax.record import Overlap

WINDOW = 64
STRIDE = 16
FACTORS = np.random.default_rng(0).integers(1 << 63, size=WINDOW // 8, dtype=np.uint64) | 1
COMPARED = 2**25
"""Bytes of a split that are compared."""
GROUP = 2**20  # bytes of documents that are hashed at once


def overlaps(trained: Any, other: Any, splits: Iterable[str]) -> dict[str, Overlap]:
    """How much of these splits of a Corpus stands in the training text of one."""
    train, texts = trained.splits["train"], {name: other.splits[name] for name in splits}
    drawn = {name: _drawn(documents.sizes) for name, documents in texts.items()}
    folded = {name: [*map(_folded, texts[name].take(rows))] for name, rows in drawn.items()}
    every = [text for part in folded.values() for text in part]
    known = np.empty(sum(max(0, len(text) - WINDOW + 1) for text in every), np.uint64)
    end = 0
    for group in _groups(every):
        hashes, _ = _window_hashes(group)
        known[end : (end := end + hashes.size)] = hashes
    known.sort()
    shift = 64 - min(28, known.size.bit_length() + 3)
    likely = np.zeros(1 << (64 - shift), bool)  # by the first bits of the hashes that are known
    likely[known >> shift] = True
    homes = np.full(known.size, -1, np.int32)  # the first training document with each window
    copies = dict[bytes, int].fromkeys(map(_digest, every), -1)  # the first document with a digest
    sizes, begin = {*map(len, every)}, 0
    for group in _groups(map(_folded, train)):
        for number, text in enumerate(group, begin):
            if len(text) in sizes and copies.get(digest := _digest(text)) == -1:
                copies[digest] = number
        hashes, counts = _window_hashes(group, STRIDE)
        windows = np.flatnonzero(likely[hashes >> shift])
        places, found = _sought(hashes[windows], known)
        numbers = begin + np.searchsorted(np.cumsum(counts), windows[found], side="right")
        new = homes[places[found]] < 0
        homes[places[found][new][::-1]] = numbers[new][::-1]
        begin += len(group)
    common, homes = known[homes >= 0], homes[homes >= 0]
    return {
        name: _overlap(trained, other, name, drawn[name], part, copies, common, homes)
        for name, part in folded.items()
    }


# What these folded documents of a split share, by their numbers `drawn` in it. `copies` has the
# document of the training text that equals each digest, or -1; `common` are the hashes of shared
# windows, and `homes` the first document of the training text with each.
def _overlap(
    trained: Any,
    other: Any,
    split: str,
    drawn: np.ndarray,
    texts: list[bytes],
    copies: Mapping[bytes, int],
    common: np.ndarray,
    homes: np.ndarray,
) -> Overlap:
    covered = []
    for group in _groups(texts):
        hashes, counts = _window_hashes(group)
        found = _sought(hashes, common)[1]
        covered += map(_bytes_covered, np.split(found, np.cumsum(counts)[:-1]))
    sizes = np.array([*map(len, texts)])
    copied = np.array([copies[_digest(text)] for text in texts])
    shared = np.where(copied < 0, covered, sizes)
    share = int(shared.sum()) / max(1, int(sizes.sum()))
    count, total, error = len(texts), len(other.splits[split]), 0.0
    if count < total:
        squares = float(((shared - share * sizes) ** 2).sum()) / (count - 1)
        error = 1.96 * math.sqrt((1 - count / total) * squares * count) / int(sizes.sum())
    if not share:
        return Overlap(share=share, error=error)
    most = max(range(count), key=lambda i: (copied[i] >= 0, shared[i]))
    beside = int(copied[most])
    if beside < 0:
        places, found = _sought(_window_hashes([texts[most]])[0], common)
        beside = int(np.bincount(homes[places[found]]).argmax())
    return Overlap(
        share=share,
        error=error,
        copies=round((copied >= 0).sum() * total / count),
        document=other.name(split, int(drawn[most])),
        beside=trained.name("train", beside),
    )


# The numbers of the documents that are compared, of these sizes: all up to COMPARED bytes together.
def _drawn(sizes: np.ndarray) -> np.ndarray:
    order = np.random.default_rng(0).permutation(len(sizes))
    fitting = np.searchsorted(np.cumsum(sizes[order]), COMPARED, side="right")
    return np.sort(order[: max(2, fitting)])


# The UTF-8 bytes of a document with case folded and every run of white space one space.
def _folded(document: np.ndarray) -> bytes:
    return " ".join(document.tobytes().decode().casefold().split()).encode()


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()


# Consecutive texts of GROUP bytes together, or one longer text.
def _groups(texts: Iterable[bytes]) -> Iterator[list[bytes]]:
    group, size = [], 0
    for text in texts:
        group.append(text)
        size += len(text)
        if size >= GROUP:
            yield group
            group, size = [], 0
    if group:
        yield group


# How many bytes lie in the windows that bool [n] marks by their first byte.
def _bytes_covered(windows: np.ndarray) -> int:
    starts = np.flatnonzero(windows)
    return int(np.minimum(np.diff(starts), WINDOW).sum()) + WINDOW * bool(starts.size)


# (the place of each hash in `known`, which is sorted; bool [n]: whether it is there).
def _sought(hashes: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    places, order = np.empty(len(hashes), np.int64), np.argsort(hashes)
    places[order] = np.searchsorted(known, hashes[order])  # in order: many times faster
    inside = places < known.size
    inside[inside] = known[places[inside]] == hashes[inside]
    return places, inside


# uint64: of the windows of all texts that begin at multiples of `stride` in each; and how many
# each text has, none where it is shorter than a window.
def _window_hashes(texts: Sequence[bytes], stride: int = 1) -> tuple[np.ndarray, np.ndarray]:
    sizes = np.array([*map(len, texts)])
    counts = np.maximum(0, (sizes - WINDOW) // stride + 1)
    before, windows = np.cumsum(sizes) - sizes, np.cumsum(counts) - counts
    starts = np.repeat(before - stride * windows, counts) + stride * np.arange(counts.sum())
    total = np.zeros(starts.size, np.uint64)
    if starts.size:
        text = b"".join(texts)
        words = np.ndarray(len(text) - 7, "<u8", text, 0, (1,))
        for i, factor in enumerate(FACTORS):
            word = words[starts + 8 * i]
            total += (word ^ (word >> 32)) * factor
    return total ^ (total >> 32), counts
