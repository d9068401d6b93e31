"""What `pe-jax sweep --dry_run` prints: the runs, their parameters and how long they will take."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from pe_jax import record
from pe_jax.commands.console import stdout
from pe_jax.errors import Refused
from pe_jax.report import labels
from pe_jax.report.sheet import Printed, Sheet, terminal
from pe_jax.report.words import count
from pe_jax.runs.folder import Folder
from pe_jax.runs.progress import Share, duration
from pe_jax.runs.run import Run
from pe_jax.storage import jsonl, records
from pe_jax.sweep import engine


def show(runs: list[Run], workdir: Path, jobs: int) -> None:
    """Prints a row for each run, and how long those that have not finished will take in all."""
    results = {
        run.id: Folder.of(run.id, workdir).answer(run.run.seeds, run.asked()) for run in runs
    }
    left = {run.id: run for run in runs if not results[run.id]}
    measured = _measured(workdir)
    times = {
        run.id: _time(run, Folder.of(run.id, workdir), *measured)
        for run in runs
        if measured and run.train.steps
    }
    for id, result in results.items():
        if result and result.seconds:
            times[id] = result.seconds.total
    names = labels.short(runs)
    columns = ("run", "id", "seeds", "steps", "parameters", "about", "state")
    rows = []
    for run in runs:
        size = f"{run.parameters().total:,}"
        about = duration(times[run.id]) if run.id in times else "n/a"
        state = "to do" if run.id in left else "finished"
        row = (names[run.id], run.id, len(run.run.seeds), run.train.steps, size, about, state)
        rows.append(tuple(Printed(str(cell)) for cell in row))
    spare = ("id", "parameters", "seeds", "steps")
    out = stdout()
    out.print(*terminal([Sheet("", columns, (("", tuple(rows)),), spare=spare)]))
    todo = f"{count(len(runs), 'run')}, {len(left)} to do"
    out.print(f"{todo}: {_total([times.get(id) for id in left], jobs, workdir)}" if left else todo)


def _measured(workdir: Path) -> tuple[float, float] | None:
    """(seconds of a training step of one seed, seconds of all else for one seed), the medians over
    the finished runs of a work directory; None without such a run. A run with a diverged seed does
    not count: its training may have ended early.
    """
    found = []
    for path in workdir.glob("*/result.json"):
        with contextlib.suppress(Refused):  # a damaged record
            result = records.read(record.Result, path)
            if result and result.seconds and result.train.ms_per_step and not result.diverged:
                step = result.train.ms_per_step / 1e3
                steps = result.train.steps * _trainings(result.seeds, result.rates)
                rest = max(0.0, result.seconds.total - step * steps) / len(result.seeds)
                found.append((step, rest))
    return (median(s for s, _ in found), median(r for _, r in found)) if found else None


def _trainings(seeds: Sequence[int], rates: Sequence[Any]) -> int:
    """How often a model is trained: for each seed, at each of the rates to choose from, if any."""
    return len(seeds) * max(1, len(rates))


def _time(run: Run, folder: Folder, step: float, rest: float) -> float:
    """Seconds that are left of a run, by those of a step and of all else for one seed."""
    trained, share, finished = 0.0, Share(run.run.seeds, 0.0), folder.result()
    for line in jsonl.read_lines(folder.metrics):
        if "loss" in line:
            trained = share.add(line)
    steps = run.train.steps * _trainings(run.run.seeds, run.train.rates) * (1 - trained)
    more = {*run.run.seeds}.difference(finished.seeds if finished else ())
    return step * steps + rest * len(more or run.run.seeds)


def _total(seconds: list[float | None], jobs: int, workdir: Path) -> str:
    """How long the runs left to do take, `jobs` at a time, by the estimate of each."""
    jobs, known = engine.at_a_time(jobs, len(seconds)), [time for time in seconds if time]
    if not known:
        return f"time n/a: no finished run in {workdir} tells it"
    others = len(seconds) - len(known)
    without = f", without {count(others, 'run')} of no steps" if others else ""
    return (
        f"about {duration(max(sum(known) / jobs, max(known)))} with {jobs} at a time, by the "
        f"median times in the finished runs of {workdir}{without}"
    )
