"""Folders that one process holds: the lock goes with the process, however it ends."""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Iterator
from pathlib import Path

from pe_jax.errors import Refused


@contextlib.contextmanager
def locked(folder: Path, wait: bool = False, shared: bool = False) -> Iterator[None]:
    """Holds a folder for this process, alone or with others that share it; the lock goes with the
    process, however it ends.

    A folder that another process holds is waited for, or else Refused.
    """
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as file:
        if wait:
            fcntl.flock(file, kind)
        for patience in (0.05, 0.05, 0.0):  # is_locked holds it for a moment
            try:
                fcntl.flock(file, kind | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not patience:
                    raise Refused(
                        f"{folder} is being written by another process: wait for it, or stop it"
                    ) from None
                time.sleep(patience)
        yield


def is_locked(folder: Path) -> bool:
    """Whether some process holds a folder."""
    try:
        with open(folder / ".lock") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
