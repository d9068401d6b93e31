"""Locks on folders. A lock belongs to a process and is gone when it ends, however it ends.

They are those of flock(2), which Windows lacks: locking is refused there, and everything that
needs no lock works.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pe_jax.errors import Refused


@contextlib.contextmanager
def locked(folder: Path, wait: bool = False, shared: bool = False) -> Iterator[None]:
    """Holds a folder for this process, alone, or `shared` with others that share it. The folder is
    made if it is not there.

    A folder that another process holds is waited for, or else Refused; so is every folder where
    the system has no such locks.
    """
    fcntl = _fcntl()
    if fcntl is None:
        raise Refused(
            f"{folder} cannot be locked on this system, and what writes it needs a lock: use "
            "Linux, macOS or, on Windows, the Windows Subsystem for Linux"
        )
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
    """Whether some process holds a folder; none does where the system has no such locks."""
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


def _fcntl() -> Any:
    """The module of these locks; None on Windows."""
    try:
        import fcntl
    except ImportError:
        return None
    return fcntl
