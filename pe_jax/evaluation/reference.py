"""What a model as it is predicts of the targets of a metric in windows of eval.reference, by
default its training length: the rows that its distributions come from, and the key tokens of
LongPPL (Fang et al., 2024; arXiv:2410.23771). Both are computed once, and serve every way and
length.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from flax import nnx

from pe_jax.encoding import Encoding
from pe_jax.evaluation.budget import Budget
from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.scoring import Missing, last_rows, score, target_nats
from pe_jax.evaluation.windows import Windows
from pe_jax.record import Replica
from pe_jax.training.session import Session

GAIN, FULL = 2.0, 2.0
"""Nats: a key token has more than GAIN nats more from few tokens, and below FULL from all."""


class Short(NamedTuple):
    """Short contexts of the targets of windows, each shared by `stride` consecutive targets."""

    tokens: int
    """K: what the first of these targets sees; the last one sees K + stride - 1."""
    stride: int

    @classmethod
    def of(cls, length: int) -> Short:
        """A quarter of a length, and a quarter of that."""
        return cls(max(1, length // 4), max(1, length // 16))

    def windows(self, whole: Windows) -> Windows:
        """The short windows of all `whole` ones, one after another. Targets with fewer than K
        tokens before them have none.
        """
        context, stride = self
        pieces, hi = [], []
        for tokens, lo, end in zip(whole.tokens, whole.lo, whole.hi, strict=True):
            for first in range(max(lo + 1, context), end + 1, stride):
                piece = np.zeros(context + stride, np.int32)
                part = tokens[first - context : first + stride]
                piece[: len(part)] = part
                pieces.append(piece)
                hi.append(context - 1 + min(stride, end + 1 - first))
        stacked, lo = np.stack(pieces), np.full(len(pieces), context - 1)
        size = context + stride - 1
        sizes = np.ones((len(pieces), size), int)
        return Windows(whole.metric, size, stacked, sizes, lo, np.array(hi))

    def spread(self, whole: Windows, nats: np.ndarray) -> np.ndarray:
        """-ln p of the last targets of the `whole` windows, [W, last], from that of the `windows`,
        [pieces, stride]; NaN where there is none.
        """
        context, stride = self
        out, pieces = np.full((len(whole.tokens), whole.length), np.nan), iter(nats)
        for row, lo, end in zip(out, whole.lo, whole.hi, strict=True):
            for first in range(max(lo + 1, context), end + 1, stride):
                count = min(stride, end + 1 - first)
                row[first - 1 : first - 1 + count] = next(pieces)[:count]
        return out[:, -whole.last :]


def key_tokens(full: np.ndarray, short: np.ndarray) -> np.ndarray:
    """Which targets are key tokens, from their -ln p in nats: full < 2 and short - full > 2."""
    return (full < FULL) & (short - full > GAIN)


class Reference:
    """What the models of a run's seeds predict within eval.reference. `cuts` are the windows of
    each metric and length, that one included.
    """

    def __init__(
        self,
        graphdef: nnx.GraphDef,
        encodings: tuple[Encoding, ...],
        cuts: Mapping[tuple[str, int], Windows],
        config: EvalConfig,
        session: Session,
        budget: Budget,
    ):
        self.graphdef, self.encodings, self.cuts = graphdef, encodings, cuts
        self.config, self.session, self.budget = config, session, budget
        self.kept: dict[tuple[str, Replica], Any] = {}

    def rows(self, metric: str, replica: Replica, params: Any) -> np.ndarray | Missing:
        """The rows [W, last, D] of the last targets of the windows of a metric, of a place those of
        its window.
        """

        def computed() -> np.ndarray | Missing:
            return self._scored(last_rows, self._whole(metric, replica), params)

        return self._once("rows", replica, computed)

    def keys(self, metric: str, replica: Replica, params: Any) -> np.ndarray | Missing:
        """Which of these targets are key tokens: bool [W, last]."""

        def computed() -> np.ndarray | Missing:
            whole = self._whole(metric, replica)
            short = Short.of(whole.length)
            full = self._scored(target_nats, whole, params)
            little = self._scored(target_nats, short.windows(whole), params)
            if isinstance(full, Missing):
                return full
            if isinstance(little, Missing):
                return little
            return key_tokens(full, short.spread(whole, little))

        return self._once("keys", replica, computed)

    def _whole(self, metric: str, replica: Replica) -> Windows:
        whole = self.cuts[metric, self.config.reference or 0]
        return whole if replica.kind == "seed" else whole.only(replica.number)

    def _scored(self, program: Any, cut: Windows, params: Any) -> np.ndarray | Missing:
        made = tuple(e.at(cut.length) for e in self.encodings)
        program = functools.partial(program, graphdef=self.graphdef, encodings=made)
        return score(cut, program, params, self.config.batch_tokens, self.session, self.budget)

    def _once(self, kind: str, replica: Replica, compute: Callable[[], Any]) -> Any:
        """What is computed for a replica; of places only those of the newest are kept."""
        if (kind, replica) not in self.kept:
            if replica.kind != "seed":
                self.kept = {key: value for key, value in self.kept.items() if key[1] == replica}
            self.kept[kind, replica] = compute()
        return self.kept[kind, replica]
