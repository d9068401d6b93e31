"""What a sweep asks of an engine: to start commands, to tell how they ended, and to stop them.

An engine knows nothing of runs that have finished, of retries or of what a folder holds: sweep.py
does, for all engines alike. The work directory is all that the commands share.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from pe_jax.runs.resources import Resources


class Command(NamedTuple):
    """A command that an engine starts."""

    command: list[str]
    environment: dict[str, str]
    """All its environment variables."""
    folder: Path
    """Its working directory."""
    log: Path
    """An absolute path; what the command prints is added to this file."""
    resources: Resources


class Exit(NamedTuple):
    """How a command has ended."""

    code: int
    """Its exit code; below 0 if it was killed: that of SIGKILL, number 9, is -9."""
    reason: str = ""
    """Why it was killed or could not be started, where the engine knows more than the code."""


@runtime_checkable
class Engine(Protocol):
    """A context: what it needs is started when it is entered, and ended when it is left."""

    def __enter__(self) -> Engine: ...

    def __exit__(self, *exception: object) -> None: ...

    def has_room(self, resources: Resources) -> bool:
        """Whether a task with these resources is to be submitted now, beside those at work."""
        ...

    def threads(self, resources: Resources, waiting: int) -> int:
        """The threads of a run that starts now while `waiting` others are still to be started."""
        ...

    def submit(self, id: str, command: Command) -> None:
        """Starts a task, now or as soon as it can."""
        ...

    def poll(self, seconds: float) -> dict[str, Exit]:
        """The tasks by their ids that have ended since the last call; returns after `seconds`, or
        as soon as one has ended.
        """
        ...

    def stop(self) -> None:
        """Sends SIGTERM to all tasks at work, drops those that have not started, and returns when
        they have ended.
        """
        ...


def start(command: Command, process_group: int | None = None) -> subprocess.Popen[bytes]:
    """The process of a task, on this machine. `process_group` is as in Popen."""
    with open(command.log, "ab") as log:
        return subprocess.Popen(
            command.command,
            stdout=log,
            stderr=log,
            env=command.environment,
            cwd=command.folder,
            process_group=process_group,
        )
