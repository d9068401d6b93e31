"""What `pe-jax sweep --dry_run` prints: the runs, their parameters and how long they will take."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from pe_jax import record
from pe_jax.commands.console import stdout
from pe_jax.errors import Refused
from pe_jax.report import labels
from pe_jax.report.sheet import Printed, Sheet, terminal
from pe_jax.report.words import count
from pe_jax.runs.folder import Folder
from pe_jax.runs.progress import duration
from pe_jax.runs.run import Run
from pe_jax.storage import records
from pe_jax.sweep import engine


def show(studies: Sequence[tuple[Run, ...]], workdir: Path, jobs: int) -> None:
    """Prints a row for each run, and how long the unfinished ones will take in all. A study is a
    run, or a run at each of several rates, of which one will be evaluated.
    """
    measured, times, finished = _measured(workdir), dict[str, float](), set[str]()
    runs = [run for study in studies for run in study]
    for study in studies:
        for run in study:
            folder = Folder.of(run.id, workdir)
            asked = None if len(study) > 1 else run.asked()
            if result := folder.answer(run.run.seeds, asked):
                finished.add(run.id)
                if result.seconds:
                    times[run.id] = result.seconds.total
            elif measured and run.train.steps:
                step, rest = measured
                left = sum(
                    run.train.steps - folder.last_step(group) * (group in folder.begun_groups)
                    for group in folder.groups(run.run.seeds)
                    for _ in group
                )
                times[run.id] = step * max(0, left) + rest * len(run.run.seeds) / len(study)
    names = labels.short(runs)
    rows = []
    for run in runs:
        row = (
            names[run.id],
            run.id,
            str(len(run.run.seeds)),
            str(run.train.steps),
            f"{run.parameters().total:,}",
            duration(times[run.id]) if run.id in times else "n/a",
            "finished" if run.id in finished else "to do",
        )
        rows.append(tuple(map(Printed, row)))
    columns = ("run", "id", "seeds", "steps", "parameters", "about", "state")
    spare = ("id", "parameters", "seeds", "steps")
    out = stdout()
    out.print(*terminal([Sheet("", columns, (("", tuple(rows)),), spare=spare)]))
    left = [run.id for run in runs if run.id not in finished]
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
                step, seeds = result.train.ms_per_step / 1e3, len(result.seeds)
                rest = result.seconds.total / seeds - step * result.train.steps
                found.append((step, max(0.0, rest)))
    return (median(s for s, _ in found), median(r for _, r in found)) if found else None


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
