"""The contract of a metric: what is scored, and how the scores become one number.

A metric is a frozen dataclass of pure functions. All that depends on the metric is a field of it:
value, unit, whether lower is better, the sentence that tables print, and for text the windows. To
add one, add an entry to METRICS; or write it in a file of your own, which a config names as
eval.metrics=("path/to/file.py:probability",), and which is its name then:

    probability = dataclasses.replace(
        METRICS["nonoverlapping"],
        sentence="The mean probability of every token of {split} documents.",
        unit="probability",
        better="higher",
        value=lambda nats, sizes: float(np.exp(-nats).mean()),
    )

Of text, a TextMetric says which tokens are scored in windows of which kind:

    same_targets    fixed places e, evenly spread over the documents of at least the longest E; the
                    window is [e - E, e) and its last k tokens are scored, k = L/2 by default: the
                    same targets at every E, each of which sees E - k to E - 1 tokens. The headline.
    nonoverlapping  spans of the longest E, evenly spread over the documents and the same at every
                    E, are cut into windows of E, every token scored: early tokens see little
    sliding         the same spans, in windows of E that move by `stride` tokens, of which only the
                    new tokens are scored
    last_k          windows of E evenly spread over the documents, their last k tokens scored
    kl              the windows of same_targets: KL(p || q) of each target, p predicted by the model
                    as it is in the window of L that ends there, q in the way and at the E at hand
    longppl         the windows of same_targets: exp of the mean -ln p over the key tokens alone,
                    those that the model as it is predicts well from L tokens and badly from few

E is the evaluation length and L the training length, in tokens. Of tasks whose samples are drawn, a
SampleMetric scores Predictions, by what is right or by -ln p of the targets:

    accuracy        of all scored tokens, how many are the most likely one where they are predicted
    exact_match     of all samples, in how many every scored token is. A greedily decoded answer is
                    right in just these, since up to its first error it is what the model reads
    bits            the mean of -log2 p over all scored tokens
    last_bits       the mean of -log2 p over the last k scored tokens of each sample
    by_distance     p of the target, renormalised over the labels, as a mean over the distances of
                    what decides it (`Task.distances`), each of which is a mean over tokens
    above_bayes     last_bits minus those of the Bayes-optimal prediction, `Task.bayes`

A PromptMetric asks for something that is hidden in a text: passkey and records (prompts.py), and
tasks of RULER (ruler.py), each by the mean of -ln p and, as in niah_single_1_exact, by how many
answers are right.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Bool, Float

from pe_jax import contract, prompts, ruler
from pe_jax.errors import nearest
from pe_jax.fields import Natural, check, fits


@dataclasses.dataclass(frozen=True)
class Metric:
    """How one checkpoint is scored at an evaluation length."""

    name: str
    sentence: str
    """What is scored, for the notes below a table. {split} stands for "test" or "validation",
    {last} for `eval.last`, which is "L/2" where it is not set, {alike} for what the samples are
    the same with: all models and seeds, or every swap.
    """
    unit: str = "bits per byte"
    better: Literal["lower", "higher"] = "lower"
    reach: str = "solved length"
    """Of a metric in percent: what tables call the longest length up to which it is at least 90."""
    logarithm: bool = False
    """Whether reports show the natural logarithm of the value, and `unit` is that of the logarithm:
    of perplexities a mean and its scatter are those of the worst.
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
    def best(self) -> str:
        """ "lowest" or "highest": which of several values is the best."""
        return "lowest" if self.better == "lower" else "highest"

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
    """k of same_targets and last_k: the scored tokens at the end of each window."""
    stride: int
    """Tokens by which the windows of `sliding` move."""


class Place(NamedTuple):
    """A window of a document, and the rows of it that are scored, begin <= row < end.

    The window begins at token `start`. Row r sees the tokens start .. start + r and predicts the
    next one.
    """

    document: int
    start: int
    begin: int
    end: int

    def fits(self, sizes: Sequence[int], E: int) -> bool:
        """Whether it scores rows 0 .. E - 1 alone, whose tokens are all of one of the documents."""
        document, start, begin, end = self
        inside = all(fits(number, Natural) for number in self) and document < len(sizes)
        return inside and begin < end <= E and start + end < sizes[document]


class NoRoom(ValueError):
    """The documents are too short for as many targets as were asked for."""


def bits_per_byte(nats: np.ndarray, sizes: np.ndarray) -> float:
    """sum(nats) / sum(sizes) / ln 2, of -ln p in nats and sizes in bytes, both [n]."""
    return float(nats.sum(dtype=np.float64) / sizes.sum(dtype=np.int64) / math.log(2))


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextMetric(Metric):
    """How windows of text are scored."""

    places: Callable[[Sequence[int], int, Scope], Iterator[Place]]
    """The windows, from the documents' sizes in tokens and the evaluation length E. Raises NoRoom
    if there are too few.
    """
    beyond: int = 1
    """Tokens that a document needs beyond the longest window."""
    uses: tuple[str, ...] = ()
    """The fields of Scope, "last" or "stride", that it reads and that must be below the shortest
    length.
    """
    by_position: bool = False
    """Whether every row of its windows is scored, so that results can be drawn by position."""
    compares: Literal["", "divergence", "keys"] = ""
    """What is computed with the model as it is in windows of its training length: the divergence
    from it, which `value` then gets in place of -ln p; or key tokens, which alone are scored.
    """
    value: Callable[[np.ndarray, np.ndarray], float] = bits_per_byte
    """One number from the scored targets' -ln p, in nats, float [n], and their sizes in bytes, int
    [n].
    """


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class PromptMetric(SampleMetric):
    """How answers to prompts of text are scored."""

    prompt: Callable[[prompts.Request], prompts.Prompt]
    """The prompt of a number at the evaluation length E. ValueError where E is too short for it."""


Kind = TypeVar("Kind", bound=Metric)


def named(name: str, kind: type[Kind] = Metric) -> Kind:
    """The metric of that name, in METRICS or as path/to/file.py:NAME; ValueError, with the nearest
    name, unless there is one of that kind.
    """
    if ":" in name:
        path, _, attribute = name.rpartition(":")
        found = dataclasses.replace(contract.own_instance(path, attribute, Metric), name=name)
        if isinstance(found, TextMetric | SampleMetric):
            found = dataclasses.replace(found, value=functools.partial(_number, found))
    else:
        found = METRICS.get(name)
    if isinstance(found, kind):
        return found
    of = {TextMetric: " of text", SampleMetric: " of samples that are drawn"}.get(kind, "")
    known = [known for known, metric in METRICS.items() if isinstance(metric, kind)]
    raise ValueError(
        f"no metric{of} {name!r}{nearest(name, known)} Known: {', '.join(known)}, or your own as "
        "path/to/file.py:NAME."
    )


def _number(own: TextMetric | SampleMetric, *scored: Any) -> Any:
    """The value of a user's metric, as a number of Python where it is one of NumPy or JAX."""
    arguments = "nats, sizes" if scored[1:] else "predictions"
    with contract.calling(f"{own.name}.value({arguments})", own.name):
        value: Any = own.value(*scored)
        return value.item() if hasattr(value, "item") else value


# The windows of text, from the sizes of the documents in tokens and the evaluation length E


def same_targets(sizes, E, scope) -> Iterator[Place]:
    k = scope.last
    for document, e in _ends(sizes, scope.targets // k, scope.longest, k):
        yield Place(document, e - E, E - 1 - k, E - 1)


def last_k(sizes, E, scope) -> Iterator[Place]:
    k = min(scope.last, E)
    for document, e in _ends(sizes, scope.targets // scope.last, E + 1, k):
        yield Place(document, e - E - 1, E - k, E)


def nonoverlapping(sizes, E, scope) -> Iterator[Place]:
    for document, begin, end in _spans(sizes, scope):
        for start in range(begin, end, E):
            yield Place(document, start, 0, min(E, end - start))


def sliding(sizes, E, scope) -> Iterator[Place]:
    for document, begin, end in _spans(sizes, scope):
        for first in range(begin, end, scope.stride):
            last = min(first + scope.stride, end)
            start = max(0, last - E)
            yield Place(document, start, first - start, last - start)


def _spans(sizes, scope) -> Iterator[tuple[int, int, int]]:
    """(document, begin, end) of spans of the longest E; the last is cut so that all have `targets`
    tokens together.
    """
    count, left = math.ceil(scope.targets / scope.longest), scope.targets
    for document, end in _ends(sizes, count, scope.longest + 1, scope.longest):
        begin = end - 1 - scope.longest
        yield document, begin, begin + min(scope.longest, left)
        left -= scope.longest


def _ends(sizes, count: int, least: int, apart: int) -> list[tuple[int, int]]:
    """(document, e) of `count` places e, evenly spread over the documents, with e >= least and at
    least `apart` tokens between two of one document. Raises NoRoom if they do not fit.
    """
    room = [max(0, (size - least) // apart + 1) for size in sizes]
    if count < 1 or sum(room) < count:
        raise NoRoom(f"room for {sum(room) * apart} targets")
    slots = np.linspace(0, sum(room) - 1, count).round().astype(int)
    document = np.searchsorted(np.cumsum(room), slots, side="right")
    before = np.cumsum([0, *room])[document]
    return [
        (int(d), int(least + (s - b) * apart))
        for d, s, b in zip(document, slots, before, strict=True)
    ]


# The values of samples and prompts, from the predictions


def _accuracy(predictions: Predictions) -> float:
    return 100 * float(predictions.right[predictions.scored].mean())


def _exact_match(predictions: Predictions) -> float:
    return 100 * float((predictions.right | ~predictions.scored).all(axis=1).mean())


def _bits(predictions: Predictions) -> float:
    return _nats(predictions) / math.log(2)


def _nats(predictions: Predictions) -> float:
    return float(predictions.nats[predictions.scored].mean(dtype=np.float64))


def _above_bayes(predictions: Predictions) -> float:
    return _bits(predictions) - _bits(predictions._replace(nats=predictions.bayes))


def _by_distance(predictions: Predictions) -> float:
    distance = predictions.distance[predictions.scored]
    p = np.exp(-predictions.label_nats[predictions.scored].astype(np.float64))
    return 100 * float(np.mean([p[distance == one].mean() for one in np.unique(distance)]))


# The metrics that the package has


def _of_ruler(
    name: str, sentence: str, prompt: Callable[[prompts.Request], prompts.Prompt]
) -> tuple[PromptMetric, PromptMetric]:
    """A task of RULER by the mean of -ln p, and by how many answers are right."""
    task = f"{sentence} (RULER; Hsieh et al., 2024), the same {{alike}}"
    graded = PromptMetric(
        name,
        f"{task}: the mean of -ln p over the tokens of the answers, each predicted from all before "
        "it.",
        unit="nats per answer token",
        better="lower",
        percent=False,
        by_depth=True,
        value=_nats,
        prompt=prompt,
    )
    exact = PromptMetric(
        f"{name}_exact",
        f"{task}. A prompt counts where every token of its answers is the most likely one.",
        unit="right answers in %",
        value=_exact_match,
        prompt=prompt,
    )
    return graded, exact


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        TextMetric(
            "same_targets",
            "The targets are the same tokens at every length: the {last} tokens before fixed "
            "places in {split} documents, L being the training length. Only the window before "
            "these places grows, so differences come from context alone, and the value at L is "
            "what a model that crops the longer context away scores at every length.",
            places=same_targets,
            beyond=0,
            uses=("last",),
        ),
        TextMetric(
            "nonoverlapping",
            "{split} documents are cut into windows of the evaluation length and every token is "
            "scored. Short windows hold a larger share of tokens with little context, so part of "
            "a negative gain is that share shrinking.",
            places=nonoverlapping,
            by_position=True,
        ),
        TextMetric(
            "sliding",
            "Windows of the evaluation length move over {split} documents by a fixed stride. Only "
            "the tokens that are new in a window are scored.",
            places=sliding,
            uses=("stride",),
        ),
        TextMetric(
            "last_k",
            "{split} documents are cut into windows of the evaluation length. Only the last k "
            "tokens of each window are scored.",
            places=last_k,
            uses=("last",),
        ),
        TextMetric(
            "kl",
            "By how much other words are predicted than the model itself predicts within its "
            "training length: the mean over the targets of same_targets of KL(p || q), p as it is "
            "in a window of the training length, q in the way and at the length at hand. It needs "
            "no luck of the text, and a change that improves the prediction counts, too.",
            unit="nats per token",
            places=same_targets,
            beyond=0,
            uses=("last",),
            compares="divergence",
            value=lambda divergences, _: float(divergences.mean(dtype=np.float64)),
        ),
        TextMetric(
            "longppl",
            "LongPPL (Fang et al., 2024): exp of the mean of -ln p over the key tokens among the "
            "targets of same_targets, which need the far context: as it is, in a window of the "
            "training length, the model gives them -ln p below 2 nats, and more than 2 nats more "
            "where it sees a quarter of it. Every way is scored on the same keys. Tables have its "
            "logarithm, whose differences can be tested.",
            unit="nats per key token",
            logarithm=True,
            places=same_targets,
            beyond=0,
            uses=("last",),
            compares="keys",
            value=lambda nats, _: float(np.exp(nats.mean(dtype=np.float64))),
        ),
        SampleMetric(
            "accuracy",
            "Samples of every length are drawn, the same {alike}. Of all their scored tokens the "
            "accuracy counts those that are the most likely one where they are predicted.",
            unit="accuracy in %",
            by_depth=True,
            value=_accuracy,
        ),
        SampleMetric(
            "exact_match",
            "Samples of every length are drawn, the same {alike}. A sample counts where every "
            "scored token is the most likely one: where greedy decoding is right.",
            unit="samples without an error in %",
            value=_exact_match,
        ),
        PromptMetric(
            "passkey",
            "A number of five digits is hidden in filler text and asked for at its end, the same "
            "numbers {alike}. An answer counts where every token of the number is the most likely "
            "one: where greedy decoding is right.",
            unit="right answers in %",
            by_depth=True,
            value=_exact_match,
            prompt=prompts.passkey,
        ),
        PromptMetric(
            "records",
            "16 words, each with a code of eight digits, stand at even depths of a text, the same "
            "{alike}; at its end the same 16 sentences come in another order: the mean of -ln p "
            "over the tokens of their digits.",
            unit="nats per digit",
            better="lower",
            percent=False,
            by_depth=True,
            value=_nats,
            prompt=prompts.records,
        ),
        *_of_ruler("niah_single_1", "One number is hidden in repeated sentences", ruler.single_1),
        *_of_ruler("niah_single_2", "One number is hidden in a text", ruler.single_2),
        *_of_ruler(
            "niah_multikey_1",
            "Four numbers are hidden in a text, of which one is asked for",
            ruler.multikey_1,
        ),
        *_of_ruler(
            "niah_multiquery",
            "Four numbers are hidden in a text, and all are asked for",
            ruler.multiquery,
        ),
        *_of_ruler(
            "variable_tracking",
            "A chain of five variables is hidden in repeated sentences, and all are asked for",
            ruler.variable_tracking,
        ),
        SampleMetric(
            "by_distance",
            "Samples of every length are drawn, the same {alike}. Of each scored token the "
            "probability of its target, renormalised over all possible targets: the mean over the "
            "tokens of each distance to what decides the target, then over the distances.",
            unit="probability of the target in %, mean over distances",
            uses=("distances",),
            value=_by_distance,
        ),
        SampleMetric(
            "bits",
            "Samples of every length are drawn, the same {alike}: the mean of -log2 p over all "
            "their scored tokens.",
            unit="bits per token",
            better="lower",
            percent=False,
            value=_bits,
        ),
        SampleMetric(
            "last_bits",
            "Samples of every length are drawn, the same {alike}: the mean of -log2 p over the "
            "last {last} scored tokens of each, L being the training length. Where a longer sample "
            "ends with the shorter one, as in markov, these targets are the same at every length.",
            unit="bits per token, last targets",
            better="lower",
            percent=False,
            uses=("last",),
            value=_bits,
        ),
        SampleMetric(
            "above_bayes",
            "The mean of -log2 p over the last {last} scored tokens of each sample, L being the "
            "training length, minus that of the Bayes-optimal prediction on the same tokens.",
            unit="bits per token above Bayes",
            better="lower",
            percent=False,
            uses=("last", "bayes"),
            value=_above_bayes,
        ),
    )
}
