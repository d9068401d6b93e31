"""Which runs the sweeps of a work directory still have to do, written down for `status` to read.

A sweep holds the lock of a folder of its own in <workdir>/.sweeps/ while it lives. A folder that no
process holds is left from a sweep that was killed, and does not count.
"""

from __future__ import annotations

import contextlib
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from pe_jax.storage import atomic, locks

FOLDER = ".sweeps"
FILE = "queue.json"


class Queue(msgspec.Struct):
    """Runs by their ids."""

    waiting: set[str] = msgspec.field(default_factory=set)
    """Those whose process is still to be started."""
    started: set[str] = msgspec.field(default_factory=set)
    """Those whose process is at work, or about to be."""


@contextlib.contextmanager
def kept(workdir: Path) -> Iterator[Callable[[Iterable[str], Iterable[str]], None]]:
    """Gives a function that writes down which runs wait in this sweep and which it has started. The
    folders of sweeps that were killed are deleted.
    """
    sweeps = workdir / FOLDER
    own = sweeps / uuid.uuid4().hex

    def put(waiting: Iterable[str], started: Iterable[str]) -> None:
        queue = Queue({*waiting}, {*started})
        atomic.write(own / FILE, msgspec.json.encode(queue).decode())

    for path in sweeps.glob(f"*/{FILE}"):  # which is written under the lock
        if not locks.is_locked(path.parent):
            shutil.rmtree(path.parent, ignore_errors=True)
    try:
        with locks.locked(own):
            yield put
    finally:
        shutil.rmtree(own, ignore_errors=True)
        with contextlib.suppress(OSError):  # another sweep is there
            sweeps.rmdir()


def read(workdir: Path) -> Queue:
    """The runs of all sweeps that are at work in the work directory now."""
    every = Queue()
    for path in (workdir / FOLDER).glob(f"*/{FILE}"):
        if locks.is_locked(path.parent):
            with contextlib.suppress(OSError, msgspec.DecodeError):  # it has ended, or is damaged
                queue = msgspec.json.decode(path.read_bytes(), type=Queue)
                every.waiting |= queue.waiting
                every.started |= queue.started
    return every
