"""Which runs the sweeps of a work directory still have to do, written down for `status` to read.

A sweep holds the lock of a folder of its own in <workdir>/.sweeps/ while it lives. A folder that no
process holds is left from a sweep that was killed, and does not count.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from pe_jax.errors import Refused
from pe_jax.storage import atomic, locks

FOLDER = ".sweeps"
FORGOTTEN = 60.0  # seconds after which a folder that no process holds is deleted


class Queue(NamedTuple):
    """Runs by their ids."""

    waiting: set[str]
    """Those whose process is still to be started."""
    started: set[str]
    """Those whose process is at work, or about to be."""


@contextlib.contextmanager
def kept(workdir: Path) -> Iterator[Callable[[Iterable[str], Iterable[str]], None]]:
    """Gives a function that writes down which runs wait in this sweep and which it has started."""
    sweeps = workdir / FOLDER
    own = sweeps / uuid.uuid4().hex

    def put(waiting: Iterable[str], started: Iterable[str]) -> None:
        _tidy(sweeps)
        queue = {"waiting": list(waiting), "started": list(started)}
        atomic.write(own / "queue.json", json.dumps(queue))

    try:
        with locks.locked(own):
            yield put
    finally:
        shutil.rmtree(own, ignore_errors=True)
        with contextlib.suppress(OSError):  # another sweep is there
            sweeps.rmdir()


def _tidy(sweeps: Path) -> None:
    """Deletes the folders of sweeps that were killed."""
    for folder in sweeps.glob("*"):
        with contextlib.suppress(FileNotFoundError):  # that sweep has just ended
            age = time.time() - folder.stat().st_mtime
            if age > FORGOTTEN and not locks.is_locked(folder):
                shutil.rmtree(folder, ignore_errors=True)


def read(workdir: Path) -> Queue:
    """The runs of all sweeps that are at work in the work directory now."""
    every = Queue(set(), set())
    for folder in (workdir / FOLDER).glob("*"):
        if locks.is_locked(folder):
            queue = _read(folder)
            every.waiting.update(queue.waiting)
            every.started.update(queue.started)
    return every


def _read(folder: Path) -> Queue:
    """What the sweep of this folder has written down; nothing where that is damaged."""
    try:
        written = atomic.read(folder / "queue.json")
        return Queue(set(written["waiting"]), set(written["started"]))
    except (Refused, TypeError, KeyError):
        return Queue(set(), set())
