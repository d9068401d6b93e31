"""One process at a time writes into a folder: an advisory lock of the operating system on a file in
it, which the kernel frees when the process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

import filelock

from pe_jax.errors import Held, concerning

FILE = ".lock"
PATIENCE = 1.0  # seconds: `is_locked` of another process holds the lock for an instant


@contextlib.contextmanager
def locked(folder: Path, wait: bool = False) -> Iterator[None]:
    """Holds a folder, and makes it if it is not there. Held if another process holds it; with
    `wait` it is waited for, with a message.
    """
    with concerning(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(folder / FILE)
        try:
            lock.acquire(timeout=PATIENCE)
        except filelock.Timeout:
            at_work = f"{folder} is being written by another process"
            if not wait:
                raise Held(f"{at_work}: wait for it, or stop it") from None
            logging.getLogger("pe_jax").info("%s: waiting for it", at_work)
            lock.acquire()
    with lock:
        lock.release()  # of the two acquisitions one is left
        (folder / FILE).touch()  # its age is that of the process at work
        yield


def is_locked(folder: Path) -> bool:
    """Whether a process holds a folder; False where the folder cannot be read."""
    if not (folder / FILE).exists():
        return False
    try:
        with filelock.FileLock(folder / FILE).acquire(timeout=0):
            return False
    except filelock.Timeout:
        return True
    except OSError:
        return False
