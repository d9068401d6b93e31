"""Documents cut into the windows of a metric (metric.py says where), or prompts of a metric as
windows, and the metric's value and curve from what a model says of their targets.

A window of E tokens has rows 0 .. E - 1. Row r of a window that starts at token s of its document
sees the tokens s .. s + r and predicts token s + r + 1. Windows never cross the end of a document,
and every length and encoding scores the same number of tokens.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from pe_jax.data.tokenizer import BYTES, Tokenizer
from pe_jax.evaluation.config import EvalConfig, of_text
from pe_jax.metric import Predictions, PromptMetric, TextMetric
from pe_jax.places import NoRoom

CURVE_BINS = 64


@dataclasses.dataclass(frozen=True)
class Windows:
    """The W windows of one metric at one evaluation length E. Of each, the rows lo <= row < hi are
    scored.
    """

    metric: TextMetric | PromptMetric
    length: int
    """E."""
    tokens: np.ndarray
    """int32 [W, E + 1]; 0 beyond a document's end, which no scored row sees or predicts."""
    sizes: np.ndarray
    """int [W, E]: the bytes of each row's target."""
    lo: np.ndarray
    """int [W]: the first scored row."""
    hi: np.ndarray
    """int [W]: the row after the last scored one."""
    depths: np.ndarray | None = None
    """float [W]: of prompts, where in the text lies what is asked for, in [0, 1]."""
    first: int = 0
    """The number of the first window among those that this is a part of."""

    def only(self, number: int) -> Windows:
        """The window of that number alone."""
        return dataclasses.replace(self._of(np.array([number])), first=number)

    def _of(self, rows: np.ndarray) -> Windows:
        """The windows of these numbers."""
        parts = {name: getattr(self, name)[rows] for name in ("tokens", "sizes", "lo", "hi")}
        depths = None if self.depths is None else self.depths[rows]
        return dataclasses.replace(self, **parts, depths=depths)

    @property
    def scored(self) -> np.ndarray:
        """bool [W, E]: whether a row is scored."""
        row = np.arange(self.length)
        return (row >= self.lo[:, None]) & (row < self.hi[:, None])

    @property
    def targets(self) -> int:
        """How many rows are scored."""
        return int((self.hi - self.lo).sum())

    @property
    def bytes(self) -> int:
        """The bytes of the scored rows' targets."""
        return int(self.sizes[self.scored].sum(dtype=np.int64))

    @property
    def last(self) -> int:
        """The fewest last rows of a window that include every scored one, in all windows."""
        return self.length - int(self.lo.min())

    def value(self, targets: np.ndarray) -> float:
        """The metric's value from `targets` [W, last]: of the targets of each window's last rows
        -ln p; of prompts, by how much their logits lie below the highest one.
        """
        scored = self.scored[:, -self.last :]
        if isinstance(self.metric, PromptMetric):
            without = np.full(scored.shape, np.nan)  # probabilities
            right = (targets == 0) & scored
            return self.metric.value(Predictions(scored, right, *[without] * 4))
        return self.metric.value(targets[scored], self.sizes[:, -self.last :][scored])

    @property
    def has_curve(self) -> bool:
        """Whether results can be drawn by position, or by depth."""
        return self.depths is not None or getattr(self.metric, "by_position", False)

    def curve(self, targets: np.ndarray) -> tuple[tuple[float, ...], tuple[float | None, ...]]:
        """(places, the metric's value at each). Of text the value against the position in the
        window, from 1 to E, in bins of equal width on a logarithmic scale, each by its middle, None
        where no row of a bin is scored; of prompts the value against the depth. `targets` are as in
        `value`.
        """
        if self.depths is not None:
            depths = np.unique(self.depths)
            alike = [np.flatnonzero(self.depths == depth) for depth in depths]
            parts = [(self._of(rows), targets[rows]) for rows in alike]
            values = tuple(part.value(rows[:, -part.last :]) for part, rows in parts)
            return tuple(depths.tolist()), values
        assert isinstance(self.metric, TextMetric)
        edges = np.geomspace(1, self.length + 1, CURVE_BINS + 1).round().astype(int)
        edges = np.unique(edges)
        scored = self.scored
        bins = np.digitize(1 + np.nonzero(scored)[1], edges) - 1
        nats, sizes = targets[scored], self.sizes[scored]
        middles = tuple(math.sqrt(a * (b - 1)) for a, b in zip(edges[:-1], edges[1:], strict=True))
        inside = [bins == place for place in range(len(middles))]
        value = self.metric.value
        values = tuple(value(nats[i], sizes[i]) if i.any() else None for i in inside)
        return middles, values


def windows(
    documents: Sequence[np.ndarray],
    metric: str,
    length: int,
    config: EvalConfig,
    tokenizer: Tokenizer = BYTES,
) -> Windows:
    """The windows of a metric at one evaluation length, from the token ids [n] of each document, or
    its prompts; `config` must be resolved. ValueError where the text does not suffice.
    """
    scorer, scope = of_text(metric), config.scope
    if isinstance(scorer, PromptMetric):
        return _prompts(scorer, length, config.samples, tokenizer)
    assert isinstance(scorer, TextMetric)
    least = scope.longest + scorer.beyond
    long = [d for d in documents if len(d) >= least]
    if not long:
        most = max((len(d) for d in documents), default=0)
        raise ValueError(
            f"no document of the {config.split} split has the {least} tokens that {metric} needs "
            f"for the longest of eval.lengths; the longest document has {most}: give longer texts "
            "or shorter lengths"
        )
    try:
        places = list(scorer.places([len(d) for d in long], length, scope))
    except NoRoom as error:
        raise ValueError(
            f"the {config.split} split has {error} of eval.targets={config.targets}: lower "
            "eval.targets or give more text"
        ) from error
    tokens = np.zeros((len(places), length + 1), np.int32)
    for row, place in zip(tokens, places, strict=True):
        piece = long[place.document][place.start : place.start + length + 1]
        row[: len(piece)] = piece
    lo, hi = (np.array([getattr(place, end) for place in places]) for end in ("begin", "end"))
    targets = tokens[:, 1:]
    sizes = np.ones_like(targets) if tokenizer is BYTES else tokenizer.sizes[targets]
    return Windows(scorer, length, tokens, sizes, lo, hi)


def _prompts(metric: PromptMetric, length: int, samples: int, tokenizer: Tokenizer) -> Windows:
    """The prompts of a metric as windows, of which the answers are scored."""

    def encode(text: bytes) -> np.ndarray:
        return tokenizer.encode([np.frombuffer(text, np.uint8)])[0]

    made = [metric.prompt(encode, length, number) for number in range(samples)]
    tokens = np.stack([prompt.tokens for prompt in made])
    lo = length - np.array([prompt.answer for prompt in made])
    hi, depths = np.full(samples, length), np.array([prompt.depth for prompt in made])
    return Windows(metric, length, tokens, tokenizer.sizes[tokens[:, 1:]], lo, hi, depths)
