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
    loss, valid = (at_end(lines, train.steps, seeds, name) for name in ("loss", "valid"))
    return record.Training(
        length=train.length,
        steps=train.steps,
        tokens=None if task.reads_text else task.size(train.length),
        labels=None if task.reads_text else task.labels(),
        loss=tuple(map(loss.get, seeds)) if loss else (),
        ms_per_step=ms,
        tokens_per_second=ms and train.batch * mean_size(task, train) / ms * 1e3,
        valid=tuple(map(valid.get, seeds)) if valid else (),
        progress=tuple(filter(None, (_progress(seed, lines) for seed in seeds))),
    )


def at_end(lines: Lines, steps: int, seeds: Sequence[int], name: str) -> dict[int, float | None]:
    """The number of each seed that has one in the line of the last step; None: it is not finite."""
    numbers = {
        seed: value
        for line in lines
        if line.get("step") == steps and name in line
        for seed, value in zip(line["seeds"], line[name], strict=True)
    }
    return {seed: numbers[seed] for seed in seeds if seed in numbers}


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
