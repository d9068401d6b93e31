"""The samples of a task that a training step meets: their lengths, and the keys that draw them.

Lengths up to the training length L are shared out to at most SHAPES parts, and a sample is padded
to the size of the longest of its part. Each step has samples of one length n, drawn uniformly:
first the part, by the step alone, so that all seeds of a program run the same branch; then n within
it, by seed and step. Samples depend on seed, step and row of the batch, so no key is used twice.
With train.loss=all, tokens without a target predict the next token.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from pe_jax.task import Sample, Task
from pe_jax.training.config import TrainConfig

SHAPES = 4
"""The most sizes of samples that a training program is compiled for."""


class Batch(NamedTuple):
    """The samples of a step, [B, S] each."""

    samples: Sample
    size: Int[Array, ""] | None = None
    """How many of the S tokens there are; None: all."""


Draw = Callable[[Array, Key[Array, ""], int], Batch]
"""draw(rows, key, vocab): the samples of a seed and step, for a model that reads `vocab` tokens."""

Part = tuple[int, ...]
"""Lengths whose samples are padded to the size of the last, rising."""


def parts(task: Task, config: TrainConfig) -> tuple[Part, ...]:
    """The lengths to train with, in parts of about equal numbers. ValueError if there are none."""
    if task.reads_text or config.curriculum == "fixed":
        lengths = [config.length]
    else:
        lengths = [n for n in range(1, config.length + 1) if task.has(n)]
    if not lengths or not task.has(lengths[-1]):
        raise ValueError(
            f"{type(task).__name__} has no sample of length {config.length}"
            f"{'' if config.curriculum == 'fixed' else ' or less'}: change train.length"
        )
    count = min(SHAPES, len(lengths))
    ends = [len(lengths) * i // count for i in range(count + 1)]
    return tuple(tuple(lengths[a:b]) for a, b in zip(ends[:-1], ends[1:], strict=True))


def part_of(parts: Sequence[Part], step: Int[Array, ""]) -> Int[Array, ""]:
    """The number of the part of a step, drawn in proportion to the lengths in it."""
    ends = np.cumsum([len(part) for part in parts])
    key = jax.random.fold_in(jax.random.key(0), step)
    drawn = jax.random.randint(key, (), 0, jnp.int32(ends[-1]))
    return jnp.searchsorted(jnp.asarray(ends), drawn, side="right")


def drawing(task: Task, config: TrainConfig, part: Part) -> Draw:
    """Draws the samples of a step whose lengths are in `part`; for a task that reads text `rows`
    are its windows.
    """

    def cut(windows, key, vocab):
        keys = jax.random.split(key, len(windows))
        return Batch(jax.vmap(functools.partial(task.cut, vocab=vocab))(windows, keys))

    def draw(rows, key, vocab):
        of_length, of_rows = jax.random.split(key)
        n = jnp.asarray(part)[jax.random.randint(of_length, (), 0, len(part))]
        keys = jax.vmap(jax.random.fold_in, (None, 0))(of_rows, rows)
        size = jnp.asarray(task.size(n))

        drawn = jax.vmap(lambda key: task.sample(key, n, part[-1]))(keys)
        if config.loss == "all":
            drawn = jax.vmap(_of_every_token, (0, None))(drawn, size)
        return Batch(drawn, size)

    return cut if task.reads_text else draw


# The sample with the next token as the target of each token that has none.
def _of_every_token(sample: Sample, size: Int[Array, ""]) -> Sample:
    tokens, targets, scored = sample
    following = jnp.arange(len(tokens)) < size - 1
    return Sample(tokens, jnp.where(scored, targets, jnp.roll(tokens, -1)), scored | following)


def rows(steps: int, seeds: int, batch: int) -> Int[np.ndarray, "C R B"]:
    """The numbers of the rows of a batch, for each of C steps and R seeds."""
    return np.broadcast_to(np.arange(batch, dtype=np.int32), (steps, seeds, batch))


def mean_size(task: Task, config: TrainConfig) -> float:
    """Tokens of a sample, the mean over the lengths of training."""
    sizes = [task.size(n) for part in parts(task, config) for n in part]
    return math.fsum(sizes) / len(sizes)
