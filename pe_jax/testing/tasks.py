"""Samples of a task held against its oracle or its Bayes-optimal prediction."""

from __future__ import annotations

import functools
import itertools
import math

import jax
import numpy as np

from pe_jax.contract import calling
from pe_jax.task import Sample, Task
from pe_jax.testing.hooks import callback

ERRORS = 6.0  # standard errors by which the surprise of drawn targets may be off


@functools.partial(jax.jit, static_argnames=("task", "longest", "count"))
def drawn(task: Task, n, longest: int, count: int, seed=0) -> Sample:
    """`count` samples of length n, padded to the size of `longest`: arrays [count, S]."""
    keys = jax.random.split(jax.random.key(seed), count)
    return jax.vmap(lambda key: task.sample(key, n, longest))(keys)


@functools.cache  # a sweep has the same task in many runs
def check_task(task: Task, lengths: tuple[int, ...] = (), count: int = 0) -> None:
    """The checks of `testing.check` of a task that draws its samples, in the form that is scored,
    on `count` of each length, or on a hundred in all; lengths (): its ten shortest.

    A sample is what the oracle says, has a scored token, ids below `vocab`, targets among the
    labels, and scores no padding. Drawn targets are held against the rows p of `Task.bayes`,
    distributions with p > 0 at the target: over the samples of a length the sum of -ln p(target)
    lies within ERRORS standard errors of the sum of the entropies of p, as it does where targets
    are drawn from p; above it, by twice its greatest term more, since one rare target among few can
    add so much. `guess`, `depths` and `distances` have an entry for each token.
    """
    task = task.scored_form()
    every = sorted(lengths) or [*itertools.islice(filter(task.has, range(1, 2**16)), 10)]
    if not every:
        raise ValueError(f"{type(task).__name__}.has allows no length below 2^16")
    longest, count = every[-1], count or -(-100 // len(every))
    for n in (every[0], longest):
        _check_lists(task, n)
    program = jax.make_jaxpr(task.sample, static_argnums=2)(jax.random.key(0), longest, longest)
    if fault := callback(program):
        raise ValueError(f"sample {fault}")
    for n in every:
        _check_samples(task, n, drawn(task, np.int32(n), longest, count, n), longest)


def _check_lists(task: Task, n: int) -> None:
    with calling(f"sample of length {n}"):
        size = int(task.size(n))
        text = np.asarray(drawn(task, np.int32(n), n, 1).tokens)[0, :size].tolist()
    for hook in ("guess", "depths", "distances"):
        with calling(f"{hook} of the sample {text} of length {n}, which `has` allows"):
            entries = getattr(task, hook)(text)
        if entries is not None and len(entries) != size:
            wanted = f"an entry for each of the {size} tokens of a sample of length {n}, or None"
            raise ValueError(f"{hook} must give {wanted}, got {len(entries)}")


def _check_samples(task: Task, n: int, batch: Sample, longest: int) -> None:
    size, width = int(task.size(n)), int(task.size(longest))
    if any(part.shape[1:] != (width,) for part in batch):
        shapes = [list(part.shape[1:]) for part in batch]
        raise ValueError(f"a sample must have three arrays of {width} tokens, got {shapes}")
    labels = range(task.first_label(), task.first_label() + task.labels())
    excess, variance, most = 0.0, 0.0, 0.0  # of the surprise over its expectation
    for tokens, targets, scored in zip(*map(np.asarray, batch), strict=True):
        text = tokens[:size].tolist()
        said = [int(t) if s else None for t, s in zip(targets[:size], scored, strict=False)]
        where = f"the sample {text} of length {n}"
        with calling(f"bayes of {where}"):
            best = task.bayes(text)
        with calling(f"oracle of {where}, which `has` allows"):
            known = best is None and type(task).oracle is not Task.oracle
            wanted = list(task.oracle(text)) if known else said
        if wanted != said:
            raise ValueError(f"{where} has the targets {said}, and its oracle says {wanted}")
        ids = {*text, *said} - {None}
        if not 0 <= min(ids) <= max(ids) < task.vocab():
            raise ValueError(f"{where}, with the targets {said}, has ids beyond its vocabulary")
        if not {*said} - {None} <= {*labels}:
            raise ValueError(f"{where} has the targets {said}, which are not all in {labels}")
        if scored[size:].any() or not scored.any():
            raise ValueError(f"{where} must have a scored token, and none in the padding")
        if best is not None:
            more, spread, term = _surprise(task, best, targets[:size], scored[:size], where)
            excess, variance, most = excess + more, variance + spread, max(most, term)
    below = ERRORS * math.sqrt(variance) + 1e-6
    if not -below <= excess <= below + 2 * most:
        raise ValueError(
            f"in {len(batch.tokens)} samples of length {n} -ln p of the targets by "
            f"{type(task).__name__}.bayes is {excess:+.3g} nats from the entropy of p, and the "
            f"standard error is {math.sqrt(variance):.3g}: the targets are not drawn from p"
        )


def _surprise(
    task: Task, best: np.ndarray, targets: np.ndarray, scored: np.ndarray, where: str
) -> tuple[float, float, float]:
    # (sum of -ln p(target) - entropy(p), sum of the variances of -ln p under p, greatest -ln
    # p(target)) over the scored tokens of a sample, in nats; ValueError unless `best` has a
    # distribution p for each.
    best = np.asarray(best, np.float64)
    if best.shape != (len(targets), task.vocab()):
        wanted = [len(targets), task.vocab()]
        raise ValueError(f"{where}: bayes must give an array of {wanted}, got {list(best.shape)}")
    p, chosen = best[scored], best[scored, targets[scored]]
    if not (np.abs(p.sum(-1) - 1) < 1e-6).all() or not (p >= 0).all() or not (chosen > 0).all():
        raise ValueError(f"{where}: a row of bayes must be a distribution, p > 0 at the target")
    nats = -np.log(p, out=np.zeros_like(p), where=p > 0)
    entropy = (p * nats).sum(-1)
    surprise, variance = -np.log(chosen), (p * nats**2).sum() - (entropy**2).sum()
    return float((surprise - entropy).sum()), float(variance), float(surprise.max())
