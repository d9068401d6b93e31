"""Processes by names that other processes can read, and whether the process of a name has ended."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import msgspec


class Process(msgspec.Struct, frozen=True):
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


def this() -> Process:
    """This process."""
    host, boot = socket.gethostname(), _content("/proc/sys/kernel/random/boot_id")
    machine = _content("/etc/machine-id") or boot
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    number = os.getpid()
    return Process(host, f"{host} {machine} {namespace}", boot, number, _started(number))


def has_ended(process: Process) -> bool | None:
    """Whether a process has ended; None where that cannot be told from this process's place."""
    observer = this()
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
