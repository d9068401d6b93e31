"""The windows of a metric, cut out of documents or made of prompts, and its value and curve from
-ln p of their targets.

Where the tokenizer has a token that stands before every text (`Tokenizer.bos`), it replaces the
first token of each window, and stands before each prompt.

A window of E tokens has rows 0 .. E - 1. Row r of a window that starts at token s of its document
sees the tokens s .. s + r and predicts token s + r + 1. Windows never cross the end of a document,
and every length and encoding scores the same number of tokens. Of masked text row r is token
s + r + 1 itself, hidden or not, and sees all E rows; of a pretrained encoder [CLS] and [SEP] take
the place of the first and the last one in the model's input (lm.special), and these are not scored.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from pe_jax import contract
from pe_jax.data.documents import Documents
from pe_jax.data.tokenizer import BYTES, Tokenizer
from pe_jax.evaluation.config import EvalConfig, of_text
from pe_jax.metric import DRAWS, Predictions, PromptMetric, Request, TextMetric
from pe_jax.record import Replica

CURVE_BINS = 64


@dataclasses.dataclass(frozen=True)
class Windows:
    """The W windows of a metric at the evaluation length E."""

    metric: TextMetric | PromptMetric
    length: int
    """E."""
    tokens: np.ndarray
    """int32 [W, E + 1]; 0 beyond a document's end, which no scored row sees or predicts. Of a token
    that is hidden its complement, ~id.
    """
    sizes: np.ndarray
    """int [W, E]: the bytes of each row's target."""
    scored: np.ndarray
    """bool [W, E]: whether a row is scored."""
    depths: np.ndarray | None = None
    """float [W, E]: in prompts, the place in the text of the needle that a target belongs to, in
    [0, 1]; NaN for other targets."""
    weights: np.ndarray | None = None
    """float [W, E]: factors of -ln p of each row's target; None: 1."""
    first: int = 0
    """Of a part, the number of its first window in the whole."""
    bos: int | None = None
    """The token that every window begins with; None: the text's own."""
    each: int = 1
    """Windows of each place of the text, one after another."""
    documents: np.ndarray | None = None
    """int [W]: each window's document, counted among those with targets; None: prompts, masked."""
    at_least: int = 0
    """Of a part, the `last` of the whole: one program serves all parts."""

    def of(self, replica: Replica) -> Windows:
        """All windows for a seed; for a place or a sample the ones of its number."""
        if replica.kind == "seed":
            return self
        first = replica.number * self.each
        part = self._part(np.arange(first, first + self.each))
        return dataclasses.replace(part, first=first, at_least=self.last)

    def _part(self, rows: np.ndarray) -> Windows:
        arrays = {n: a[rows] for n, a in vars(self).items() if isinstance(a, np.ndarray)}
        return dataclasses.replace(self, **arrays)

    def batches(self, size: int) -> Iterator[tuple[np.ndarray, int]]:
        """(tokens [size, E + 1], the number of the first window) of consecutive windows. Copies of
        the last window fill up the last batch, so that all have one shape.
        """
        count = len(self.tokens)
        size = min(size, count)
        for first in range(0, count, size):
            part = self.tokens[first : first + size]
            yield np.concatenate([part, np.repeat(part[-1:], size - len(part), axis=0)]), first

    @property
    def targets(self) -> int:
        """The number of scored rows; of a bound, whose places are drawn DRAWS times, of one."""
        return int(self.scored.sum()) // (1 if self.weights is None else DRAWS)

    @property
    def bytes(self) -> int:
        """The bytes of their targets."""
        every = int(self.sizes[self.scored].sum(dtype=np.int64))
        return every // (1 if self.weights is None else DRAWS)

    def by_document(self, values: np.ndarray) -> tuple[float, ...]:
        """Sums of `values` [W, n] of the last rows, where scored, by document; () without these."""
        if self.documents is None:
            return ()
        scored = np.where(self.scored[:, -values.shape[1] :], values, 0).sum(axis=1, dtype=float)
        return tuple(np.bincount(self.documents, scored).round(3).tolist())

    @property
    def last(self) -> int:
        """The fewest last rows of a window that include every scored one, in all windows."""
        return max(self.at_least, self.length - int(self.scored.any(axis=0).argmax()))

    def value(self, targets: np.ndarray) -> float:
        """The metric's value from -ln p of the targets of each window's last rows, or their
        divergence: `targets` [W, last]; of prompts [W, last, 2], by `scoring.nats_and_lag`.
        """
        if not isinstance(self.metric, PromptMetric):
            return self.metric.value(*self._scored(targets))
        scored, nats, lag = self.scored[:, -targets.shape[1] :], targets[..., 0], targets[..., 1]
        right, unknown = (lag == 0) & scored, np.full(scored.shape, np.nan)
        return self.metric.value(Predictions(scored, right, nats, *[unknown] * 3))

    # Weighted -ln p of the scored rows, and their bytes
    def _scored(self, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        scored = self.scored[:, -targets.shape[1] :]
        if self.weights is not None:
            targets = targets * self.weights[:, -targets.shape[1] :]
        return targets[scored], self.sizes[self.scored]

    def curve(self, targets: np.ndarray) -> tuple[tuple[float, ...], tuple[float | None, ...]]:
        """(places, the metric's value at each) from `targets` as in `value`. Places of text are
        positions in the window, 1 to E, in bins of equal width on a logarithmic scale, each by its
        middle; the value is None where no row of a bin is scored. Places in prompts are depths.
        """
        if self.depths is not None:
            depths = np.unique(self.depths[self.scored])
            values = []
            for depth in depths:
                alike = self.scored & (self.depths == depth)
                rows = np.flatnonzero(alike.any(axis=1))
                part = dataclasses.replace(self, scored=alike)._part(rows)
                values.append(part.value(targets[rows]))
            return tuple(depths.tolist()), tuple(values)
        assert isinstance(self.metric, TextMetric)
        edges = np.unique(np.geomspace(1, self.length + 1, CURVE_BINS + 1).round().astype(int))
        bins = np.digitize(1 + np.nonzero(self.scored)[1], edges) - 1
        nats, sizes = self._scored(targets)
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
    scorer, scope, documents = of_text(metric), config.scope, Documents.of(documents)
    if isinstance(scorer, PromptMetric):
        return _prompts(scorer, length, config.samples, tokenizer, documents)
    least = scope.longest + scorer.beyond
    numbers = np.flatnonzero(documents.sizes >= least)
    long = documents.take(numbers)
    if not long:
        most = documents.sizes.max(initial=0)
        raise ValueError(
            f"no document of the {config.split} split has the {least} tokens that {metric} needs "
            "for the longest of eval.lengths and eval.reference; the longest document has "
            f"{most}: give longer texts or shorter lengths"
        )
    with contract.calling(f"{metric}, {config.split} split", metric):
        places = scorer.windows(long.sizes.tolist(), length, scope)
    tokens = np.zeros((len(places), length + 1), np.int32)
    for row, place in zip(tokens, places, strict=True):
        piece = long[place.document][place.start : place.start + length + 1]
        row[: len(piece)] = piece
    if tokenizer.bos is not None:
        tokens[:, 0] = tokenizer.bos
    row = np.arange(length)
    scored = np.stack([(row >= place.begin) & (row < place.end) for place in places])
    targets = tokens[:, 1:]
    sizes = np.ones_like(targets) if tokenizer is BYTES else tokenizer.sizes[targets]
    count = scope.targets // scope.last if config.by == "place" else 1
    made = functools.partial(Windows, scorer, length, tokens, sizes, each=len(places) // count)
    if not scorer.masks:
        _, of = np.unique([place.document for place in places], return_inverse=True)
        return made(scored, bos=tokenizer.bos, documents=of)
    rates = np.array([[place.rate] for place in places])

    @functools.lru_cache(DRAWS)
    def drawn(number: int, draw: int) -> np.ndarray:
        return np.random.default_rng((number, draw)).random(len(documents[number]), np.float32)

    rows = [
        drawn(int(numbers[p.document]), p.draw)[p.start + 1 : p.start + 1 + length] for p in places
    ]
    hidden = np.where(rates > 0, np.stack(rows) < rates, scored)
    tokens[:, 1:] = np.where(hidden, ~targets, targets)
    found = (hidden & scored).any(axis=1)
    if not all(of_place.any() for of_place in np.array_split(found, count)):
        raise ValueError(
            "none of the scored tokens is hidden: raise eval.rate, eval.last or eval.targets"
        )
    if scorer.masks == "bound":
        weights = hidden / rates
        return made(scored, weights=weights / weights[scored].mean())
    return made(scored & hidden)


# Prompts as windows: the answers are scored, and a prompt of fewer than E + 1 tokens stands at the
# beginning of its window.
def _prompts(
    metric: PromptMetric, length: int, samples: int, tokenizer: Tokenizer, documents: Documents
) -> Windows:
    before = [] if tokenizer.bos is None else [tokenizer.bos]
    tokens = np.zeros((samples, length + 1), np.int32)
    depths = np.full((samples, length), np.nan)
    for number in range(samples):
        prompt = metric.prompt(Request(tokenizer, length, number, documents, len(before)))
        tokens[number, : len(before) + len(prompt.tokens)] = [*before, *prompt.tokens]
        depths[number, len(before) + prompt.answer - 1] = prompt.depths
    sizes = tokenizer.sizes[tokens[:, 1:]]
    return Windows(metric, length, tokens, sizes, ~np.isnan(depths), depths, bos=tokenizer.bos)
