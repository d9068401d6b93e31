"""Baselines of a task, the most frequent answer, a heuristic and the Bayes-optimal prediction; and
the depth of each retrieved item.

    most frequent   at the j-th scored token of a sample the target that is the most frequent one
                    there in as many other samples of the same length
    most frequent symbol
                    everywhere the target that is the most frequent one of all scored tokens of
                    these samples; only where more than one token of a sample is scored
    guess           `Task.guess`, where the task has it
    bayes           `Task.bayes`, where the task has it
    3-gram          the counts of the labels behind the last three tokens, elsewhere called a
                    4-gram, in as many other samples, and one more of each, where the task has
                    `Task.distances`
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from pe_jax.evaluation.config import EvalConfig, variant
from pe_jax.evaluation.passes import padded
from pe_jax.evaluation.scoring import held_out
from pe_jax.metric import Predictions, SampleMetric
from pe_jax.metrics import named
from pe_jax.record import AS_TRAINED, Baseline, Way
from pe_jax.task import Sample, Task

_drawn = jax.jit(held_out, static_argnames=("task", "longest", "split"))


Hook = Callable[[list[int]], Sequence[float | None] | None]
"""`Task.guess`, `depths` or `distances`: a number for each token of a sample, or None."""


def per_token(hook: Hook, tokens: Any, size: int) -> np.ndarray | None:
    """The numbers that a hook of the task gives for samples with `size` tokens and their padding,
    [B, S]; NaN where it gives none. None where it gives none at all.
    """
    numbers = np.full(tokens.shape, np.nan)
    for row, sample in zip(numbers, tokens[:, :size].tolist(), strict=True):
        given = hook(sample)
        if given is None:
            return None
        row[:size] = given
    return numbers


def bayes(task: Task, samples: Sample, size: int) -> tuple[np.ndarray, np.ndarray]:
    """(-ln p of the targets by `Task.bayes`, in nats, its most likely tokens) of samples with
    `size` tokens and their padding, both [B, S]. NaN where none is scored and where the task has
    no such prediction.
    """
    tokens, targets, scored = map(np.asarray, samples)
    nats, likely = np.full(tokens.shape, np.nan), np.zeros_like(tokens)
    for row, sample in enumerate(tokens):
        best, at = task.bayes(sample[:size].tolist()), np.flatnonzero(scored[row])
        if best is not None:
            nats[row, at] = -np.log(best[at, targets[row, at]])
            likely[row, at] = best[at].argmax(-1)
    return nats, likely


def baselines(task: Task, n: int, config: EvalConfig, way: Way = AS_TRAINED) -> Iterator[Baseline]:
    """The score of each method on the samples of length n of a task, or of its variant that `way`
    names, by each metric of a resolved config that it has a value of.
    """
    task = variant(task, way.variant).scored_form()
    samples, metrics, last = config.samples, config.metrics, config.scope.last
    longest = padded(task, n)
    numbers = np.arange(2 * samples, dtype=np.int32)
    drawn, _ = _drawn(task, np.int32(n), numbers, longest, config.split)
    ours = Sample(*(part[:samples] for part in drawn))
    tokens, targets, scored = map(np.asarray, ours)
    other_tokens, other_targets, other_scored = (np.asarray(part[samples:]) for part in drawn)
    without = np.full(tokens.shape, np.nan)  # probabilities
    by_place = most_frequent(other_targets, other_scored, scored)
    methods = {"most frequent": (by_place, without, without)}
    if scored.sum(axis=1).max() > 1:
        symbol = np.bincount(other_targets[other_scored]).argmax()
        methods["most frequent symbol"] = np.full_like(by_place, symbol), without, without
    guesses = per_token(task.guess, tokens, task.size(n))
    if guesses is not None:
        methods["guess"] = guesses, without, without
    best, likely = bayes(task, ours, task.size(n))
    if not np.isnan(best).all():
        methods["bayes"] = likely, best, without
    distance = per_token(task.distances, tokens, task.size(n))
    if distance is None:
        distance = without
    else:
        known = _contexts(other_tokens)[other_scored], other_targets[other_scored]
        p = ngrams(_contexts(tokens)[scored], *known, task)
        of_target = p[np.arange(len(p)), targets[scored] - task.first_label()]
        likely, nats = np.zeros_like(tokens), without.copy()
        likely[scored] = p.argmax(-1) + task.first_label()
        nats[scored] = -np.log(of_target)
        methods[f"{CONTEXT}-gram"] = likely, nats, nats
    for name, (predicted, nats, of_labels) in methods.items():
        right = (predicted == targets) & scored
        made = Predictions(scored, right, nats, of_labels, best, distance)
        for metric in metrics:
            value = named(metric, SampleMetric).score(made, last)
            if not math.isnan(value):
                yield Baseline(name=name, metric=metric, length=n, value=value, way=way)


CONTEXT = 3
"""Tokens of context; elsewhere the n of an n-gram counts the predicted token, too."""


# The tokens 2, 1 and 0 places before each of the tokens [B, S]: [B, S, CONTEXT], -1 before the
# first.
def _contexts(tokens: np.ndarray) -> np.ndarray:
    padded = np.pad(tokens, ((0, 0), (CONTEXT - 1, 0)), constant_values=-1)
    return np.lib.stride_tricks.sliding_window_view(padded, CONTEXT, axis=1)


def ngrams(ours: np.ndarray, others: np.ndarray, targets: np.ndarray, task: Task) -> np.ndarray:
    """p of each label behind each of `ours`, contexts [N, CONTEXT]: how often it is the target
    [M] behind the same one of `others` [M, CONTEXT], and one more, over the sum of the labels.
    """
    contexts = np.concatenate([ours, others]).astype(np.int64) + 1
    numbers = contexts @ (int(contexts.max()) + 1) ** np.arange(CONTEXT)  # sorts faster than rows
    known, place = np.unique(numbers, return_inverse=True)
    counts = np.ones((len(known), task.labels()))
    np.add.at(counts, (place[len(ours) :], targets - task.first_label()), 1)
    p = counts[place[: len(ours)]]
    return p / p.sum(-1, keepdims=True)


def most_frequent(targets: np.ndarray, scored: np.ndarray, places: np.ndarray) -> np.ndarray:
    """At the j-th place of each row of `places`, bool [B, S], the most frequent of the `targets`
    that stand at the j-th `scored` place of their row, both [A, S]; the lowest of several. Where no
    row has as many, it is the most frequent of all.
    """
    order = np.cumsum(scored, axis=1) - 1
    vocab, most = int(targets[scored].max()) + 1, int(places.sum(axis=1).max())
    counts = np.zeros((max(most, int(order.max()) + 1), vocab), np.int64)
    np.add.at(counts, (order[scored], targets[scored]), 1)
    best = counts.argmax(axis=1)
    best[counts.sum(axis=1) == 0] = counts.sum(axis=0).argmax()
    return best[np.maximum(np.cumsum(places, axis=1) - 1, 0)]
