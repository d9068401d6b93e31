"""Statistics of training, from the lines of metrics.jsonl."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from pe_jax import record
from pe_jax.task import Task
from pe_jax.training.config import TrainConfig
from pe_jax.training.samples import mean_size

Lines = Sequence[Mapping[str, Any]]


def training(lines: Lines, train: TrainConfig, task: Task, seeds: Sequence[int]) -> record.Training:
    """The part `train` of a record; None where lines are missing."""
    lines = [line for line in lines if "loss" in line]
    ms = statistics.median(line["ms_per_step"] for line in lines) if lines else None
    last = [line for line in lines if line["step"] == train.steps]
    return record.Training(
        length=train.length,
        steps=train.steps,
        tokens=None if task.reads_text else task.size(train.length),
        labels=None if task.reads_text else task.labels(),
        loss=_by_seed(last, "loss", seeds),
        ms_per_step=ms,
        tokens_per_second=ms and train.batch * mean_size(task, train) / ms * 1e3,
        valid=_by_seed(last, "valid", seeds),
        progress=tuple(filter(None, (_progress(seed, lines) for seed in seeds))),
    )


def _by_seed(lines: Lines, name: str, seeds: Sequence[int]) -> tuple[float | None, ...]:
    # The number of each seed in these lines, () where none has one; None: it is not finite.
    pairs = (zip(line["seeds"], line[name], strict=True) for line in lines if name in line)
    numbers = {seed: number for pair in pairs for seed, number in pair if seed in seeds}
    return tuple(map(numbers.get, seeds)) if numbers else ()


def _progress(seed: int, lines: Lines) -> record.Progress | None:
    # None if validation text was not scored
    step, loss, valid, since = [], [], [], []
    for line in lines:
        if seed not in line["seeds"]:
            continue
        row = line["seeds"].index(seed)
        since.append(line["loss"][row])
        if "valid" in line:
            step.append(line["step"])
            loss.append(None if None in since else statistics.fmean(since))
            valid.append(line["valid"][row])
            since = []
    if not step:
        return None
    return record.Progress(seed=seed, step=tuple(step), loss=tuple(loss), valid=tuple(valid))
