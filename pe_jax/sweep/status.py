"""How the runs of a work directory stand, from the folder alone.

A run is at work while a process holds the lock of its folder, and queued while a living sweep has
it in its queue; otherwise its state.json says how it ended. Where it does not, as after a kill at
the very beginning, the run was begun if config.json is there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

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
    """finished, running, starting, queued, stopped, failed, not begun, damaged or unreadable."""
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
    queue = read_queue(workdir)
    folders = [path for path in atomic.entries(workdir) if path.is_dir()]
    found = [standing for folder in folders if (standing := _standing(folder, queue))]
    names = labels.short(found)
    return [dataclasses.replace(standing, label=names[standing.id]) for standing in found]


def _standing(folder: Path, queue: Queue) -> Standing | None:
    """How the run of a folder stands; None if it is no run's folder."""
    locked = locks.is_locked(folder)  # before the result is read, which is written under the lock
    try:
        result = records.read(Result, folder / "result.json")
        about = result or records.read(Begun, folder / "config.json")
        about = about or records.read(Planned, folder / "queued.json")
        if about is None:
            return None
        state, reason = _state(folder, result, locked, queue)
        result = result if state == "finished" else None
        lines = [] if result else jsonl.read_lines(folder / "metrics.jsonl")
    except errors.Refused as error:
        return Standing(folder.name, folder.name, "damaged", reason=str(error))
    except OSError as error:
        return Standing(folder.name, folder.name, "unreadable", reason=errors.in_words(error))
    seeds = len(about.config["run"]["seeds"]) if "run" in about.config else None
    seconds = result.seconds.total if result and result.seconds else None
    done = _in_words(lines[-1], seeds) if lines else ""
    if locked:
        seconds = _age(folder / locks.FILE)
        silent = progress.duration(_age(folder / "metrics.jsonl")) if done else ""
        done = f"{done}, {silent} ago" if done else "compiling"
    loss = result.train.loss if result else _newest(lines, "loss")
    valid = result.train.valid if result else _newest(lines, "valid")
    numbers = seeds, progress.mean(loss), progress.mean(valid), seconds
    return Standing(about.label, folder.name, state, done, *numbers, reason, about.config)


def _state(folder: Path, result: Result | None, locked: bool, queue: Queue) -> tuple[str, str]:
    """(state, reason) of a run, as in Standing. A run that has a result is not finished while it is
    to give another one, or where it has failed to.
    """
    if locked:
        waited = folder.name in queue.waiting
        return "running", "a sweep waits for the process that holds it" if waited else ""
    if folder.name in queue.waiting:
        return "queued", ""
    if folder.name in queue.started:
        return "starting", ""
    written = records.state_of(folder)
    if written and written.stage in (Stage.FAILED, Stage.STOPPED):
        log = folder / "log.txt"
        told = f" ({log})" if written.stage is Stage.FAILED and log.exists() else ""
        return written.stage.value, written.reason + told
    if written and written.stage is Stage.RUNNING:
        return "stopped", "without a last word"
    if result:
        return "finished", divergence(result.diverged)
    return "stopped" if (folder / "config.json").exists() else "not begun", ""


def _in_words(line: dict[str, Any], seeds: int | None) -> str:
    """How far a run is by the newest line of its metrics.jsonl."""
    if "evaluated" in line:
        return f"evaluating {line['evaluated'] / line['of']:.0%}"
    step = f"step {line['step']}/{line['of']}"
    if len(line["seeds"]) != seeds:
        step = f"seed {', '.join(map(str, line['seeds']))}: {step}"
    return f"rate {line['part'] + 1}: {step}" if "part" in line else step


def _newest(lines: list[dict[str, Any]], name: str) -> list[float | None]:
    """The numbers of the newest line that has them, one a seed."""
    return next((line[name] for line in reversed(lines) if name in line), [])


def _age(path: Path) -> float:
    """Seconds since a file or the entries of a folder changed; 0 where it has just gone."""
    try:
        return max(0.0, time.time() - path.stat().st_mtime)
    except FileNotFoundError:
        return 0.0


# The queues of sweeps, with the runs that each still has to do. While a sweep lives it holds the
# lock of a folder of its own in <workdir>/.sweeps/; a folder whose lock no process holds was left
# by a sweep that was killed.

SWEEPS = ".sweeps"
QUEUE = "queue.json"


class Queue(msgspec.Struct):
    """The ids of the runs that sweeps still have to do."""

    waiting: set[str] = msgspec.field(default_factory=set)
    """Their process is still to be started."""
    started: set[str] = msgspec.field(default_factory=set)
    """Their process is at work, or about to be."""


@contextlib.contextmanager
def kept_queue(workdir: Path) -> Iterator[Callable[[Iterable[str], Iterable[str]], None]]:
    """Gives a function that writes down which runs wait in this sweep and which it has started. The
    folders of sweeps that were killed are deleted.
    """
    sweeps = workdir / SWEEPS
    own = sweeps / uuid.uuid4().hex

    def put(waiting: Iterable[str], started: Iterable[str]) -> None:
        queue = Queue({*waiting}, {*started})
        atomic.write(own / QUEUE, msgspec.json.encode(queue).decode())

    for path in sweeps.glob(f"*/{QUEUE}"):  # which is written under the lock
        if not locks.is_locked(path.parent):
            shutil.rmtree(path.parent, ignore_errors=True)
    try:
        with locks.locked(own):
            yield put
    finally:
        shutil.rmtree(own, ignore_errors=True)
        with contextlib.suppress(OSError):  # another sweep is there
            sweeps.rmdir()


def read_queue(workdir: Path) -> Queue:
    """The queues of all sweeps that live in the work directory now, as one."""
    every = Queue()
    for path in (workdir / SWEEPS).glob(f"*/{QUEUE}"):
        if locks.is_locked(path.parent):
            with contextlib.suppress(OSError, msgspec.DecodeError):  # it has ended, or is damaged
                queue = msgspec.json.decode(path.read_bytes(), type=Queue)
                every.waiting |= queue.waiting
                every.started |= queue.started
    return every
