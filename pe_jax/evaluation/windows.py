"""Documents cut into the windows of a metric (metric.py says where), and the metric's value and
curve from the -ln p of their targets.

A window of E tokens has rows 0 .. E - 1. Row r of a window that starts at token s of its document
sees the tokens s .. s + r and predicts token s + r + 1. Windows never cross the end of a document,
and every length and encoding scores the same number of tokens.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from pe_jax.evaluation.config import EvalConfig
from pe_jax.metric import TextMetric, named
from pe_jax.places import NoRoom

CURVE_BINS = 64


@dataclasses.dataclass(frozen=True)
class Windows:
    """The W windows of one metric at one evaluation length E. Of each, the rows lo <= row < hi are
    scored.
    """

    metric: TextMetric
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

    def value(self, nats: np.ndarray) -> float:
        """The metric's value from `nats` [W, last], -ln p of the targets of each window's last
        rows.
        """
        scored = self.scored[:, -self.last :]
        return self.metric.value(nats[scored], self.sizes[:, -self.last :][scored])

    def curve(self, nats: np.ndarray) -> tuple[tuple[float, ...], tuple[float | None, ...]]:
        """(middles of bins, the metric's value in each): the value against the position in the
        window, from 1 to E, in bins of equal width on a logarithmic scale. None where no row of a
        bin is scored. `nats` are [W, E].
        """
        edges = np.geomspace(1, self.length + 1, CURVE_BINS + 1).round().astype(int)
        edges = np.unique(edges)
        scored = self.scored
        bins = np.digitize(1 + np.nonzero(scored)[1], edges) - 1
        nats, sizes = nats[scored], self.sizes[scored]
        middles = tuple(math.sqrt(a * (b - 1)) for a, b in zip(edges[:-1], edges[1:], strict=True))
        inside = [bins == place for place in range(len(middles))]
        values = tuple(self.metric.value(nats[i], sizes[i]) if i.any() else None for i in inside)
        return middles, values


def windows(
    documents: Sequence[np.ndarray],
    metric: str,
    length: int,
    config: EvalConfig,
    sizes: np.ndarray | None = None,
) -> Windows:
    """The windows of a metric at one evaluation length, from the token ids [n] of each document;
    `config` must be resolved, `sizes` [V] are the bytes of each token (None: 1). ValueError where
    the text does not suffice.
    """
    scorer, scope = named(metric, TextMetric), config.scope
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
    of_targets = np.ones_like(tokens[:, 1:]) if sizes is None else sizes[tokens[:, 1:]]
    lo, hi = (np.array([getattr(place, end) for place in places]) for end in ("begin", "end"))
    return Windows(scorer, length, tokens, of_targets, lo, hi)


def check_room(documents: Sequence[np.ndarray], config: EvalConfig) -> None:
    """ValueError where the text does not suffice for every metric and length of the config."""
    for metric in config.metrics:
        for length in config.lengths:
            windows(documents, metric, length, config)
