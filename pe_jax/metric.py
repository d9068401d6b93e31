"""The contract of a metric: which predictions are scored, and how they become one number.

A metric is a frozen dataclass of pure functions, an instance of one of three classes:

    TextMetric      scores tokens of text in windows, which `places` cuts
    SampleMetric    scores the predictions in the samples of a task
    PromptMetric    scores answers to prompts of text, which `prompt` writes

All that depends on a metric is a field of it: value, unit, whether lower is better, the sentence
that tables print. metrics/__init__.py has the package's. One of your own stands in a file
that a config names, which is its name then, eval.metrics=("path/to/file.py:probability",):

    probability = dataclasses.replace(
        METRICS["nonoverlapping"],
        sentence="The mean probability of every token of {split} documents.",
        unit="probability",
        better="higher",
        value=lambda nats, sizes: float(np.exp(-nats).mean()),
    )
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from pe_jax.fields import Natural, check, fits


@dataclasses.dataclass(frozen=True)
class Metric:
    """How one checkpoint is scored at an evaluation length."""

    name: str
    sentence: str
    """What is scored, for the notes below a table. {split} stands for "test" or "validation",
    {last} for `eval.last`, which is "L/2" where it is not set, {rate} for `eval.rate` in percent,
    {reference} for `eval.reference` in tokens, {alike} for what the samples are the same with: all
    models and seeds, or every swap.
    """
    unit: str = "bits per byte"
    better: Literal["lower", "higher"] = "lower"
    reach: str = "solved length"
    """Of a metric in percent: what tables call the longest length up to which it is at least 90."""
    logarithm: bool = False
    """Whether reports show the natural logarithm of the value, and `unit` is the logarithm's: a
    mean of perplexities and its scatter are the worst one's.
    """

    def __post_init__(self):
        check(self, f"{self.name}'s ")

    @property
    def sign(self) -> int:
        """1 if lower is better, else -1: of values times `sign` the lowest is the best."""
        return 1 if self.better == "lower" else -1

    @property
    def title(self) -> str:
        """For example "Bits per byte, same targets (lower is better)"."""
        return f"{self.measured[:1].upper()}{self.measured[1:]} ({self.better} is better)"

    @property
    def measured(self) -> str:
        """For example "bits per byte, same targets"."""
        return f"{self.unit}, {self.words}"

    @property
    def words(self) -> str:
        """Its name in a sentence, of a user's metric without the file."""
        return self.name.rpartition(":")[2].replace("_", " ")


class Scope(NamedTuple):
    """What the config of an evaluation fixes for every length, in tokens."""

    longest: int
    """The longest evaluation length."""
    targets: int
    """Tokens scored at each length."""
    last: int
    """k, the scored tokens at the end of each window of same_targets, or in its middle."""
    rate: float = 0.0
    """Of masked text, the share of hidden tokens."""


class Place(NamedTuple):
    """A window of a document, and the rows of it that are scored, begin <= row < end.

    The window begins at token `start`. Row r sees the tokens start .. start + r and predicts the
    next one. Of masked text, row r is token start + r + 1 itself, hidden or not, and sees all rows.
    """

    document: int
    start: int
    begin: int
    end: int
    rate: float = 0.0
    """Of masked text, the share of hidden tokens: those whose number, drawn for each token of the
    text, is below it. 0: the scored ones alone are hidden.
    """
    draw: int = 0
    """Which numbers are drawn."""

    def fits(self, sizes: Sequence[int], E: int) -> bool:
        """Whether it scores rows 0 .. E - 1 alone, whose tokens are all of one of the documents."""
        document, start, begin, end = self[:4]
        inside = all(fits(number, Natural) for number in self[:4]) and document < len(sizes)
        return inside and begin < end <= E and start + end < sizes[document]


DRAWS = 8
"""How often the tokens of a place are hidden anew for the bound of masked diffusion."""


def bits_per_byte(nats: np.ndarray, sizes: np.ndarray) -> float:
    """sum(nats) / sum(sizes) / ln 2, of -ln p in nats and sizes in bytes, both [n]."""
    return float(nats.sum(dtype=np.float64) / sizes.sum(dtype=np.int64) / math.log(2))


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextMetric(Metric):
    """How windows of text are scored."""

    places: Callable[[Sequence[int], int, Scope], Iterator[Place]]
    """The windows, from the documents' sizes in tokens and the evaluation length E. ValueError if
    there are too few.
    """
    beyond: int = 1
    """Tokens that a document needs beyond the longest window."""
    uses: tuple[str, ...] = ()
    """("last",) if it reads that field of Scope, which must then be below the shortest length."""
    by_position: bool = False
    """Whether every row of its windows is scored, so that results can be drawn by position."""
    compares: Literal["", "divergence", "choices", "keys", "context"] = ""
    """What is computed with the model as it is in windows of eval.reference tokens: the divergence
    from it, or whether the most likely token is another, which `value` then gets in place of -ln p;
    or key tokens, which alone are scored. context: -ln p in short windows minus -ln p.
    """
    masks: Literal["", "nats", "choices", "bound"] = ""
    """Of masked text, what `value` gets. nats: -ln p of the hidden tokens among the scored rows.
    choices: for each of these tokens 0 if it is the most likely one, else 1. bound: for every
    scored row -ln p times its weight over the mean weight, where the weight is 1 / rate if its
    token is hidden, else 0. "": no token is hidden.
    """
    value: Callable[[np.ndarray, np.ndarray], float] = bits_per_byte
    """One number from the scored targets' -ln p, in nats, float [n], and their sizes in bytes, int
    [n].
    """

    def windows(self, sizes: Sequence[int], E: int, scope: Scope) -> list[Place]:
        """All that `places` gives. ValueError unless each `fits`, and there are at most as many as
        tokens, or DRAWS times as many of a bound.
        """
        most = sum(sizes) * (DRAWS if self.masks == "bound" else 1)
        places = [*itertools.islice(self.places(sizes, E, scope), most + 1)]
        wrong = [p for p in places if not (isinstance(p, Place) and p.fits(sizes, E))]
        if wrong or not 0 < len(places) <= most:
            raise ValueError(
                f"{self.name}: places must give Place(document, start, begin, end) with 0 <= begin "
                "< end <= E and 0 <= start < size of the document - end, at most one for each "
                f"token, got {wrong[0] if wrong else f'{len(places)} for {sum(sizes)} tokens'} at "
                f"E = {E}"
            )
        return places


class Predictions(NamedTuple):
    """The predictions in B samples of S tokens, by a model or by a method without one."""

    scored: Bool[np.ndarray, "B S"]
    """Which tokens are scored. The other fields are read there alone."""
    right: Bool[np.ndarray, "B S"]
    """Whether the most likely token is the target."""
    nats: Float[np.ndarray, "B S"]
    """-ln p of the target; NaN by a method that gives no probabilities."""
    label_nats: Float[np.ndarray, "B S"]
    """-ln of p(target) / p(all labels), the tokens that may be a target (`Task.labels`); NaN by a
    method that gives no probabilities.
    """
    bayes: Float[np.ndarray, "B S"]
    """-ln p of the target by `Task.bayes`; NaN unless the metric `uses` "bayes"."""
    distance: Float[np.ndarray, "B S"]
    """`Task.distances`; NaN unless the metric `uses` "distances"."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SampleMetric(Metric):
    """How the samples of a task are scored."""

    better: Literal["lower", "higher"] = "higher"
    percent: bool = True
    """Whether 100 is the best value, so that a length can be solved."""
    by_depth: bool = False
    """Whether it is also drawn by the depth of what is retrieved."""
    chance: float | None = None
    """The value of guesses; None: it depends on the text or the task."""
    uses: tuple[str, ...] = ()
    """"last", where only the last `eval.last` scored tokens of a sample count, which no evaluation
    length may be below; "bayes" and "distances", where the task must have the hook of that name.
    """
    value: Callable[[Predictions], float]
    """One number; NaN where the predictions lack what it needs."""

    def score(self, predictions: Predictions, last: int) -> float:
        """The value of the predictions, `last` being `eval.last`."""
        if "last" in self.uses:
            left = np.cumsum(predictions.scored[:, ::-1], axis=1)[:, ::-1]
            predictions = predictions._replace(scored=predictions.scored & (left <= last))
        return self.value(predictions)

    @property
    def measured(self) -> str:
        """For example "accuracy in %"."""
        return self.unit


class Prompt(NamedTuple):
    """A text with its answer."""

    tokens: Int[np.ndarray, "N"]
    """At most E + 1 tokens, less the ones that stand before it."""
    answer: Int[np.ndarray, "A"]
    """The numbers of the tokens that are scored."""
    depths: Float[np.ndarray, "A"]
    """Of each, the share of the text before what it is the answer to, in [0, 1]."""


@dataclasses.dataclass(frozen=True, eq=False)
class Request:
    """What a prompt is written for."""

    tokenizer: Any
    """A data.tokenizer.Tokenizer."""
    evaluated: int
    """E, the evaluation length."""
    number: int
    """Which prompt: all that is drawn depends on it alone, and is the same at every length."""
    documents: Any = None
    """The data.documents.Documents of the scored text, for prompts that hide something in it."""
    before: int = 0
    """How many tokens stand before the prompt."""

    @property
    def length(self) -> int:
        """The evaluation length that is left to the prompt."""
        return self.evaluated - self.before

    def encode(self, text: bytes) -> np.ndarray:
        """The tokens of a text."""
        return self.tokenizer.encode([np.frombuffer(text, np.uint8)])[0]

    def passage(self, tokens: int, place: float) -> np.ndarray:
        """So many tokens of the scored text, from `place`, in [0, 1), of those where they fit.
        ValueError where no document has as many.
        """
        long = np.flatnonzero(self.documents.sizes >= tokens)
        if not long.size:
            most = self.documents.sizes.max()
            raise ValueError(
                f"the prompts need a text of {tokens} tokens to hide something in; the longest "
                f"document has {most}: give longer texts or shorter lengths"
            )
        document = self.documents[long[self.number % len(long)]]
        start = int(place * (len(document) - tokens + 1))
        return document[start : start + tokens]

    def short(self, name: str, needed: int) -> ValueError:
        """The error where the sentences of a prompt alone have more tokens than a window."""
        return ValueError(
            f"the sentences of {name} alone have {needed - 1 + self.before} tokens, got the length "
            f"{self.evaluated}: give eval.lengths of at least {needed - 1 + self.before} (the "
            "training length may be among them)"
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PromptMetric(SampleMetric):
    """How answers to prompts of text are scored."""

    prompt: Callable[[Request], Prompt]
    """The prompt of a number at the evaluation length E. ValueError where E is too short for it."""
