"""What `pe-jax sweep --dry_run` prints: the runs, their parameters and how long they will take."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from pe_jax import record
from pe_jax.engines import cost, local
from pe_jax.engines.progress import duration
from pe_jax.report import labels
from pe_jax.report.words import count
from pe_jax.runs.folder import answer, find_all
from pe_jax.runs.run import Run
from pe_jax.training import need


def show(runs: list[Run], workdir: Path, jobs: int) -> None:
    """Prints a row for each run, and how long those that have not finished will take in all."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    folders = find_all(runs, workdir)
    results = {run.id: answer(run, folders[run.id]) for run in runs}
    left = {run.id: run for run in runs if not results[run.id]}
    jobs = local.at_a_time(jobs, max(1, len(left)))
    found = [(run, folders[run.id], results[run.id]) for run in runs]
    estimates = dict(zip(results, cost.estimates(found, workdir, jobs), strict=True))
    names = labels.names(map(_begun, runs))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for name in ("run", "id", "seeds", "steps", "parameters", "about", ""):
        table.add_column(name, overflow="fold")
    for run in runs:
        size = f"{run.parameters().total:,}"
        row = (names[run.id], folders[run.id].name, len(run.run.seeds), run.train.steps, size)
        done = "" if run.id in left else "finished"
        table.add_row(*map(str, row), duration(estimates[run.id].seconds), done)
    Console(width=None if sys.stdout.isatty() else 140).print(table)
    for run in runs:
        for doubt in run.advice:
            print(f"note: {names[run.id]}: {doubt}")
    for run in left.values():
        model = run.lm, run.encodings, run.train, run.task, len(run.run.groups(run.run.seeds)[0])
        if not run.run.mesh and (lacks := need.lacking(*model, None)):
            print(f"note: {names[run.id]}: on this machine {lacks}")
    print(f"{count(len(runs), 'run')}, {_total([estimates[id] for id in left], jobs)}")


def _begun(run: Run) -> record.Begun:
    """The run as its config.json will have it, without what only its text tells."""
    return record.Begun(
        id=run.id,
        label=run.label,
        config=run.config,
        seeds=run.run.seeds,
        corpus=record.Corpus(source=run.data.source, hash=""),
        tokenizer=record.Vocabulary(spec=run.data.tokenizer),
    )


def _total(left: Sequence[cost.Estimate], jobs: int) -> str:
    """How long the runs left to do take, `jobs` at a time, and what the estimate rests on."""
    seconds = [estimate.seconds for estimate in left]
    total = max(sum(seconds) / jobs, max(seconds, default=0.0))
    text = f"{len(left)} to do: about {duration(total)} with {jobs} at a time on this machine"
    if not left:
        return text
    known = sum(bool(estimate.like) for estimate in left)
    earlier = "what earlier runs of this folder took"
    arithmetic = "the arithmetic of the model and a timed matrix product"
    if known in (0, len(left)):
        return f"{text}, by {earlier if known else arithmetic}"
    return f"{text}: {known} by {earlier}, {len(left) - known} by {arithmetic}"
