"""What `pe-jax sweep --dry_run` prints: the runs, their parameters and how long they will take."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pe_jax import record
from pe_jax.commands.console import stdout
from pe_jax.engines import engine
from pe_jax.errors import Refused
from pe_jax.report import labels
from pe_jax.report.sheet import Printed, Sheet, terminal
from pe_jax.report.words import count
from pe_jax.runs.folder import Folder
from pe_jax.runs.progress import EVALUATION, Share, duration
from pe_jax.runs.run import Run
from pe_jax.storage import jsonl, records
from pe_jax.training import need


def show(runs: list[Run], workdir: Path, jobs: int) -> None:
    """Prints a row for each run, and how long those that have not finished will take in all."""
    results = {run.id: Folder.of(run.id, workdir).answer(run) for run in runs}
    left = {run.id: run for run in runs if not results[run.id]}
    step = _seconds_of_a_step(workdir)
    times = {
        run.id: step * steps * _left(run, workdir)
        for run in runs
        if step and (steps := run.train.steps * _trainings(run.run.seeds, run.train.rates))
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
    for run in runs:
        for doubt in run.advice:
            out.print(f"note: {names[run.id]}: {doubt}")
    for run in left.values():
        model = run.lm, run.encodings, run.train, run.task, len(run.run.groups(run.run.seeds)[0])
        if not run.run.mesh and (lacks := need.lacking(*model, None)):
            out.print(f"note: {names[run.id]}: on this machine {lacks}")
    todo = f"{count(len(runs), 'run')}, {len(left)} to do"
    out.print(f"{todo}: {_total([times.get(id) for id in left], jobs, workdir)}" if left else todo)


def _seconds_of_a_step(workdir: Path) -> float | None:
    """The median over the finished runs of a work directory of their seconds for a training step of
    one seed at one rate, compilation and evaluation included; None without such a run. A run with a
    diverged seed does not count: its training may have ended early.
    """
    found = []
    for path in workdir.glob("*/result.json"):
        with contextlib.suppress(Refused):  # a damaged record
            result = records.read(record.Result, path)
            if result and result.seconds and result.train.steps and not result.diverged:
                trainings = _trainings(result.seeds, result.rates)
                found.append(result.seconds.total / result.train.steps / trainings)
    return statistics.median(found) if found else None


def _trainings(seeds: Sequence[int], rates: Sequence[Any]) -> int:
    """How often a model is trained: for each seed, at each of the rates to choose from, if any."""
    return len(seeds) * max(1, len(rates))


def _left(run: Run, workdir: Path) -> float:
    """The part of a run's time that is left after the training in its folder: that of evaluation at
    least.
    """
    trained, share = 0.0, Share(run.run.seeds, 0.0)
    for line in jsonl.read_lines(Folder.of(run.id, workdir).metrics):
        if "loss" in line:
            trained = share.add(line)
    return max(1 - trained, EVALUATION)


def _total(seconds: list[float | None], jobs: int, workdir: Path) -> str:
    """How long the runs left to do take, `jobs` at a time, by the estimate of each."""
    jobs, known = engine.at_a_time(jobs, len(seconds)), [time for time in seconds if time]
    if not known:
        return f"time n/a: no finished run in {workdir} tells it"
    others = len(seconds) - len(known)
    without = f", without {count(others, 'run')} of no steps" if others else ""
    return (
        f"about {duration(max(sum(known) / jobs, max(known)))} with {jobs} at a time, by the "
        f"median time of a step and seed in the finished runs of {workdir}{without}"
    )
