"""Baselines of a task, the most frequent answer, a heuristic and the Bayes-optimal prediction; and
the depth of each retrieved item.

    most frequent   at the j-th scored token of a sample the target that is the most frequent one
                    there in as many other samples of the same length
    guess           `Task.guess`, where the task has it
    bayes           `Task.bayes`, where the task has it
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import jax
import numpy as np

from pe_jax.evaluation.answers import held_out
from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.passes import padded
from pe_jax.metric import Predictions, SampleMetric, named
from pe_jax.record import AS_TRAINED, Baseline, Way
from pe_jax.task import Task

_drawn = jax.jit(held_out, static_argnames=("task", "longest", "split"))


def depths(task: Task, n: int, samples: int, longest: int, split: str) -> np.ndarray | None:
    """`Task.depths` of the samples of a split of length n, padded to the size of `longest`:
    [samples, S], NaN where it has none. None where the task has none at all.
    """
    numbers, size = np.arange(samples, dtype=np.int32), task.size(n)
    (tokens, _, _), _ = _drawn(task, np.int32(n), numbers, longest, split)
    found = np.full(tokens.shape, np.nan)
    for row, sample in zip(found, np.asarray(tokens)[:, :size].tolist(), strict=True):
        known = task.depths(sample)
        if known is None:
            return None
        row[:size] = known
    return found


def bayes(task: Task, n: int, samples: int, longest: int, split: str) -> np.ndarray:
    """-ln p of the targets by `Task.bayes`, in nats, of the samples of a split of length n, padded
    to the size of `longest`: [samples, S], NaN where none is scored and where the task has no
    such prediction.
    """
    drawn, _ = _drawn(task, np.int32(n), np.arange(samples, dtype=np.int32), longest, split)
    return _bayes(task, *map(np.asarray, drawn), size=task.size(n))[0]


def _bayes(
    task: Task, tokens: np.ndarray, targets: np.ndarray, scored: np.ndarray, *, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """(-ln p of the targets by `Task.bayes`, its most likely tokens) of samples with `size` tokens
    and their padding, both [B, S].
    """
    nats, likely = np.full(tokens.shape, np.nan), np.zeros_like(tokens)
    for row, sample in enumerate(tokens):
        best, at = task.bayes(sample[:size].tolist()), np.flatnonzero(scored[row])
        if best is not None:
            nats[row, at] = -np.log(best[at, targets[row, at]])
            likely[row, at] = best[at].argmax(-1)
    return nats, likely


def baselines(task: Task, n: int, config: EvalConfig, way: Way = AS_TRAINED) -> Iterator[Baseline]:
    """What each method scores on the samples of length n, by each metric of a resolved config that
    it has a value of; `task` is that of training, or its variant that `way` names.
    """
    samples, metrics, last = config.samples, config.metrics, config.scope.last
    longest = padded(task, n)
    numbers = np.arange(2 * samples, dtype=np.int32)
    drawn, _ = _drawn(task, np.int32(n), numbers, longest, config.split)
    tokens, targets, scored = map(np.asarray, drawn)
    ours, others = slice(samples), slice(samples, None)
    tokens, wanted, counted = tokens[ours], targets[ours], scored[ours]
    without = np.full(tokens.shape, np.nan)  # probabilities
    methods = {"most frequent": (most_frequent(targets[others], scored[others], counted), without)}
    if task.guess(tokens[0, : task.size(n)].tolist()) is not None:
        guesses = np.zeros_like(tokens)
        for row, sample in zip(guesses, tokens, strict=True):
            row[: task.size(n)] = task.guess(sample[: task.size(n)].tolist())
        methods["guess"] = guesses, without
    best, likely = _bayes(task, tokens, wanted, counted, size=task.size(n))
    if not np.isnan(best).all():
        methods["bayes"] = likely, best
    for name, (predicted, nats) in methods.items():
        made = Predictions(counted, (predicted == wanted) & counted, nats, best)
        for metric in metrics:
            value = named(metric, SampleMetric).score(made, last)
            if not math.isnan(value):
                yield Baseline(name=name, metric=metric, length=n, value=value, way=way)


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
