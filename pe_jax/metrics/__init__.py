"""The table of metrics, by the names that eval.metrics gives them.

The sentence of a metric, which tables print, defines it; the windows of text and the values of
samples are functions here. prompts.py and ruler.py write the prompts. E is the evaluation length
and L the training length, in tokens.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

from pe_jax import contract
from pe_jax.errors import nearest
from pe_jax.metric import (
    DRAWS,
    Metric,
    Place,
    Predictions,
    Prompt,
    PromptMetric,
    Request,
    SampleMetric,
    TextMetric,
)
from pe_jax.metrics import prompts, ruler

# The windows of text, from the sizes of the documents in tokens and the evaluation length E


def same_targets(sizes, E, scope) -> Iterator[Place]:
    """Fixed places e, evenly spread over the documents of at least the longest E. The window is
    [e - E, e), and its last k tokens are scored, k = L/2 by default: the same targets at every E,
    each of which sees E - k to E - 1 tokens.
    """
    k = scope.last
    for document, e in _ends(sizes, scope.targets // k, scope.longest, k):
        yield Place(document, e - E, E - 1 - k, E - 1)


def nonoverlapping(sizes, E, scope) -> Iterator[Place]:
    """Spans of the longest E, evenly spread over the documents and the same at every E, are cut
    into windows of E, every token of which is scored. The last span is cut so that all have
    `targets` tokens together.
    """
    longest, left = scope.longest, scope.targets
    for document, e in _ends(sizes, math.ceil(left / longest), longest + 1, longest):
        begin = e - 1 - longest
        end = begin + min(longest, left)
        for start in range(begin, end, E):
            yield Place(document, start, 0, min(E, end - start))
        left -= longest


def masked(sizes, E, scope) -> Iterator[Place]:
    """Fixed places m, evenly spread over the documents. The window is [m - E/2, m + E/2), and its k
    tokens in the middle are scored, k = L/2 by default: the same targets at every E, each of which
    sees E - 1 tokens, some of them hidden, on both sides.
    """
    yield from (place._replace(rate=scope.rate) for place in _centred(sizes, E, scope))


def alone(sizes, E, scope) -> Iterator[Place]:
    """A window of `masked` for each of its k tokens in the middle, which alone is hidden."""
    for place in _centred(sizes, E, scope):
        for row in range(place.begin, place.end):
            yield place._replace(begin=row, end=row + 1)


def diffused(sizes, E, scope) -> Iterator[Place]:
    """DRAWS windows of `masked` for each place, with rates drawn from DRAWS equal parts of (0, 1],
    one from each: the same at every E.
    """
    shares = np.random.default_rng(0)
    for place in _centred(sizes, E, scope):
        for draw, share in enumerate(shares.random(DRAWS).tolist()):
            yield place._replace(rate=(draw + 1 - share) / DRAWS, draw=draw)


def _centred(sizes, E: int, scope) -> Iterator[Place]:
    k, longest = scope.last, scope.longest
    for document, e in _ends(sizes, scope.targets // k, longest + 1, k):
        begin = E // 2 - k // 2
        yield Place(document, e - longest + longest // 2 - E // 2 - 1, begin, begin + k)


# (document, e) of `count` places e, evenly spread over the documents, with e >= least and at least
# `apart` tokens between two of one document.
def _ends(sizes, count: int, least: int, apart: int) -> list[tuple[int, int]]:
    room = np.maximum(0, (np.asarray(sizes, np.int64) - least) // apart + 1)
    ends = np.cumsum(room)
    if count < 1 or room.sum() < count:
        room_for = f"room for {room.sum() * apart} of {count * apart} targets"
        raise ValueError(f"{room_for}: lower eval.targets or give more text")
    slots = np.linspace(0, ends[-1] - 1, count).round().astype(int)
    document = np.searchsorted(ends, slots, side="right")
    before = (ends - room)[document]
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

of_targets = functools.partial(TextMetric, places=same_targets, beyond=0, uses=("last",))
CENTRED = (
    "The targets are the same tokens at every length: the {last} tokens around fixed places in "
    "{split} documents, L being the training length. The window around them grows on both sides."
)


def _of_ruler(
    name: str, sentence: str, prompt: Callable[[Request], Prompt]
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
        of_targets(
            "same_targets",
            "The targets are the same tokens at every length: the {last} tokens before fixed "
            "places in {split} documents, L being the training length. Only the window before "
            "these places grows, so differences come from context alone, and the value at L is "
            "what a model that crops the longer context away scores at every length.",
        ),
        TextMetric(
            "nonoverlapping",
            "{split} documents are cut into windows of the evaluation length and every token is "
            "scored. Short windows hold a larger share of tokens with little context, so part of "
            "a fall is that share shrinking.",
            places=nonoverlapping,
            by_position=True,
        ),
        of_targets(
            "kl",
            "By how much other words are predicted than the model itself predicts: the mean over "
            "the targets of same_targets of KL(p || q), p as it is in a window of {reference}, "
            "q in the way and at the length at hand. It needs no luck of the text; what improves "
            "it counts, too.",
            unit="nats per token",
            compares="divergence",
            value=lambda divergences, _: float(divergences.mean(dtype=np.float64)),
        ),
        of_targets(
            "changed",
            "The share of the targets of same_targets at which the most likely token is another "
            "than the model itself has as it is in a window of {reference}: where greedy decoding "
            "takes another way.",
            unit="changed first choices in %",
            compares="choices",
            value=lambda changes, _: 100 * float(changes.mean(dtype=np.float64)),
        ),
        of_targets(
            "context_gain",
            "What the far part of the context is worth: -ln p of the targets of same_targets where "
            "a window holds a quarter to five sixteenths of the evaluation length, minus -ln p of "
            "the same targets in whole windows, both by the same encodings.",
            unit="nats per token gained",
            better="higher",
            compares="context",
            value=lambda gains, _: float(gains.mean(dtype=np.float64)),
        ),
        of_targets(
            "longppl",
            "LongPPL (Fang et al., 2024): exp of the mean of -ln p over the key tokens among the "
            "targets of same_targets, which need the far context: as it is, in a window of "
            "{reference}, the model gives them -ln p below 2 nats, and more than 2 nats more "
            "where it sees a quarter of it. Every way is scored on the same keys. Tables have its "
            "logarithm, whose differences can be tested.",
            unit="nats per key token",
            logarithm=True,
            compares="keys",
            value=lambda nats, _: float(np.exp(nats.mean(dtype=np.float64))),
        ),
        TextMetric(
            "masked_tokens",
            "{rate} of the tokens are hidden, each by a draw that its place in the text decides; "
            f"{CENTRED} The mean of -log2 p over the bytes of the hidden ones among these.",
            places=masked,
            uses=("last",),
            masks="nats",
        ),
        TextMetric(
            "first_choices",
            "Of the hidden tokens of masked_tokens the share whose most likely token is right.",
            unit="% right",
            better="higher",
            places=masked,
            uses=("last",),
            masks="choices",
            value=lambda wrong, _: 100 - 100 * float(wrong.mean(dtype=np.float64)),
        ),
        TextMetric(
            "pseudo_perplexity",
            "Pseudo-perplexity (Salazar et al., 2020): exp of the mean of -ln p over tokens that "
            f"are hidden one at a time, in a window of their own each. {CENTRED} Tables have its "
            "logarithm, whose differences can be tested.",
            unit="nats per token",
            logarithm=True,
            places=alone,
            uses=("last",),
            masks="nats",
            value=lambda nats, _: float(np.exp(nats.mean(dtype=np.float64))),
        ),
        TextMetric(
            "diffusion_bound",
            "Masked diffusion's bound on -log2 p, as far as it is of these tokens: -log2 p of the "
            "hidden ones, at rates t from 0 to 1, in the mean weighted by 1 / t. "
            f"{CENTRED} Each is drawn {DRAWS} times, at rates of its own.",
            places=diffused,
            uses=("last",),
            masks="bound",
        ),
        SampleMetric(
            "accuracy",
            "Samples of every length are drawn, the same {alike}. Of all their scored tokens the "
            "accuracy counts the ones that are the most likely token where they are predicted.",
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
            chance=math.log(10),
            percent=False,
            by_depth=True,
            value=_nats,
            prompt=prompts.records,
        ),
        *_of_ruler("niah_single_1", "One number is hidden in repeated sentences", ruler.single_1),
        *_of_ruler("niah_single_2", "One number is hidden in a text", ruler.single_2),
        *_of_ruler(
            "niah_multikey_1",
            "Four numbers are hidden in a text, and one is asked for",
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
            "scored tokens of each, at most the last {last}, L being the training length. They are "
            "the same at every length where a longer sample ends with the shorter, as in markov.",
            unit="bits per token, last targets",
            better="lower",
            percent=False,
            uses=("last",),
            value=_bits,
        ),
        SampleMetric(
            "above_bayes",
            "The mean of -log2 p over the scored tokens of each sample, at most the last {last}, L "
            "being the training length, minus that of the Bayes-optimal prediction on them.",
            unit="bits per token above Bayes",
            better="lower",
            percent=False,
            uses=("last", "bayes"),
            value=_above_bayes,
        ),
    )
}

Kind = TypeVar("Kind", bound=Metric)


def named(name: str, kind: type[Kind] = Metric) -> Kind:
    """The metric of that name, in METRICS or as path/to/file.py:NAME; ValueError, with the nearest
    name, unless there is one of that kind.
    """
    if ":" in name:
        found = dataclasses.replace(contract.own(name, Metric, instance=True), name=name)
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


# The value of a user's metric, as a number of Python where it is one of NumPy or JAX.
def _number(own: TextMetric | SampleMetric, *scored: Any) -> Any:
    arguments = "nats, sizes" if scored[1:] else "predictions"
    with contract.calling(f"{own.name}.value({arguments})", own.name):
        value: Any = own.value(*scored)
        return value.item() if hasattr(value, "item") else value
