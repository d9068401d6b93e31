"""Locks on folders. A lock belongs to a process and is gone when it ends, however it ends.

The locks are those of flock(2), which Windows lacks: locking is refused there, and everything that
needs no lock works.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from pe_jax.errors import Refused


@contextlib.contextmanager
def locked(folder: Path, wait: bool = False) -> Iterator[None]:
    """Holds a folder for this process alone, and makes it if it is not there.

    Refused if another process holds it, unless `wait`; and where the system has no such locks.
    """
    fcntl = _fcntl()
    if fcntl is None:
        raise Refused(
            f"{folder} cannot be locked on this system, and what writes it needs a lock: use "
            "Linux, macOS or, on Windows, the Windows Subsystem for Linux"
        )
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as file:
        if wait:
            fcntl.flock(file, fcntl.LOCK_EX)
        elif not _take(fcntl, file):
            raise Refused(f"{folder} is being written by another process: wait for it, or stop it")
        yield


def is_locked(folder: Path) -> bool:
    """Whether a process holds a folder; False where the system has no such locks."""
    fcntl = _fcntl()
    if fcntl is None:
        return False
    try:
        with open(folder / ".lock") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _take(fcntl: Any, file: IO[str]) -> bool:
    """Locks an open file at once, if no process holds it. Tried three times: `is_locked` of another
    process holds the lock for a moment.
    """
    for pause in (0.05, 0.05, 0.0):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(pause)
    return False


def _fcntl() -> Any:
    """The module `fcntl`; None on Windows, which has none."""
    try:
        import fcntl
    except ImportError:
        return None
    return fcntl
