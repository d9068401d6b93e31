"""What metrics.jsonl tells of training, for the record."""

from __future__ import annotations

import statistics
from typing import Any

from pe_jax import record
from pe_jax.runs.run import Run
from pe_jax.training.samples import mean_size


def training(run: Run, lines: list[dict[str, Any]]) -> record.Training:
    """What training was and cost, from metrics.jsonl; None where lines of it are missing."""
    lines = [line for line in lines if "loss" in line]
    ends = [line for line in lines if line["step"] == run.train.steps]
    ms = statistics.median(line["ms_per_step"] for line in lines) if lines else None
    return record.Training(
        length=run.train.length,
        steps=run.train.steps,
        tokens=None if run.task.reads_text else run.task.size(run.train.length),
        labels=None if run.task.reads_text else run.task.labels(),
        loss=_by_seed(run, ends, "loss"),
        ms_per_step=ms,
        tokens_per_second=ms and run.train.batch * mean_size(run.task, run.train) / ms * 1e3,
        valid=_by_seed(run, ends, "valid"),
        progress=tuple(filter(None, (_progress(seed, lines) for seed in run.run.seeds))),
    )


def seconds(lines: list[dict[str, Any]]) -> float:
    """Seconds of the training steps of these lines, compilation not counted."""
    before: dict[tuple[int, ...], int] = {}
    total = 0.0
    for line in lines:
        if "loss" in line:
            seeds = tuple(line["seeds"])
            steps = (line["step"] - before.get(seeds, 0)) * len(seeds)
            total += steps * line["ms_per_step"] / 1e3
            before[seeds] = line["step"]
    return total


def valid(run: Run, lines: list[dict[str, Any]]) -> dict[int, float | None]:
    """Bits per byte of validation text of each seed of the run at the end of its training; None
    where the lines do not have it.
    """
    ends = [line for line in lines if line.get("step") == run.train.steps]
    return dict.fromkeys(run.run.seeds) | dict(
        zip(run.run.seeds, _by_seed(run, ends, "valid"), strict=False)
    )


def _by_seed(run: Run, lines: list[dict[str, Any]], name: str) -> tuple[float | None, ...]:
    """The number of each seed of the run in these lines; () where none has it."""
    held = {
        seed: value
        for line in lines
        if name in line
        for seed, value in zip(line["seeds"], line[name], strict=True)
    }
    return tuple(held.get(seed) for seed in run.run.seeds) if held else ()


def _progress(seed: int, lines: list[dict[str, Any]]) -> record.Progress | None:
    """How the training of a seed went, from its lines; None if validation text was not scored."""
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
