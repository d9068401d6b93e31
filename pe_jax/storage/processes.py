"""Processes by names that other processes can read, on this host or another, and whether the one of
such a name has ended.
"""

from __future__ import annotations

import functools
import os
import socket
from pathlib import Path

import msgspec

PLACE = ("host", "machine", "namespace")
"""The fields in which processes agree that see each other's numbers."""


class Process(msgspec.Struct, frozen=True):
    """A process as others know it."""

    host: str
    machine: str
    """The host's machine-id, since names of hosts may collide."""
    namespace: str
    """Its process namespace: containers of one host number their processes each for itself."""
    boot: str
    number: int
    started: str | None
    """When it started, in clock ticks since the boot; None where that is not known."""

    def __str__(self) -> str:
        return f"process {self.number} on {self.host}"


@functools.cache
def _system() -> dict[str, str]:
    """What all processes beside this one share; "" for what the system does not tell."""
    boot = _content("/proc/sys/kernel/random/boot_id")
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    return {
        "host": socket.gethostname(),
        "machine": _content("/etc/machine-id") or boot,
        "namespace": namespace,
        "boot": boot,
    }


def this() -> Process:
    """This process."""
    number = os.getpid()
    return Process(**_system(), number=number, started=_started(number))


def has_ended(process: Process) -> bool | None:
    """Whether a process has ended; None where that cannot be told from here."""
    here = this()
    if any(getattr(here, name) != getattr(process, name) for name in PLACE):
        return None
    if here.boot != process.boot:
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
    if started is None or process.started is None:
        return None
    return started != process.started


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
