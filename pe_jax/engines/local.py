"""A sweep on this machine: a process for each run, some at a time, which share the cores.

The state of every run is in its folder, so that a process that dies takes no other with it.
"""

from __future__ import annotations

import collections
import contextlib
import glob
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from pe_jax import record
from pe_jax.engines import progress, queues
from pe_jax.errors import Refused
from pe_jax.record import Stage
from pe_jax.runs import layout
from pe_jax.runs.environment import cores
from pe_jax.runs.folder import answer, find
from pe_jax.storage import history, locks, records, state

POLL_SECONDS = 0.3
RETRIES = 3  # of a run whose process is killed, by the kernel for its memory, say
WAITING = "waiting for a run that another process holds"


def at_a_time(jobs: int, runs: int) -> int:
    """How many of `runs` runs go at a time: `jobs`; or where that is 0, one if there is an
    accelerator, else one for each core.
    """
    return min(jobs or (1 if accelerated() else cores()), runs)


def accelerated() -> bool:
    """Whether a GPU or TPU is there, without taking hold of it."""
    return any(glob.glob(pattern) for pattern in ("/dev/nvidia[0-9]*", "/dev/accel*", "/dev/kfd"))


def run_all(
    runs: dict[str, Any], workdir: Path, jobs: int, command: str, environment: dict[str, str]
) -> dict[str, str] | None:
    """Does the runs that have not finished: {id: reason} of those that failed; None when a signal
    stopped the sweep.

    `runs` are Runs by their ids; `jobs` is as in at_a_time; `command` is what the records give as
    reproducing them; `environment` are the environment variables of the processes.
    """
    folders = {id: find(run, workdir) for id, run in runs.items()}
    done = [id for id, run in runs.items() if answer(run, folders[id])]
    if done:
        print(f"{len(done)} of {len(runs)} runs were finished already: they are not run again")
    if len(done) == len(runs):
        return {}
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    name = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
    view = progress.View(name, len(runs), len(done))
    with queues.kept(workdir) as put, view:
        workers = _Workers(runs, folders, done, view, jobs, command, environment, put)
        try:
            workers.queue()
            while workers.waiting or workers.running:
                workers.step()
                time.sleep(POLL_SECONDS)
        except KeyboardInterrupt:
            view.say("stopping: the runs at work save their state")
            workers.stop()
            return None
    return workers.failed


class _Workers:
    """Up to `jobs` processes, each a run; a run that another process holds is waited for."""

    def __init__(self, runs, folders, done, view, jobs, command, environment, put):
        self.runs, self.view, self.folders, self.put = runs, view, folders, put
        self.waiting = [id for id in runs if id not in done]
        self.running: dict[str, subprocess.Popen] = {}
        self.ended, self.failed = len(done), {}
        self.killed: collections.Counter[str] = collections.Counter()
        self.share = progress.EVALUATION
        self.command, self.environment = command, environment
        self.jobs = at_a_time(jobs, len(self.waiting))
        self.last_round = len(self.waiting) % self.jobs or self.jobs

    def queue(self) -> None:
        """Writes down what is to be run: `status` reads it, and the processes do."""
        for id in self.waiting:
            folder = self.folders[id]
            run = self.runs[id]
            planned = record.Planned(label=run.label, config=run.config)
            records.write(folder / "queued.json", planned)
            if not _written(folder):  # else it says how an earlier attempt has ended
                state.put(folder, Stage.QUEUED)
        self.put(self.waiting, self.running)

    def step(self) -> None:
        """Takes note of what ended, starts what can be started, shows where the others are."""
        before = [*self.waiting], [*self.running]
        for id, process in list(self.running.items()):
            if process.poll() is not None:
                del self.running[id]
                self._end(id, process.returncode)
        for id in list(self.waiting):
            if len(self.running) == self.jobs:
                break
            if not locks.is_locked(self.folders[id]):
                self.waiting.remove(id)
                if answer(self.runs[id], self.folders[id]):
                    self._end(id)
                else:
                    self.running[id] = self._start(id)
        if before != ([*self.waiting], [*self.running]):
            self.put(self.waiting, self.running)
        states = {id: self._progress(id) for id in self.running}
        text = "; ".join(f"{self.runs[id].label}  {words}" for id, (_, words) in states.items())
        done = self.ended + sum(share for share, _ in states.values())
        self.view.update(done, text or WAITING * bool(self.waiting))

    def _start(self, id: str) -> subprocess.Popen:
        folder = self.folders[id]
        # Without the working directory on the path, unless it is on this process's own: a user's
        # file there could hide a module.
        path = [] if os.getcwd() in sys.path else ["-P"]
        command = [sys.executable, *path, "-m", "pe_jax.commands", "run"]
        command += [f"--config=replay.py:{folder / 'queued.json'}", f"--workdir={folder.parent}"]
        command += [f"--command={self.command}"]
        environment = {"NPROC": str(self._threads(id))} | self.environment
        state.put(folder, Stage.QUEUED)
        # In a group of its own, so that Ctrl-C reaches it through `stop` alone.
        with open(folder / "log.txt", "a") as log:
            print(f"started by a sweep at {state.now()}", file=log, flush=True)
            return subprocess.Popen(
                command, stdout=log, stderr=log, env=environment, process_group=0
            )

    def _threads(self, id: str) -> int:
        """The run's share of the cores: those that it was begun with, since their number decides
        its last bits, else as many as each run of its round can have.
        """
        for folder in layout.folders(self.folders[id]):
            with contextlib.suppress(Refused):  # the run will tell
                begun = records.read(record.Begun, folder / "config.json")
                if begun and begun.device:
                    return begun.device.threads
        last = len(self.waiting) < self.last_round
        return max(1, cores() // (self.last_round if last else self.jobs))

    def _end(self, id: str, code: int = 0) -> None:
        folder, label = self.folders[id], self.runs[id].label
        result = answer(self.runs[id], folder)
        if not result and locks.is_locked(folder):  # another process was the first to take it
            self.waiting.append(id)
            return
        if not result and code < 0 and self.killed[id] < RETRIES:
            self.killed[id] += 1
            self.view.say(f"{label}: killed by signal {-code}; it goes on")
            self.waiting.append(id)
            return
        self.ended += 1
        if result and result.seconds:
            self.share = result.seconds.evaluate / max(result.seconds.total, 1e-9)
            self.view.say(f"{label}: {progress.duration(result.seconds.total)}")
        if result:
            return
        self.failed[id] = _reason(folder, code)
        self.view.say(f"{label}: failed")

    def _progress(self, id: str) -> tuple[float, str]:
        """(how much of the run is done, from 0 to 1; what it does now) by its metrics.jsonl."""
        share = progress.Share(len(self.runs[id].run.seeds), self.share)
        lines = history.read_lines(self.folders[id] / "metrics.jsonl")
        done = 0.0
        for line in lines:
            done = share.add(line)
        return done, progress.describe(lines[-1]) if lines else "compiling"

    def stop(self) -> None:
        """Tells the runs at work to save their state and end, and waits for that."""
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            process.wait()


def _written(folder: Path) -> record.State | None:
    """What state.json says; None if it is not there or damaged."""
    try:
        return state.get(folder)
    except Refused:
        return None


def _reason(folder: Path, code: int) -> str:
    """Why a run has no result, by its state.json. Where that gives no reason, it is the signal that
    ended the process or the last line of log.txt, and it is written to state.json.
    """
    written = _written(folder)
    if written and written.stage is Stage.FAILED:
        return written.reason
    if written and written.stage is Stage.STOPPED:
        return f"stopped {written.reason}"
    lines = (folder / "log.txt").read_text(errors="replace").strip().splitlines()
    reason = f"killed by signal {-code}" if code < 0 else lines[-1]
    state.put(folder, Stage.FAILED, reason)
    return reason
