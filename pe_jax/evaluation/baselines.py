"""Baselines of a task, the most frequent answer and a heuristic; and the depth of each retrieved
item.

    most frequent   at the j-th scored token of a sample the target that is the most frequent one
                    there in as many other samples of the same length
    guess           `Task.guess`, where the task has it
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import jax
import numpy as np

from pe_jax.evaluation.answers import held_out
from pe_jax.evaluation.passes import padded
from pe_jax.metric import SampleMetric, named
from pe_jax.record import AS_TRAINED, Baseline, Way
from pe_jax.task import Task

_drawn = jax.jit(held_out, static_argnames=("task", "longest"))


def depths(task: Task, n: int, samples: int, longest: int) -> np.ndarray | None:
    """`Task.depths` of the samples of length n, padded to the size of `longest`: [samples, S], NaN
    where it has none. None where the task has none at all.
    """
    numbers, size = np.arange(samples, dtype=np.int32), task.size(n)
    (tokens, _, _), _ = _drawn(task, np.int32(n), numbers, longest)
    found = np.full(tokens.shape, np.nan)
    for row, sample in zip(found, np.asarray(tokens)[:, :size].tolist(), strict=True):
        known = task.depths(sample)
        if known is None:
            return None
        row[:size] = known
    return found


def baselines(
    task: Task, n: int, samples: int, metrics: Sequence[str], way: Way = AS_TRAINED
) -> Iterator[Baseline]:
    """What each method scores by each metric on the samples of length n; `task` is that of
    training, or its variant that `way` names.
    """
    longest = padded(task, n)
    drawn, _ = _drawn(task, np.int32(n), np.arange(2 * samples, dtype=np.int32), longest)
    tokens, targets, scored = map(np.asarray, drawn)
    ours, others = slice(samples), slice(samples, None)
    tokens, wanted, counted = tokens[ours], targets[ours], scored[ours]
    methods = {"most frequent": most_frequent(targets[others], scored[others], counted)}
    if task.guess(tokens[0, : task.size(n)].tolist()) is not None:
        methods["guess"] = np.zeros_like(tokens)
        for row, sample in zip(methods["guess"], tokens, strict=True):
            row[: task.size(n)] = task.guess(sample[: task.size(n)].tolist())
    for name, predicted in methods.items():
        right = (predicted == wanted) & counted
        for metric in metrics:
            value = named(metric, SampleMetric).value(right.sum(-1), counted.sum(-1))
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
