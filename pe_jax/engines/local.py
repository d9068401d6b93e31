"""The engine of one machine: a process for each task, some at a time, which share the cores."""

from __future__ import annotations

import glob
import subprocess
import time
from collections.abc import Callable, Sequence

from pe_jax.engines.engine import Command, Exit, start
from pe_jax.runs.environment import cores
from pe_jax.runs.resources import Resources

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
    """Up to `jobs` processes at a time, as in at_a_time, of as many runs as are `wanted`.

    Of their resources it reads nothing: the runs share the cores, and see every device.
    """

    def __init__(self, jobs: int, wanted: Sequence[Resources], say: Callable[[str], None]):
        del say
        self.jobs = at_a_time(jobs, len(wanted))
        self.last_round = len(wanted) % self.jobs or self.jobs
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Local:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def has_room(self, resources: Resources) -> bool:
        return len(self.processes) < self.jobs

    def threads(self, resources: Resources, waiting: int) -> int:
        """As many as each run of its round can have."""
        last = waiting < self.last_round
        return max(1, cores() // (self.last_round if last else self.jobs))

    def submit(self, id: str, command: Command) -> None:
        # In a group of its own, so that Ctrl-C reaches it through `stop` alone.
        self.processes[id] = start(command, process_group=0)

    def poll(self, seconds: float) -> dict[str, Exit]:
        end = time.monotonic() + seconds
        while not (codes := self._ended()) and time.monotonic() < end:
            time.sleep(LOOK_SECONDS)
        for id in codes:
            del self.processes[id]
        return {id: Exit(code) for id, code in codes.items()}

    def _ended(self) -> dict[str, int]:
        codes = {id: process.poll() for id, process in self.processes.items()}
        return {id: code for id, code in codes.items() if code is not None}

    def stop(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait()
