"""Holds the samples of a task against its oracle, before a run on a user's own task and in the
tests of the package's tasks.
"""

from __future__ import annotations

import functools

import jax
import numpy as np

from pe_jax.task import Sample, Task


@functools.partial(jax.jit, static_argnames=("task", "longest", "count"))
def drawn(task: Task, n, longest: int, count: int, seed=0) -> Sample:
    """`count` samples of length n, padded to the size of `longest`: arrays [count, S]."""
    keys = jax.random.split(jax.random.key(seed), count)
    return jax.vmap(lambda key: task.sample(key, n, longest))(keys)


@functools.cache  # a sweep has the same task in many runs
def check(task: Task, lengths: tuple[int, ...], count: int) -> None:
    """ValueError, with the sample, unless each of `count` samples of each of the lengths, padded to
    the size of the longest, is what the oracle says, has a scored token, has ids below `vocab` and
    scores no padding.
    """
    for n in lengths:
        size = int(task.size(n))
        batch = drawn(task, np.int32(n), max(lengths), count, n)
        shape = (count, int(task.size(max(lengths))))
        if any(part.shape != shape for part in batch):
            shapes = [list(part.shape[1:]) for part in batch]
            raise ValueError(f"a sample must have three arrays of {shape[1]} tokens, got {shapes}")
        for tokens, targets, scored in zip(*map(np.asarray, batch), strict=True):
            text = tokens[:size].tolist()
            wanted = list(task.oracle(text))
            said = [int(t) if s else None for t, s in zip(targets[:size], scored, strict=False)]
            where = f"the sample {text} of length {n}"
            if wanted != said:
                raise ValueError(f"{where} has the targets {said}, and its oracle says {wanted}")
            ids = {*text, *said} - {None}
            if not 0 <= min(ids) <= max(ids) < task.vocab():
                raise ValueError(f"{where}, with the targets {said}, has ids beyond its vocabulary")
            if scored[size:].any() or not scored.any():
                raise ValueError(f"{where} must have a scored token, and none in the padding")
