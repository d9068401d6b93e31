"""A sweep: the queue of its runs, carried out by an engine; or a shard of it, where several
launchers that know nothing of each other, such as the tasks of a SLURM array, do every n-th run
each.

Everything that all engines share is here: which runs have finished, which wait, how far they are,
which are tried again after a kill, and why the others have failed. The state of every run is in its
folder, so that a process that dies takes no other with it.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pe_jax import record
from pe_jax.errors import Held, Refused, concerning, nearest
from pe_jax.record import Stage
from pe_jax.report import labels
from pe_jax.runs import progress
from pe_jax.runs.folder import Folder, starved
from pe_jax.runs.resources import Resources
from pe_jax.storage import locks, records
from pe_jax.sweep import ray, status
from pe_jax.sweep.engine import Command, Engine, Exit, Local

POLL_SECONDS = 0.3
RETRIES = 3  # of a run whose process is killed, by the kernel for its memory, say
WAITING = "waiting for a run that another process holds"
CHANGED = (
    "it was carried out as another run, since a file of an encoding or a task, or the model that "
    "it starts from, has changed since the sweep began: give the same command again"
)
OTHERWISE = (
    "its result is no longer what was asked for: a file of a metric or a swap has changed or gone "
    "meanwhile, or another command has asked it for other seeds, scores or rates. Give the same "
    "command again"
)
ENGINES = ("local", "ray")
Make = Callable[[Sequence[Resources], Callable[[str], None]], Engine]
"""make(resources, say): the engine for runs with these resources; `say` tells the user."""


def choose(name: str, jobs: int, address: str) -> Make:
    """What makes the engine of this name, for up to `jobs` runs at a time, at the `address` of a
    cluster. Refused for an unknown name, an engine that is not installed, or an address that the
    engine does not take.
    """
    if name not in ENGINES:
        known = ", ".join(ENGINES)
        raise Refused(f"unknown engine {name!r}{nearest(name, ENGINES)} Known: {known}.")
    if name == "ray":
        ray.check_installed()
        return functools.partial(ray.Ray, address, jobs)
    if address:
        raise Refused(f"--address={address} is for --engine=ray, which joins a cluster there")
    return lambda wanted, say: Local(jobs, len(wanted))


def run_all(
    runs: dict[str, Any],
    folders: dict[str, Folder],
    make: Make,
    command: str,
    environment: dict[str, str],
) -> dict[str, str] | None:
    """Does the runs that have not finished: {id: reason} of those that failed; None when a signal
    stopped the sweep.

    `runs` are Runs by their ids, and `folders` their folders, in one work directory. `command` is
    what the records say reproduces them, `environment` the environment variables of the processes.
    """
    done = [id for id, run in runs.items() if _done(run, folders[id])]
    if done:
        print(f"{len(done)} of {len(runs)} runs were finished already: they are not run again")
    if len(done) == len(runs):
        return {}
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    name = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
    view = progress.Bar(name, len(runs), len(done))
    with status.kept_queue(folders[next(iter(runs))].path.parent) as put, view:
        sweep = _Sweep(runs, folders, done, view, command, environment, put)
        try:
            sweep.queue()
            with make([runs[id].resources for id in sweep.waiting], view.say) as engine:
                return sweep.carried_out(engine)
        except KeyboardInterrupt:
            return None


class _Sweep:
    """The runs that are still to be done; one that another process holds is waited for."""

    def __init__(self, runs, folders, done, view, command, environment, put):
        self.runs, self.view, self.folders, self.put = runs, view, folders, put
        self.names = labels.short(runs.values())
        self.waiting = [id for id in runs if id not in done]
        self.running: dict[str, progress.Watch] = {}
        self.ended, self.failed = len(done), {}
        self.killed: collections.Counter[str] = collections.Counter()
        self.command, self.environment = command, environment

    def queue(self) -> None:
        """Writes down what is to be run: `status` reads it, and the processes do."""
        for id in self.waiting:
            folder = self.folders[id].path
            self.folders[id].plan(self.runs[id].label, self.runs[id].config)
            if not _written(folder):  # else it says how an earlier attempt has ended
                records.put_state(folder, Stage.QUEUED)
        self.put(self.waiting, self.running)

    def carried_out(self, engine: Engine) -> dict[str, str] | None:
        """As run_all returns it."""
        written = None
        try:
            while self.waiting or self.running:
                self._start_all(engine)
                if written != (queue := ([*self.waiting], [*self.running])):
                    self.put(*queue)
                    written = queue
                self._show()
                for id, exit in engine.poll(POLL_SECONDS).items():
                    del self.running[id]
                    self._end(id, exit)
        except KeyboardInterrupt:
            self.view.say("stopping: the runs at work save their state; again: at once")
            engine.stop()
            return None
        except BaseException:  # a full disk, say
            engine.stop()
            raise
        left = [id for id in self.runs if id not in self.failed]
        lost = [id for id in left if not _answer(self.runs[id], self.folders[id])]
        return self.failed | dict.fromkeys(lost, OTHERWISE)

    def _start_all(self, engine: Engine) -> None:
        """Starts what can be started."""
        for id in list(self.waiting):
            if not engine.has_room(self.runs[id].resources):
                break
            if not locks.is_locked(self.folders[id].path):
                self.waiting.remove(id)
                if _done(self.runs[id], self.folders[id]):
                    self._end(id, Exit(0))
                else:
                    self._start(id, engine)

    def _start(self, id: str, engine: Engine) -> None:
        folder, resources = self.folders[id].path, self.runs[id].resources
        # Without the working directory on the path, unless it is on this process's own: a user's
        # file there could hide a module.
        flags = [] if os.getcwd() in sys.path else ["-P"]
        # Another sweep of this folder may have asked the run for other seeds or scores meanwhile.
        self.folders[id].plan(self.runs[id].label, self.runs[id].config)
        command = [sys.executable, *flags, "-m", "pe_jax", "run"]
        command += [f"--config=replay.py:{folder / 'queued.json'}", f"--workdir={folder.parent}"]
        command += [f"--command={self.command}"]
        threads = _threads(self.folders[id]) or engine.threads(resources, len(self.waiting))
        # Runs may share a GPU, of whose memory a process would take three quarters at once.
        own = {"NPROC": str(threads), "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        environment = own | self.environment
        records.put_state(folder, Stage.QUEUED)
        log = (folder / "log.txt").absolute()
        with concerning(log), open(log, "a") as file:
            print(f"started by a sweep at {records.now()}", file=file)
        engine.submit(id, Command(command, environment, Path.cwd(), log, resources))
        seeds, evaluation = self.runs[id].run.seeds, progress.evaluation_share(self.runs[id])
        self.running[id] = progress.Watch(folder / "metrics.jsonl", seeds, evaluation)

    def _show(self) -> None:
        """Shows where the runs at work are."""
        states = {id: self._progress(id) for id in self.running}
        text = "\n".join(f"{self.names[id]}  {words}" for id, (_, words) in states.items())
        done = self.ended + sum(share for share, _ in states.values())
        self.view.update(done, text or WAITING * bool(self.waiting))

    def _end(self, id: str, exit: Exit) -> None:
        folder, label = self.folders[id].path, self.names[id]
        result, written = _answer(self.runs[id], self.folders[id]), _written(folder)
        done = written is not None and written.stage is Stage.DONE
        if result and exit.code and starved(result) and not done:  # it is the result of before
            result = None
        # Done, and no answer: by the config of another sweep of this folder.
        if not result and (exit.code < 0 or done) and self.killed[id] < RETRIES:
            self.killed[id] += 1
            if exit.code < 0:
                self.view.say(f"{label}: {_killed(exit)}; it goes on")
            self.waiting.append(id)
            return
        if not result and exit.code == Held.exit_code:
            self.waiting.append(id)
            return
        self.ended += 1
        if not result:
            self.failed[id] = _reason(folder, exit)
            self.view.say(f"{label}: failed")
        elif result.seconds:
            self.view.say(f"{label}: {progress.duration(result.seconds.total)}")

    def _progress(self, id: str) -> tuple[float, str]:
        """(how much of the run is done, from 0 to 1; what it does now) by its metrics.jsonl."""
        done, line = 0.0, None
        with contextlib.suppress(OSError):  # the run itself will tell
            done, line = self.running[id].look()
        begun = "compiling" if locks.is_locked(self.folders[id].path) else "starting"
        return done, progress.describe(line) if line else begun


def _threads(folder: Folder) -> int | None:
    """The threads with which the run was begun, since their number decides its last bits; None if
    it was not.
    """
    for part in folder.parts():
        with contextlib.suppress(Refused):  # the run will tell
            begun = part.begun()
            if begun and begun.device:
                return begun.device.threads
    return None


def _killed(exit: Exit) -> str:
    return exit.reason or f"killed by signal {-exit.code}"


def _done(run: Any, folder: Folder) -> bool:
    """Whether a process would have nothing to do. Whether scores that lacked memory have it now is
    for the process to find out: it alone takes hold of an accelerator.
    """
    result = _answer(run, folder)
    return result is not None and not starved(result)


def _answer(run: Any, folder: Any) -> Any:
    return folder.answer(run.run.seeds, run.asked())


def _written(folder: Path) -> record.State | None:
    """What state.json says; None if it is not there or damaged."""
    try:
        return records.state_of(folder)
    except Refused:
        return None


def _reason(folder: Path, exit: Exit) -> str:
    """Why a run has no result, by its state.json. Where that gives no reason, it is what the engine
    says, or the last line of log.txt, and it is written to state.json. A folder that was deleted is
    not made again.
    """
    try:
        lines = (folder / "log.txt").read_text(errors="replace").strip().splitlines()
    except FileNotFoundError:  # it was there when the process was started
        return exit.reason or "its folder was deleted while it ran"
    written = _written(folder)
    if written and written.stage is Stage.FAILED:
        return written.reason
    if written and written.stage is Stage.STOPPED:
        return f"stopped {written.reason}"
    if written and written.stage is Stage.DONE:
        return OTHERWISE
    if exit.code < 0:
        reason = _killed(exit)
    elif exit.code == 0:
        reason = CHANGED  # its id, and so its folder, is another by now
    else:
        reason = exit.reason or (lines[-1] if lines else f"exit code {exit.code}")
    with contextlib.suppress(OSError):  # a full disk must not hide the reason
        records.put_state(folder, Stage.FAILED, reason)
    return reason


class Shard(NamedTuple):
    """Which part of a sweep, counted from 1, of how many."""

    number: int
    of: int

    def own(self, runs: Sequence[Any]) -> list[Any]:
        """Its runs: the one of its number, and every `of`-th after that."""
        return list(runs[self.number - 1 :: self.of])


def parse_shard(text: str, environment: Mapping[str, str]) -> Shard:
    """The shard of "i/n", or with "slurm" that of the task of a SLURM array by its environment
    variables. ValueError if it is neither.
    """
    if text == "slurm":
        names = ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_COUNT")
        known = [environment.get(name, "") for name in names]
        if not all(value.isdecimal() for value in known):
            raise ValueError(
                "--shard=slurm is for a task of a SLURM array (sbatch --array=1-8), which sets "
                f"{', '.join(names)}"
            )
        task, first, count = map(int, known)
        number = task - first + 1
        if number > count:
            raise ValueError(
                f"--shard=slurm needs an array without gaps, as --array=1-8, got task {task} of "
                f"{count} from {first} on"
            )
        return Shard(number, count)
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise ValueError(f"--shard is I/N with I from 1 to N, as 2/8, or slurm, got {text!r}")
    return Shard(int(match[1]), int(match[2]))
