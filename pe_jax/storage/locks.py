"""Locks on folders, for the processes of one host and of hosts that share a file system.

The lock of a folder is the folder `.held/` in it, which holds one file, the claim of the process
that has the lock. The claim has a name that is never used again, and says which process made it;
a thread touches it every BEAT seconds, its heartbeat. flock(2) is not used, since many file systems
that hosts share do not carry it from host to host.

- The lock is taken by renaming a folder that has the claim in it already to `.held`. That is one
  step, on NFS, too, and succeeds only where `.held` is empty or not there: of any number of
  processes one gets the lock.
- The lock is taken away from a process that has died by deleting its claim, by name. What another
  process has claimed meanwhile has another name, so that nobody can delete it by mistake, however
  late he comes.
- A process of this host, boot and process namespace has died if there is none of its number, or one
  that started at another time. So a lock is free as soon as its process is killed. A lock from an
  earlier boot of this host is free, too. Hosts are told apart by their names together with
  /etc/machine-id, and containers of one host by their process namespaces.
- Of any other process, its heartbeat tells. It has died if the claim's time of modification has
  not changed for SILENT seconds by the observer's own monotonic clock. No clock is compared with
  another, so that wrong clocks, and clocks that are set back, do not matter. An observer must have
  watched for that long: `is_locked` never waits, and remembers what it saw when it was last asked.

A process that was suspended for longer than SILENT, and lost its lock to another host, goes on when
it wakes up. It therefore calls `check` before it writes, which raises TakenOver. The file that it
was writing when it was suspended it still finishes, which does no harm where files are replaced as
a whole. Processes of one host never take a lock from each other's living.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from pe_jax.errors import Refused, concerning
from pe_jax.storage import processes

BEAT = 10.0  # seconds from one touch of a claim to the next
SILENT = 60.0  # seconds without one after which a process of another host counts as dead
POLL = 0.1
HELD = ".held"
TAKEN = (errno.EEXIST, errno.ENOTEMPTY)
GONE = (errno.ENOENT, errno.ESTALE)

Check = Callable[[], None]
"""check(): raises TakenOver unless this process still has the lock."""


class TakenOver(Refused):
    """The lock is another process's now: nothing may be written any more."""


class Holder(NamedTuple):
    """Who holds a folder."""

    process: str
    """In words."""
    alive: bool
    """Whether it is known to be alive; else it is watched for signs of life."""


class Seen(NamedTuple):
    """What was last seen of a heartbeat."""

    beat: int
    """The claim's time of modification, ns."""
    since: float
    """When it was seen first, by time.monotonic()."""
    moved: bool
    """Whether it was another before."""


_seen: dict[Path, Seen] = {}


@contextlib.contextmanager
def locked(
    folder: Path, wait: bool = False, say: Callable[[str], None] = lambda message: None
) -> Iterator[Check]:
    """Holds a folder for this process alone, and makes it if it is not there.

    Refused if another process holds it, unless `wait`. Where it takes a while to see whether a
    process of another host is alive, up to SILENT seconds, `say` is told.
    """
    with concerning(folder):
        claim = _take(folder, wait, say)
    ended = threading.Event()

    def touch() -> bool:
        """Whether the claim was still there to be touched."""
        try:
            os.utime(claim)
        except OSError as error:
            return error.errno not in GONE
        return True

    def beat() -> None:
        while not ended.wait(BEAT) and touch():
            pass

    def check() -> None:
        if not touch():
            raise TakenOver(
                f"{folder} was taken over by another process, or deleted, while this one did not "
                "run: it stops, and leaves the folder as it is"
            )

    try:
        threading.Thread(target=beat, daemon=True).start()
        yield check
    finally:
        ended.set()
        _remove(claim)


def is_locked(folder: Path) -> bool:
    """Whether a process holds a folder; False where the folder cannot be read."""
    try:
        return _holder(folder) is not None
    except OSError:
        return False


def _take(folder: Path, wait: bool, say: Callable[[str], None]) -> Path:
    """This process's claim on a folder."""
    told = False
    while (claim := _claim(folder)) is None:
        if holder := _holder(folder):
            if holder.alive and not wait:
                raise Refused(
                    f"{folder} is being written by another process ({holder.process}): wait for "
                    "it, or stop it"
                )
            if not holder.alive and not told:
                say(
                    f"{folder} is held by {holder.process}: it is taken over if that gives no "
                    f"sign of life for {SILENT:.0f} s"
                )
                told = True
        time.sleep(POLL)
    return claim


def _claim(folder: Path) -> Path | None:
    """A claim on a folder that nobody holds; None if somebody has one."""
    name = uuid.uuid4().hex
    draft, held = folder / f"{HELD}.{name}", folder / HELD
    draft.mkdir(parents=True)
    try:
        (draft / name).write_bytes(msgspec.json.encode(processes.this()))
        os.replace(draft, held)
    except BaseException as error:
        shutil.rmtree(draft, ignore_errors=True)
        if isinstance(error, OSError) and error.errno in TAKEN:
            return None
        raise
    return held / name


def _holder(folder: Path) -> Holder | None:
    """Who holds a folder; None if nobody does. The claim of a process that has died is removed."""
    try:
        names = os.listdir(folder / HELD)
    except FileNotFoundError:
        return None
    for name in names:
        claim = folder / HELD / name
        if holder := _of(claim):
            return holder
        _remove(claim)
    return None


def _of(claim: Path) -> Holder | None:
    """Whose claim it is; None if that process has died or released it meanwhile."""
    asked = time.monotonic()  # before the claim is read: this process may be suspended in between
    try:
        with open(claim, "rb") as file:  # for NFS to ask the server
            text, beat = file.read(), os.fstat(file.fileno()).st_mtime_ns
    except OSError as error:
        if error.errno in GONE:
            return None
        raise
    try:
        process = msgspec.json.decode(text, type=processes.Process)
    except msgspec.DecodeError:  # of another release, say
        process, died = "another process", None
    else:
        died = processes.has_ended(process)
    if died is None:
        died = _is_silent(claim, beat, asked)
    return None if died else Holder(str(process), died is False)


def _is_silent(claim: Path, beat: int, asked: float) -> bool | None:
    """Whether the heartbeat of a claim, whose newest beat is `beat`, has stopped; None if it was
    not watched for long enough to tell.
    """
    last = _seen.get(claim)
    if last is None or last.beat != beat:
        _seen[claim] = Seen(beat, time.monotonic(), moved=last is not None)
        return False if last else None
    if asked - last.since > SILENT:
        return True
    return False if last.moved else None


def _remove(claim: Path) -> None:
    """Deletes a claim, if it is there, and the folder of claims, if it is empty then."""
    _seen.pop(claim, None)
    try:
        claim.unlink(missing_ok=True)
        claim.parent.rmdir()
    except OSError as error:
        if error.errno not in (*GONE, *TAKEN):
            raise
