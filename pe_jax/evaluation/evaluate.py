"""Evaluation of trained models by every metric at every length and in every way: as trained, with
every swap, on every variant of the task, and with every segment memory.

    windows.py    cuts the text
    passes.py     lists the passes, and the jobs that compute them
    scorers.py    scores a job, by the programs of scoring.py

Evaluation text, samples and random positions are fixed, so every seed and encoding meets the same
ones.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from pe_jax.data.tokenizer import Tokenizer, Tokens
from pe_jax.encoding import Encoding
from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.passes import Key, Scored, missing_jobs, plan, work
from pe_jax.evaluation.scorers import TextScorer, score_samples, shared_windows
from pe_jax.evaluation.scoring import Models, Programs, target_nats
from pe_jax.evaluation.windows import Windows, windows
from pe_jax.metric import SampleMetric
from pe_jax.metrics import named
from pe_jax.model.config import LmConfig
from pe_jax.record import Curve
from pe_jax.task import Task
from pe_jax.training.device_memory import needed
from pe_jax.training.session import Session, Validate
from pe_jax.training.step import structure


def evaluate(
    models: Models,
    cuts: Mapping[tuple[str, int], Windows],
    config: EvalConfig,
    session: Session | None = None,
    threads: int = 1,
    known: Mapping[Key, Scored] | None = None,
) -> Generator[list[Scored], None, None]:
    """The scores of the models by a resolved config, pass by pass: on `cuts`, the windows of each
    metric and length, or where their task draws its samples on these.

    `threads` passes run at a time. After each the session's history gets a line, and the evaluation
    is interrupted when `session.stop` says so. A `known` score is not computed, and also serves
    ways that share its pass, whose scores come first.
    """
    session = session or Session()
    passes = plan(models.encodings, config, models.segment, models.task)
    shared, jobs = missing_jobs(passes, config, tuple(models.params), known or {})
    programs = Programs(models, config, session)
    if models.task.reads_text:
        scorer = TextScorer(programs, cuts)
        costs = scorer.works(jobs)
    else:
        scorer, width = functools.partial(score_samples, programs), models.encodings[0].dims.model
        of_job = ((job.part.length, len({replica for _, replica in job.ways})) for job in jobs)
        costs = [count * work(n, width) for n, count in of_job]
    pool = ThreadPoolExecutor(threads)
    try:
        every = (pool.map if threads > 1 else map)(scorer, jobs)
        yield shared
        for i, (job, scored) in enumerate(zip(jobs, every, strict=True), 1):
            keyed = ((one, job.ways[one.row.metric, one.row.replica]) for one in scored)
            yield [one.of(way) for one, ways in keyed for way in ways]
            session.history.add(evaluated=sum(costs[:i]), of=sum(costs))
            session.stop(lambda: None)
    finally:
        pool.shutdown(cancel_futures=True)


class Estimate(NamedTuple):
    """The time and memory of an evaluation of text, by one window that is timed."""

    seconds: float
    """Of all passes, with the compilation of their programs."""
    passes: int
    taken: float
    """Seconds of a window of the shortest length."""
    memory: int
    """Bytes of a pass of the longest windows, with the parameters."""


def estimate(
    models: Models,
    cuts: Mapping[tuple[str, int], Windows],
    config: EvalConfig,
    known: Mapping[Key, Scored],
) -> Estimate | None:
    """The estimate for `evaluate`, by the work that its progress counts; None where all is known.

    Compiling is measured at the longest length, with the encodings of the last pass.
    """
    passes = plan(models.encodings, config, models.segment, models.task)
    _, jobs = missing_jobs(passes, config, tuple(models.params), known)
    if not jobs:
        return None
    programs = Programs(models, config, Session())
    each = [(job.part, names) for job in jobs for names, _ in shared_windows(job)]
    least, most = config.lengths[0], config.lengths[-1]

    def call(length: int, encodings: Any) -> tuple[functools.partial, tuple[Any, ...]]:
        last = min(length, config.scope.last + 1)
        made = {"graphdef": models.graphdef, "encodings": encodings, "last": last}
        params, tokens = next(iter(programs.params.values())), np.zeros((1, length + 1), np.int32)
        return functools.partial(target_nats, **made), (params, tokens, np.int32(0))

    long, arguments = call(most, passes[-1].encodings)
    began = time.monotonic()
    memory = needed(long, *arguments)
    compiling = time.monotonic() - began
    short, arguments = call(least, passes[0].encodings)
    jax.block_until_ready(short(*arguments))
    began = time.monotonic()
    jax.block_until_ready(short(*arguments))
    taken = time.monotonic() - began
    whole = sum(TextScorer(programs, cuts).works(jobs))
    ratio = whole / work(least, models.encodings[0].dims.model)
    return Estimate(taken * ratio + compiling * len({*each}), len(each), taken, memory)


def cuts_of(
    documents: Sequence[np.ndarray], config: EvalConfig, tokenizer: Tokenizer
) -> dict[tuple[str, int], Windows]:
    """The windows of every metric at every length, and of one that `compares` also at
    eval.reference. Prompts that two metrics share are written once. ValueError where the text does
    not suffice.
    """
    cuts, written = dict[tuple[str, int], Windows](), dict[tuple[Any, int], Windows]()
    for name in config.metrics:
        metric = named(name)
        more = {config.reference or 0} if getattr(metric, "compares", "") else set()
        for length in sorted({*config.lengths, *more}):
            prompt = getattr(metric, "prompt", name), length
            if prompt not in written:
                written[prompt] = windows(documents, name, length, config, tokenizer)
            cuts[name, length] = dataclasses.replace(written[prompt], metric=metric)
    return cuts


def longest(curves: Iterable[Curve]) -> tuple[Curve, ...]:
    """Of each metric, replica and way, the curve of the longest length, which is the last; of
    samples and prompts the curves of all lengths, since each has its own depths.
    """
    kept = {}
    for curve in curves:
        alone = curve.length if isinstance(named(curve.metric), SampleMetric) else 0
        kept[curve.metric, curve.replica, curve.way, alone] = curve
    return tuple(kept.values())


# Validation: text or samples that are scored while a run trains

VALIDATED = 8192
"""Scored tokens of validation text, or tokens of samples: eight a sample where one is scored."""


def validation(
    lm: LmConfig,
    encodings: tuple[Encoding, ...],
    task: Task,
    text: Tokens,
    length: int,
    batch_tokens: int,
    mesh: Mesh | None,
) -> Validate | None:
    """Scores the validation text by the first metric of the task, or the samples of the split
    "valid" by `bits`, at the training length. None where the text is shorter than one window.
    """
    config, cuts = EvalConfig((length,), swaps=(), batch_tokens=batch_tokens), {}
    if task.reads_text:
        config, cuts = _text_windows(config, text, length, task)
        if not cuts:
            return None
    else:
        samples = max(1, VALIDATED // (8 if task.masks() else int(task.size(length))))
        config = dataclasses.replace(config, metrics=("bits",), samples=samples, split="valid")
        config = config.resolved(length, task=task)
    graphdef, _ = structure(lm, encodings)

    def validate(params: Any) -> list[float | None]:
        seeds, params = range(len(jax.tree.leaves(params)[0])), jax.device_get(params)
        each = {seed: jax.tree.map(lambda a, seed=seed: a[seed], params) for seed in seeds}
        models = Models(graphdef, each, encodings, {}, length, task)
        passes = evaluate(models, cuts, config, Session(mesh=mesh))
        value = {one.row.replica.number: one.row.value for part in passes for one in part}
        return [value[seed] for seed in seeds]

    return validate


# The evaluation of VALIDATED targets, or of half or a quarter of them and so on, and its windows;
# {} where the text has none.
def _text_windows(
    config: EvalConfig, text: Tokens, length: int, task: Task
) -> tuple[EvalConfig, dict[tuple[str, int], Windows]]:
    targets = VALIDATED
    while targets >= max(1, length // 2):
        fields = {"metrics": task.metrics[:1], "targets": targets}
        resolved = dataclasses.replace(config, **fields).resolved(length, task=task)
        with contextlib.suppress(ValueError):
            return resolved, cuts_of(text.splits["valid"], resolved, text.tokenizer)
        targets //= 2
    return config, {}
