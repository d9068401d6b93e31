"""What the sweeps of a work directory have before them, written down for `status` to read.

A sweep holds the folder <workdir>/.sweeps/<process> while it lives, so that what a killed one has
left there is known to be of the past.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from pe_jax.storage import atomic, locks

FOLDER = ".sweeps"
FORGOTTEN = 60.0  # seconds after which a folder that no process holds is a dead sweep's


class Queue(NamedTuple):
    """Ids of runs."""

    waiting: set[str]
    """A process is to be started for each."""
    started: set[str]
    """Their processes are at work, or about to be."""


@contextlib.contextmanager
def kept(workdir: Path) -> Iterator[Callable[[Iterable[str], Iterable[str]], None]]:
    """A function that writes down which runs wait in this sweep and which it has started."""
    sweeps = workdir / FOLDER
    own = sweeps / str(os.getpid())
    for folder in sweeps.glob("*"):
        if time.time() - folder.stat().st_mtime > FORGOTTEN and not locks.is_locked(folder):
            shutil.rmtree(folder, ignore_errors=True)

    def put(waiting: Iterable[str], started: Iterable[str]) -> None:
        queue = {"waiting": list(waiting), "started": list(started)}
        atomic.write(own / "queue.json", json.dumps(queue))

    try:
        with locks.locked(own):
            yield put
    finally:
        shutil.rmtree(own, ignore_errors=True)
        with contextlib.suppress(OSError):  # another sweep is there
            sweeps.rmdir()


def read(workdir: Path) -> Queue:
    """Of all sweeps that hold the work directory now."""
    found = Queue(set(), set())
    for folder in (workdir / FOLDER).glob("*"):
        if locks.is_locked(folder) and (queue := atomic.read(folder / "queue.json")):
            found.waiting.update(queue["waiting"])
            found.started.update(queue["started"])
    return found
