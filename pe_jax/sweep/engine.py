"""Engines start commands, report how they ended, and stop them: `Local` on this machine, `Ray`
(ray.py) on a cluster.

An engine knows nothing of finished runs, retries or folders: queue.py does, for all engines alike.
The work directory is all that the commands share. Entered as a context, an engine starts what it
needs itself.
"""

from __future__ import annotations

import glob
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from pe_jax.runs.resources import Resources, cores


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


LOOK_SECONDS = 0.02  # between two looks at the processes


def at_a_time(jobs: int, runs: int) -> int:
    """How many of `runs` runs go at a time: `jobs`; or where that is 0, one if there is an
    accelerator, else one for each core.
    """
    return min(jobs or (1 if accelerated() else cores()), runs)


def accelerated() -> bool:
    """Whether a GPU or TPU is there, without taking hold of it."""
    return any(glob.glob(pattern) for pattern in ("/dev/nvidia[0-9]*", "/dev/accel*", "/dev/kfd"))


class Local:
    """Up to `jobs` processes at a time, as in at_a_time, of so many `runs`, whatever resources they
    ask for: the runs share the cores, and see every device.
    """

    def __init__(self, jobs: int, runs: int):
        self.jobs = at_a_time(jobs, runs)
        self.last_round = runs % self.jobs or self.jobs
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Local:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def has_room(self, resources: Resources) -> bool:
        """Whether a task with these resources is to be submitted now."""
        return len(self.processes) < self.jobs

    def threads(self, resources: Resources, waiting: int) -> int:
        """The threads of a run that starts now while `waiting` others are still to be started: as
        many as each run of its round can have.
        """
        last = waiting < self.last_round
        return max(1, cores() // (self.last_round if last else self.jobs))

    def submit(self, id: str, command: Command) -> None:
        """Starts a task, now or as soon as it can."""
        # In a group of its own, so that Ctrl-C reaches it through `stop` alone.
        self.processes[id] = start(command, process_group=0)

    def poll(self, seconds: float) -> dict[str, Exit]:
        """The tasks that have ended since the last call, by their ids; returns after `seconds`, or
        as soon as one has ended.
        """
        end = time.monotonic() + seconds
        while True:
            codes = {id: process.poll() for id, process in self.processes.items()}
            ended = {id: Exit(code) for id, code in codes.items() if code is not None}
            if ended or time.monotonic() >= end:
                break
            time.sleep(LOOK_SECONDS)
        for id in ended:
            del self.processes[id]
        return ended

    def stop(self) -> None:
        """Sends SIGTERM to running tasks, drops waiting ones, and returns when all have ended."""
        for process in self.processes.values():
            process.terminate()
        try:
            for process in self.processes.values():
                process.wait()
        except KeyboardInterrupt:
            for process in self.processes.values():
                process.kill()
            raise
