"""The extrapolation protocol: what one checkpoint scores at every evaluation length.

Each metric is a list of windows of E tokens with the rows of each that are scored; row r of a
window that starts at s sees tokens s .. s + r and predicts token s + r + 1. Windows never cross a
document, and every length and encoding scores the same number of tokens.

    same_targets    fixed places e, evenly spread over the documents of at least the longest E; the
                    window is [e - E, e) and its last k = L/2 tokens are scored: the same targets
                    at every E, each of which sees E - k to E - 1 tokens. The headline.
    nonoverlapping  spans of the longest E, evenly spread over the documents and the same at every
                    E, are cut into windows of E, every token scored: early tokens see little
    sliding         the same spans, windows of E moved by `stride` tokens, only the new ones scored
    last_k          windows of E evenly spread over the documents, their last k tokens scored

Lengths and targets are in tokens. Values are bits per byte: nats / ln 2 over the bytes of exactly
the scored targets.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

METRICS = ("same_targets", "nonoverlapping", "sliding", "last_k")


@dataclasses.dataclass(frozen=True)
class EvalConfig:
    """What is evaluated, on which text."""

    lengths: tuple[int, ...] = (64, 128, 256, 512, 1024)
    metrics: tuple[str, ...] = ("same_targets", "nonoverlapping")
    swaps: tuple[str, ...] = ("window",)
    """Specs of encodings swapped in on the trained checkpoint, beside the model as it is."""
    memory: tuple[int, ...] = ()
    """Segment memories that windows are also worked through with (memory.py), beside whole ones."""
    targets: int = 16384
    """Scored tokens of each metric at each length."""
    stride: int | None = None
    """Of `sliding`; None: half the training length."""
    last: int | None = None
    """The k of same_targets and last_k; None: half the training length."""
    split: str = "test"
    batch_tokens: int = 4096
    """Tokens of the windows evaluated at once (at least one window)."""

    def __post_init__(self):
        for metric in self.metrics:
            if metric not in METRICS:
                near = difflib.get_close_matches(metric, METRICS, 1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise ValueError(f"unknown metric {metric!r}{hint} Known: {', '.join(METRICS)}.")
        if not self.metrics:
            raise ValueError(f"eval.metrics is empty; known: {', '.join(METRICS)}")
        if not self.lengths or min(self.lengths) < 2:
            raise ValueError(f"eval.lengths must be at least 2 each, got {self.lengths}")
        if any(size < 1 for size in self.memory):
            raise ValueError(f"eval.memory must be at least 1 each, got {self.memory}")
        if self.split not in ("valid", "test"):
            raise ValueError(f"eval.split must be valid or test, got {self.split!r}")

    def resolved(self, train_len: int, memory: int = 0) -> EvalConfig:
        """With the defaults that depend on training: its length joins `lengths`, its memory
        `memory`.
        """
        half = max(1, train_len // 2)
        lengths = tuple(sorted({*self.lengths, train_len}))
        stride, last = self.stride or half, self.last or half
        users = {"stride": ("sliding",), "last": ("same_targets", "last_k")}
        for name, value in (("stride", stride), ("last", last)):
            used = set(users[name]) & set(self.metrics)
            if used and not 1 <= value < lengths[0]:
                raise ValueError(
                    f"eval.{name} must be below the shortest evaluation length {lengths[0]}, "
                    f"got {value}; lower eval.{name} or raise eval.lengths"
                )
        if self.targets < last:
            raise ValueError(f"eval.targets must be at least eval.last, {last}, got {self.targets}")
        sizes = tuple(sorted({*self.memory, memory} - {0}))
        return dataclasses.replace(self, lengths=lengths, stride=stride, last=last, memory=sizes)


@dataclasses.dataclass(frozen=True)
class Windows:
    """Windows of one metric at one length, and the rows of each that are scored: lo <= row < hi."""

    metric: str
    length: int
    tokens: np.ndarray
    """int32 [W, E + 1]; right of a document's end 0, which no scored row sees or predicts."""
    sizes: np.ndarray
    """[W, E]: the bytes of each row's target."""
    lo: np.ndarray
    hi: np.ndarray

    @property
    def scored(self) -> np.ndarray:
        """bool [W, E]"""
        row = np.arange(self.length)
        return (row >= self.lo[:, None]) & (row < self.hi[:, None])

    @property
    def targets(self) -> int:
        return int((self.hi - self.lo).sum())

    @property
    def bytes(self) -> int:
        """Of the scored targets."""
        return int(self.sizes[self.scored].sum(dtype=np.int64))

    @property
    def last(self) -> int:
        """How many of a window's last rows must be computed."""
        return self.length - int(self.lo.min())

    def scores(self, nll: np.ndarray) -> float:
        """Nats a byte of the scored targets, from nll [W, last]."""
        scored = self.scored[:, -self.last :]
        return float(np.where(scored, nll, 0.0).sum(dtype=np.float64) / self.bytes)


def windows(
    documents: Sequence[np.ndarray],
    metric: str,
    length: int,
    config: EvalConfig,
    sizes: np.ndarray | None = None,
) -> Windows:
    """The windows of a metric; `config` must be resolved, `sizes` [V] are the bytes of each token
    (None: 1). ValueError where the text does not suffice.
    """
    longest = max(config.lengths)
    least = longest if metric == "same_targets" else longest + 1
    long = [d for d in documents if len(d) >= least]
    if not long:
        most = max((len(d) for d in documents), default=0)
        raise ValueError(
            f"no document of the {config.split} split has the {least} tokens that {metric} needs "
            f"for the longest of eval.lengths; the longest document has {most}: give longer texts "
            "or shorter lengths"
        )
    starts = {
        "same_targets": _same_targets,
        "nonoverlapping": _nonoverlapping,
        "sliding": _sliding,
        "last_k": _last_k,
    }[metric]
    tokens, lo, hi = [], [], []
    for document, start, first, end in starts([len(d) for d in long], length, longest, config):
        piece = long[document][start : start + length + 1].astype(np.int32)
        tokens.append(np.pad(piece, (0, length + 1 - len(piece))))
        lo.append(first)
        hi.append(end)
    cut = np.stack(tokens)
    of_targets = np.ones_like(cut[:, 1:]) if sizes is None else sizes[cut[:, 1:]]
    return Windows(metric, length, cut, of_targets, np.asarray(lo), np.asarray(hi))


Window = tuple[int, int, int, int]  # document, start, first row scored, row after the last


def _same_targets(sizes, E, longest, config) -> Iterator[Window]:
    k = config.last
    for document, e in _ends(sizes, config.targets // k, longest, k, config):
        yield document, e - E, E - 1 - k, E - 1


def _last_k(sizes, E, longest, config) -> Iterator[Window]:
    k = min(config.last, E)
    for document, e in _ends(sizes, config.targets // config.last, E + 1, k, config):
        yield document, e - E - 1, E - k, E


def _nonoverlapping(sizes, E, longest, config) -> Iterator[Window]:
    for document, begin, end in _spans(sizes, longest, config):
        for start in range(begin, end, E):
            yield document, start, 0, min(E, end - start)


def _sliding(sizes, E, longest, config) -> Iterator[Window]:
    for document, begin, end in _spans(sizes, longest, config):
        for first in range(begin, end, config.stride):
            last = min(first + config.stride, end)
            start = max(0, last - E)
            yield document, start, first - start, last - start


def _spans(sizes, longest: int, config) -> Iterator[tuple[int, int, int]]:
    """(document, begin, end): spans of the longest E, `targets` tokens in all; row r predicts
    token r + 1.
    """
    count, left = math.ceil(config.targets / longest), config.targets
    for document, end in _ends(sizes, count, longest + 1, longest, config):
        begin = end - 1 - longest
        yield document, begin, begin + min(longest, left)
        left -= longest


def _ends(sizes, count: int, least: int, apart: int, config) -> list[tuple[int, int]]:
    """`count` places e, evenly spread over the documents: e >= least, and at least `apart` from
    the next.
    """
    room = [max(0, (size - least) // apart + 1) for size in sizes]
    if count < 1 or sum(room) < count:
        raise ValueError(
            f"the {config.split} split has room for {sum(room) * apart} targets of "
            f"eval.targets={config.targets}: lower eval.targets or give more text"
        )
    slots = np.linspace(0, sum(room) - 1, count).round().astype(int)
    document = np.searchsorted(np.cumsum(room), slots, side="right")
    before = np.cumsum([0, *room])[document]
    return [
        (int(d), int(least + (s - b) * apart))
        for d, s, b in zip(document, slots, before, strict=True)
    ]


Nll = Callable[[np.ndarray, int, int], np.ndarray]
"""(tokens [B, E + 1], index of the first window, last) -> nats [B, last] of the last rows'
targets.
"""


def nll(windows: Windows, program: Nll, batch: int) -> np.ndarray:
    """Nats of every computed row, [W, last], by batches of one shape."""
    count = len(windows.tokens)
    batch = min(batch, count)
    out = []
    for first in range(0, count, batch):
        part = windows.tokens[first : first + batch]
        full = np.concatenate([part, np.repeat(part[-1:], batch - len(part), axis=0)])
        out.append(np.asarray(program(full, first, windows.last))[: len(part)])
    return np.concatenate(out)


def curve(
    windows: Windows, nats: np.ndarray, bins: int = 64
) -> tuple[list[float], list[float | None]]:
    """Bits a byte against the position in the window (1-based), in log-spaced bins: (middles,
    values).
    """
    edges = np.unique(np.geomspace(1, windows.length + 1, bins + 1).round().astype(int))
    scored = windows.scored
    which = np.digitize(1 + np.nonzero(scored)[1], edges) - 1
    total = np.bincount(which, nats[scored], len(edges) - 1)
    size = np.bincount(which, windows.sizes[scored], len(edges) - 1)
    middles = [math.sqrt(a * (b - 1)) for a, b in zip(edges[:-1], edges[1:], strict=True)]
    values = [float(t / n / math.log(2)) if n else None for t, n in zip(total, size, strict=True)]
    return middles, values
