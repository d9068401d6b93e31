"""How the runs of a work directory stand, from the folder alone: running while a process holds the
lock, else by state.json.
"""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

from pe_jax import errors
from pe_jax.record import Begun, Planned, Result, Stage, divergence
from pe_jax.report import labels
from pe_jax.runs import progress
from pe_jax.storage import atomic, jsonl, locks, records


@dataclasses.dataclass(frozen=True)
class Standing:
    """How one run stands."""

    label: str
    id: str
    state: str
    """finished, running, stopped, failed, not begun, damaged or unreadable."""
    done: str = ""
    """How far it is, in words."""
    seeds: int | None = None
    loss: float | None = None
    """The newest training loss, nats a token, mean over seeds."""
    valid: float | None = None
    """The newest bits per byte of validation text at the training length, mean over seeds."""
    seconds: float | None = None
    """How long it took in all; of a run at work, how long ago its process began."""
    reason: str = ""
    """Why it is not at work; of a finished run, which of its seeds diverged."""
    config: dict[str, Any] = dataclasses.field(default_factory=dict)


def standings(workdir: Path) -> list[Standing]:
    """How every run of the work directory stands, in the order of their ids; none if the directory
    is not there. OSError if it cannot be read.
    """
    folders = [path for path in atomic.entries(workdir) if path.is_dir()]
    runs = [run for folder in folders if (run := _standing(folder))]
    names = labels.names(runs)
    return [dataclasses.replace(run, label=names[run.id]) for run in runs]


def _standing(folder: Path) -> Standing | None:
    locked = locks.is_locked(folder)  # before the result is read, which is written under the lock
    try:
        result = records.read(Result, folder / "result.json")
        about = result or records.read(Begun, folder / "config.json")
        about = about or records.read(Planned, folder / "queued.json")
        if about is None:
            return None
        state, reason = ("running", "") if locked else _state(folder, result)
        result = result if state == "finished" else None
        lines = [] if result else jsonl.read_lines(folder / "metrics.jsonl")
    except errors.Refused as error:
        return Standing(folder.name, folder.name, "damaged", reason=str(error))
    except OSError as error:
        return Standing(folder.name, folder.name, "unreadable", reason=errors.in_words(error))
    seconds = result.seconds.total if result and result.seconds else None
    done = progress.describe(lines[-1]) if lines else ""
    if locked:
        seconds = _age(folder / locks.FILE)
        silent = progress.duration(_age(folder / "metrics.jsonl")) if done else ""
        done = f"{done}, {silent} ago" if done else "compiling"
    return Standing(
        about.label,
        folder.name,
        state,
        done,
        len(about.config["run"]["seeds"]) if "run" in about.config else None,
        progress.mean(result.train.loss if result else _newest(lines, "loss")),
        progress.mean(result.train.valid if result else _newest(lines, "valid")),
        seconds,
        reason,
        about.config,
    )


def _state(folder: Path, result: Result | None) -> tuple[str, str]:
    # A run that has a result is not finished where it has failed to give another one.
    written = records.state_of(folder)
    reason = written.reason if written else ""
    match written and written.stage:
        case Stage.FAILED:
            log = folder / "log.txt"
            return "failed", f"{reason} ({log})" if log.exists() else reason
        case Stage.STOPPED:
            return "stopped", reason
        case Stage.RUNNING:
            return "stopped", "without a last word"
    if result:
        return "finished", divergence(result.diverged)
    return "stopped" if (folder / "config.json").exists() else "not begun", ""


def _newest(lines: list[dict[str, Any]], name: str) -> list[float | None]:
    # the numbers of the newest line that has them, one a seed
    return next((line[name] for line in reversed(lines) if name in line), [])


def _age(path: Path) -> float:
    # seconds since a file changed; 0 where it has just gone
    try:
        return max(0.0, time.time() - path.stat().st_mtime)
    except FileNotFoundError:
        return 0.0
