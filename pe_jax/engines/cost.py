"""How long runs will take: from what finished runs of their work directory took, scaled by the
operations of the model; where there is none on this machine, from a timed matrix product.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pe_jax.engines import local
from pe_jax.errors import Refused
from pe_jax.evaluation.passes import plan
from pe_jax.metric import TextMetric, named
from pe_jax.model.config import LmConfig
from pe_jax.places import Scope
from pe_jax.record import Result
from pe_jax.runs import environment
from pe_jax.runs.layout import trained_groups
from pe_jax.runs.run import Run
from pe_jax.storage import records
from pe_jax.training.samples import mean_size

EFFICIENCY = 0.4  # the part of the matrix product's speed that small models reach
LOGIT = 60  # operations of one attention logit besides its products: masks, exponentials
COMPILE = 0.7  # seconds that a program takes to compile


class Estimate(NamedTuple):
    """What a run will take."""

    seconds: float
    like: str = ""
    """The id of the finished run that it is scaled from; "" if by the arithmetic of the model."""


class Work(NamedTuple):
    """How much a run computes."""

    trainings: int
    """Trainings of one seed at one rate."""
    trained: float
    """Operations of all their steps."""
    scored: float
    """Operations of the evaluation of all seeds."""
    groups: int
    """Compiled programs that train."""
    programs: int
    """Compiled programs that evaluate."""


class Likeness(NamedTuple):
    """What of two runs is compared."""

    spec: str
    lm: LmConfig
    tokens: int
    """That one seed trains on."""


def estimates(
    runs: Iterable[tuple[Run, Path, Result | None]], workdir: Path, jobs: int = 1
) -> list[Estimate]:
    """The estimate of each run, with `jobs` at a time on this machine; a finished one's is what it
    took. Runs are given with their folders in the work directory, and their results.
    """
    threads = max(1, environment.cores() // jobs)

    @functools.cache
    def same() -> list[Result]:
        return [result for result in _finished(workdir) if _of_this_machine(result, threads)]

    @functools.cache  # a sweep of a thousand learning rates asks for one
    def nearest(like: Likeness) -> tuple[Run, Result] | None:
        return _nearest(like, same())

    def estimate(run: Run, folder: Path, result: Result | None) -> Estimate:
        if result and result.seconds:
            return Estimate(result.seconds.total, result.id)
        trained = {seed for group in trained_groups(folder) for seed in group}
        left = [seed for seed in run.run.seeds if seed not in trained]
        tokens = run.train.steps * run.train.batch * run.train.length
        like = Likeness(run.config["pe"]["spec"], run.lm, tokens)
        return _estimate(run, left, nearest(like), threads)

    return [estimate(*found) for found in runs]


def _nearest(like: Likeness, finished: list[Result]) -> tuple[Run, Result] | None:
    """The finished run that is most alike, with its result; None where there is none."""
    for result in sorted(finished, key=functools.partial(_distance, like)):
        try:
            return Run.of(result.config), result
        except (ValueError, TypeError, OSError):  # its encoding's file has gone, say
            continue
    return None


def _estimate(
    run: Run, seeds: Sequence[int], nearest: tuple[Run, Result] | None, threads: int
) -> Estimate:
    """What the run will take whose `seeds` are still to be trained."""
    work = _work(run, run.parameters().total, seeds)
    if nearest:
        other, result = nearest
        return Estimate(_scaled(work, other, result, threads), result.id)
    training = work.trained / _speed(threads) + 2 * work.groups * COMPILE
    return Estimate(training + _evaluating(work, threads))


def _evaluating(work: Work, threads: int) -> float:
    """Seconds of the evaluation by the arithmetic of the model."""
    return work.scored / _speed(threads) + work.programs * COMPILE


def _scaled(work: Work, other: Run, result: Result, threads: int) -> float:
    """The seconds of `work`, from what the other run took: the time of its training steps is scaled
    by their operations, that of compilation by the number of programs, that of its evaluation by
    the arithmetic of both.
    """
    assert result.seconds and result.parameters
    theirs = _work(other, result.parameters.total, other.run.seeds)
    steps = other.train.steps * theirs.trainings * (result.train.ms_per_step or 0.0) / 1e3
    steps = min(steps, result.seconds.train)
    return (
        (result.seconds.train - steps) * work.groups / theirs.groups
        + steps * work.trained / theirs.trained
        + result.seconds.evaluate * _evaluating(work, threads) / _evaluating(theirs, threads)
    )


def _finished(workdir: Path) -> Iterable[Result]:
    """The results of a work directory that tell their times and parameters. Where seeds diverged,
    training may have ended early.
    """
    for path in workdir.glob("*/result.json"):
        try:
            result = records.read(Result, path)
        except Refused:
            continue
        if result and result.seconds and result.parameters and not result.diverged:
            yield result


def _of_this_machine(result: Result, threads: int) -> bool:
    """Whether a run that starts now will have the device and the threads of that one."""
    if not (device := result.device):
        return False
    if local.accelerated():
        return device.platform != "cpu"
    return (device.platform, device.kind, device.threads) == ("cpu", _processor(), threads)


@functools.cache
def _processor() -> str:
    return environment.environment()["device"]["kind"]


def _distance(like: Likeness, result: Result) -> tuple[Any, ...]:
    """A sort key, the smaller the more alike a run and the finished one are: first by encodings,
    then by the model, then by how many tokens they train on.
    """
    config = result.config
    tokens = math.prod(config["train"][name] for name in ("steps", "batch", "length"))
    return (
        config["pe"]["spec"] != like.spec,
        sum(config["lm"].get(name) != value for name, value in vars(like.lm).items()),
        abs(math.log(max(tokens, 1) / like.tokens)),
        result.id,
    )


def _work(run: Run, size: int, left: Sequence[int]) -> Work:
    """What a run computes whose seeds have `size` parameters each, and of which those `left` are to
    be trained.
    """
    seeds, longest = len(run.run.seeds), max(run.eval.lengths)
    tokens = run.train.steps * run.train.batch * mean_size(run.task, run.train)
    assert run.eval.last is not None and run.eval.stride is not None  # they are resolved
    scope = Scope(longest, run.eval.targets, run.eval.last, run.eval.stride)
    ways = 1 + len(run.eval.swaps) + len(run.eval.variants) + len(run.eval.memory)
    scored = 0.0
    for length in run.eval.lengths:
        if run.task.reads_text:
            windows = sum(_windows(metric, length, scope) for metric in run.eval.metrics)
        else:
            windows, length = run.eval.samples, run.task.size(length)
        scored += ways * windows * length * _forward(run, size, length)
    programs = len(run.eval.lengths) * len(run.eval.metrics) * ways
    if not run.task.reads_text:  # lengths that are padded to one size share a program
        parts = plan(run.encodings, run.eval, run.train.length, run.task)
        programs = len({(part.swap, part.longest) for part in parts})
    training = 3 * tokens * _forward(run, size, run.task.size(run.train.length))
    tried = (len(run.train.rates) - 1) * len(run.run.choosing) if run.train.rates else 0
    trainings = len(left) + tried
    groups = len(run.run.groups(left)) + len(run.train.rates)
    return Work(trainings, trainings * training, seeds * scored, groups, programs)


@functools.cache
def _windows(metric: str, length: int, scope: Scope) -> int:
    """How many windows a metric scores at a length, in a text that is long enough."""
    return sum(1 for _ in named(metric, TextMetric).places([2**40], length, scope))


def _forward(run: Run, size: int, length: int) -> float:
    """Operations of the forward pass for each token of a window of `length` tokens."""
    keys = length / 2  # that a query sees in the mean
    return 2 * size + run.lm.layers * keys * (4 * run.lm.model + LOGIT * run.lm.heads)


@functools.cache
def _speed(threads: int) -> float:
    """Operations a second of a small model on `threads` of the cores, from the time of a float32
    product of two 1024 x 1024 matrices on all of them.
    """
    import jax
    import jax.numpy as jnp

    a = jnp.ones((1024, 1024))
    product = jax.jit(lambda a: a @ a)
    product(a).block_until_ready()
    begun = time.perf_counter()
    for _ in range(5):
        product(a).block_until_ready()
    whole = 5 * 2 * 1024**3 / (time.perf_counter() - begun)
    return EFFICIENCY * whole * threads / environment.cores()
