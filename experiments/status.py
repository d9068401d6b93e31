"""How the runs of a work directory stand, from the folder alone: what `sweep --status` prints.

A run is at work while a process holds its folder. It is queued while a sweep holds the work
directory and has put it in its queue since its log last grew; a sweep that queues a run which
another process holds waits for it.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from experiments import cli
from pe_jax import atomic, errors, history, locks

STARTED = "experiments.sweep: started "  # the first line of every attempt in a log.txt
FILES = ("queued.json", "config.json", "result.json")


@dataclasses.dataclass(frozen=True)
class Standing:
    """One run: `done` says how far it is, `seconds` what it took or, at work, has taken since it
    was taken up; `reason` says why it is not at work.
    """

    label: str
    id: str
    state: str
    done: str = ""
    seeds: int | None = None
    loss: float | None = None
    seconds: float | None = None
    reason: str = ""


def show(workdir: Path) -> int:
    """Prints the table of a work directory's runs; a folder without runs is a user's mistake."""
    from rich.console import Console

    from pe_jax import words

    found = standings(workdir)
    if not found:
        missing = "" if workdir.is_dir() else ": there is no such folder"
        return cli.fail(
            "sweep",
            f"no runs in {str(workdir)!r}{missing}; --workdir=DIR names the folder of a sweep",
        )
    out = Console(width=None if sys.stdout.isatty() else 140, highlight=False, markup=False)
    out.print(_table(found, wide=out.width > 110))
    count = Counter(run.state for run in found)
    states = ", ".join(f"{n} {state}" for state, n in count.items())
    out.print(f"{words.count(len(found), 'run')}: {states}", soft_wrap=True)
    for run in found:
        if run.reason:
            out.print(f"{run.state}: {run.label}: {run.reason}", soft_wrap=True)
    return 0


def standings(workdir: Path) -> list[Standing]:
    """Every run of the folder, by its id; none if the folder is not there."""
    sweeping = locks.is_locked(workdir)
    folders = {path.parent for name in FILES for path in workdir.glob(f"*/{name}")}
    return [_standing(folder, sweeping) for folder in sorted(folders)]


def last_word(folder: Path) -> str:
    """The last line of a run's log.txt, "" if there is none."""
    try:
        lines = (folder / "log.txt").read_text(errors="replace").strip().splitlines()
    except FileNotFoundError:
        return ""
    return lines[-1] if lines else ""


def why(folder: Path) -> str:
    """What the log of a run that failed ends with."""
    return last_word(folder).removeprefix("experiments.run: ")


def _standing(folder: Path, sweeping: bool) -> Standing:
    locked = locks.is_locked(folder)  # before the result is looked for: it is written under it
    try:
        result = atomic.read(folder / "result.json")
        about = result or atomic.read(folder / "config.json") or atomic.read(folder / "queued.json")
    except errors.Refused as error:
        return Standing(folder.name, folder.name, "damaged", reason=str(error))
    if about is None:  # taken away meanwhile
        return Standing(folder.name, folder.name, "gone")
    state, reason = ("finished", "") if result else _state(folder, locked, sweeping)
    lines = history.read_lines(folder / "metrics.jsonl")
    seeds = len(about["config"]["run"]["seeds"])
    seconds = result["seconds"]["total"] if result else None
    done = "" if result or not lines else _done(lines[-1], seeds)
    if locked and not result:
        seconds = _age(folder / ".lock")
        done = f"{done}, {_ago(folder / 'metrics.jsonl')}" if done else "compiling"
    loss = result["train"]["loss"] if result else _loss(lines)
    return Standing(about["label"], folder.name, state, done, seeds, _mean(loss), seconds, reason)


def _state(folder: Path, locked: bool, sweeping: bool) -> tuple[str, str]:
    """(state, why it is not at work) of a run that has no result."""
    queued, last = folder / "queued.json", last_word(folder)
    if locked:
        waited = sweeping and _newer(queued, folder / ".lock")
        return "running", "a sweep waits for the process that holds it" if waited else ""
    if sweeping and _newer(queued, folder / "log.txt"):
        return "queued", ""
    if sweeping and last.startswith(STARTED):
        return "starting", ""
    if last.startswith("experiments.run: "):
        return "failed", f"{why(folder)} ({folder / 'log.txt'})"
    if last.startswith("stopped by"):
        return "stopped", last.partition(",")[0].removeprefix("stopped ")
    if not (folder / "config.json").exists():
        return "not begun", ""
    return "stopped", "without a last word" if last else ""


def _done(line: dict[str, Any], seeds: int) -> str:
    if "evaluated" in line:
        return f"evaluating {line['evaluated'] / line['of']:.0%}"
    step = f"step {line['step']}/{line['of']}"
    if len(line["seeds"]) == seeds:
        return step
    return f"seed {', '.join(map(str, line['seeds']))}: {step}"


def _loss(lines: list[dict[str, Any]]) -> list[float | None]:
    return next((line["loss"] for line in reversed(lines) if "loss" in line), [])


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _newer(path: Path, other: Path) -> bool:
    """Whether `path` is there and was written after `other`."""
    return path.exists() and (not other.exists() or path.stat().st_mtime > other.stat().st_mtime)


def _age(path: Path) -> float:
    return max(0.0, time.time() - path.stat().st_mtime)


def _ago(path: Path) -> str:
    from experiments import console

    return f"{console.duration(_age(path))} ago"


def _table(found: list[Standing], wide: bool):
    """The runs; where there is little room, the id, which begins as the label does, names them."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from experiments import console

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for name in (*(["run"] if wide else []), "id", "state", "done"):
        table.add_column(name, overflow="fold")
    for name in ("seeds", "loss", "time"):
        table.add_column(name, justify="right", no_wrap=True)
    for run in found:
        row = (
            *([run.label] if wide else []),
            run.id,
            run.state,
            run.done,
            "" if run.seeds is None else str(run.seeds),
            "" if run.loss is None else f"{run.loss:.3f}",
            "" if run.seconds is None else console.duration(run.seconds),
        )
        table.add_row(*map(Text, row))
    return table
