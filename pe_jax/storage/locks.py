"""Locks on folders, for the processes of one host and of hosts that share a file system.

The lock of a folder is the folder `.held/` in it with one file, the claim of the process that has
the lock. A claim has a name that is never used again, and says which process made it; a thread
touches it every BEAT seconds, its heartbeat.

- Taking is the renaming of a folder that has the claim in it already to `.held`. That is one step,
  on NFS, too, and succeeds only where `.held` is empty or not there: one of many processes gets it.
- The claim of a dead process is deleted by its name: nobody can delete a newer claim by mistake.
- A process of this host counts as dead once it has ended: its lock is free at once, and the living
  keep theirs. A process elsewhere counts as dead if its heartbeat has not changed for SILENT
  seconds of the observer's monotonic clock: no clock is compared with another.
- A process that was suspended and lost its lock goes on when it wakes up. It calls `check` before
  it writes, which raises TakenOver. A file that it was in the middle of writing it still finishes,
  which does no harm where files are replaced as a whole.

flock(2) is not used: many shared file systems do not carry it from host to host. Nor is the package
filelock 4: where a file system cannot exchange two names, as NFS, the lease of a dead process stays
for ever, and a suspended process loses its lease to others of its own host.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from pe_jax.errors import Held, Refused, concerning
from pe_jax.storage import atomic

BEAT = 10.0  # seconds from one touch of a claim to the next
SILENT = 60.0  # seconds without one after which a process of another host counts as dead
POLL = 0.1
HELD = ".held"
TAKEN = (errno.EEXIST, errno.ENOTEMPTY)
GONE = (errno.ENOENT, errno.ESTALE)

Check = Callable[[], None]
"""check(): raises TakenOver unless this process still has the lock."""

_beats: dict[Path, list[tuple[int, float]]] = {}
"""The last two heartbeats of each claim that is watched: time of modification in ns, and when this
process has seen it first by its monotonic clock.
"""


class TakenOver(Refused):
    """The lock is another process's now: nothing may be written any more."""


@contextlib.contextmanager
def locked(
    folder: Path, wait: bool = False, say: Callable[[str], None] = lambda message: None
) -> Iterator[Check]:
    """Holds a folder for this process alone, and makes it if it is not there.

    Held if another process holds it, unless `wait`. `say` gets a message where it is waited for, or
    where it takes up to SILENT seconds to see whether a process of another host is alive.
    """
    with concerning(folder):
        claim = _take(folder, wait, say)
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(BEAT) and _touch(claim):
            pass

    def check() -> None:
        if not _touch(claim):
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
    said = False
    while (claim := _claim(folder)) is None:
        if holder := _holder(folder):
            process, alive = holder
            if alive and not wait:
                raise Held(
                    f"{folder} is being written by another process ({process}): wait for it, or "
                    "stop it"
                )
            if not said:
                silent = f"it is taken over if that gives no sign of life for {SILENT:.0f} s"
                say(f"{folder} is held by {process}: {'waiting for it' if alive else silent}")
                said = True
        time.sleep(POLL)
    return claim


def _claim(folder: Path) -> Path | None:
    """A claim on a folder that nobody holds; None if somebody has one."""
    name = uuid.uuid4().hex
    draft, held = folder / f"{HELD}.{name}", folder / HELD
    draft.mkdir(parents=True)
    try:
        (draft / name).write_bytes(msgspec.json.encode(this_process()))
        os.replace(draft, held)
    except BaseException as error:
        shutil.rmtree(draft, ignore_errors=True)
        if isinstance(error, OSError) and error.errno in TAKEN:
            return None
        raise
    return held / name


def _holder(folder: Path) -> tuple[str, bool | None] | None:
    """Who holds a folder, in words, and True if it is known to be alive, None if it is watched for
    signs of life; None if nobody holds it. The claim of a process that has died is removed.
    """
    for claim in atomic.entries(folder / HELD):
        watched = time.monotonic()  # before it is read: this process may be suspended in between
        try:
            with open(claim, "rb") as file:  # for NFS to ask the server
                text, beat = file.read(), os.fstat(file.fileno()).st_mtime_ns
        except OSError as error:
            if error.errno in GONE:
                continue
            raise
        try:
            process = msgspec.json.decode(text, type=Holder)
        except msgspec.DecodeError:  # a power failure has emptied it, say
            process, ended = "another process", None
        else:
            ended = has_ended(process)
        alive = _beats_on(claim, beat, watched) if ended is None else not ended
        if alive is not False:
            return str(process), alive
        _remove(claim)
    return None


def _beats_on(claim: Path, beat: int, watched: float) -> bool | None:
    """Whether the process of a claim, whose newest heartbeat is `beat`, is alive: False after
    SILENT seconds without another one, None if no other one was seen yet.
    """
    beats = _beats.setdefault(claim, [])
    if not beats or beats[-1][0] != beat:
        _beats[claim] = beats = [*beats[-1:], (beat, time.monotonic())]
    elif watched - beats[-1][1] > SILENT:
        return False
    return True if len(beats) == 2 else None


def _touch(claim: Path) -> bool:
    """Touches a claim; False if it has gone. Another error is of the file system, and passes."""
    try:
        os.utime(claim)
    except OSError as error:
        return error.errno not in GONE
    return True


def _remove(claim: Path) -> None:
    """Deletes a claim, if it is there, and the folder of claims, if it is empty then."""
    _beats.pop(claim, None)
    try:
        claim.unlink(missing_ok=True)
        claim.parent.rmdir()
    except OSError as error:
        if error.errno not in (*GONE, *TAKEN):
            raise


class Holder(msgspec.Struct, frozen=True):
    """A process as others know it."""

    host: str
    place: str
    """The processes of a place see each other's numbers: the host's name and machine-id, since
    names of hosts may collide, and its process namespace, since containers number for themselves.
    """
    boot: str
    number: int
    started: str | None
    """When it started, in clock ticks since the boot; None where the system does not tell."""

    def __str__(self) -> str:
        return f"process {self.number} on {self.host}"


def this_process() -> Holder:
    """This process."""
    host, boot = socket.gethostname(), _content("/proc/sys/kernel/random/boot_id")
    machine = _content("/etc/machine-id") or boot
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    number = os.getpid()
    return Holder(host, f"{host} {machine} {namespace}", boot, number, _started(number))


def has_ended(process: Holder) -> bool | None:
    """Whether a process has ended; None where that cannot be told from this process's place."""
    observer = this_process()
    if process.place != observer.place:
        return None
    if process.boot != observer.boot:
        return True
    if os.name != "posix":  # os.kill would end it
        return None
    try:
        os.kill(process.number, 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # it is another user's
        pass
    started = _started(process.number)
    return None if None in (started, process.started) else started != process.started


def _started(number: int) -> str | None:
    """When the process of this number started, "" if it has ended and its parent has not noticed;
    None if that is not known: /proc is not there, or hides it, or is of another namespace.
    """
    stat = _content(f"/proc/{number}/stat")
    if not stat or os.readlink("/proc/self") != str(os.getpid()):
        return None
    fields = stat.rpartition(")")[2].split()  # from the third on: the second may hold anything
    state, threads, started = fields[0], fields[17], fields[19]
    return "" if state in "ZX" and int(threads) <= 1 else started


def _content(path: str) -> str:
    """The text of a file; "" if it cannot be read."""
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
