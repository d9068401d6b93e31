"""A sweep: the queue of its runs, carried out by an engine; or a shard of it, where several
launchers that know nothing of each other, such as the tasks of a SLURM array, do every n-th run
each.

What all engines share is here: finished runs, waiting ones, retries after a kill, and the reasons
of failures. The state of every run is in its folder, so that a process that dies takes no other
with it.
"""

from __future__ import annotations

import collections
import contextlib
import logging
import os
import re
import signal
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pe_jax import record
from pe_jax.errors import Held, Refused, concerning
from pe_jax.record import Stage
from pe_jax.report import labels
from pe_jax.runs.folder import Folder
from pe_jax.runs.progress import Display, duration
from pe_jax.storage import jsonl, locks, records
from pe_jax.sweep import ray
from pe_jax.sweep.engine import Command, Exit, Local

LOG = logging.getLogger("pe_jax")
POLL_SECONDS = 0.3
RETRIES = 3  # of a run whose process is killed, by the kernel for its memory, say
OTHERWISE = (
    "its result is not what was asked for: a file of the user's or the model that it starts from "
    "has changed meanwhile, or another command has asked for other seeds, scores or rates. Give "
    "the same command again"
)


class Item(NamedTuple):
    """A run of a sweep, and what is asked of it."""

    run: Any
    folder: Folder
    config: dict[str, Any]
    """The config that its process gets: that of the run, or the one with several train.rates of
    which the run's is the best."""
    asked: str | None = None
    """`Run.asked`; None: only that it is trained, at a learning rate that is tried."""

    @property
    def result(self) -> record.Result | None:
        """The result, if it is there, though scores may have lacked memory."""
        return self.folder.answer(self.run.run.seeds, self.asked)

    @property
    def done(self) -> bool:
        """Whether a process would have nothing to do."""
        return self.folder.complete(self.run.run.seeds, self.asked) is not None


def check_engine(name: str, address: str) -> None:
    """Refused for an engine that is not installed, or an address that it does not take."""
    if name == "ray":
        ray.check_installed()
    elif address:
        raise Refused(f"--address={address} is for --engine=ray, which joins a cluster there")


def run_all(
    items: Iterable[Item],
    command: str,
    environment: dict[str, str],
    engine: str = "local",
    jobs: int = 0,
    address: str = "",
) -> dict[str, str] | None:
    """Does what is not done: {id: reason} of runs that failed; None when a signal stopped it.

    `command` is what the records say reproduces them, `environment` the environment variables of
    the processes. The engine does up to `jobs` at a time, on the cluster at an address.
    """
    by_id = {item.run.id: item for item in items}
    left = {id: item for id, item in by_id.items() if not item.done}
    if skipped := len(by_id) - len(left):
        print(f"{skipped} of {len(by_id)} runs were finished already: they are not run again")
    if not left:
        return {}
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with Display() as display:
        sweep = _Sweep(left, len(by_id), display, command, environment)
        try:
            for id in left:
                sweep.plan(id)
            wanted = [item.run.resources for item in left.values()]
            made = ray.Ray(address, jobs, wanted) if engine == "ray" else Local(jobs, len(wanted))
            with made as entered:
                return sweep.carried_out(entered)
        except KeyboardInterrupt:
            return None


class _Sweep:
    """The items that are still to be done; one that another process holds is waited for."""

    def __init__(self, items, total, display, command, environment):
        self.items, self.total, self.display = items, total, display
        self.names = labels.names([item.run for item in items.values()])
        self.waiting, self.running, self.failed = [*items], [], {}
        self.killed: collections.Counter[str] = collections.Counter()
        self.command, self.environment = command, environment

    def plan(self, id: str) -> None:
        """Writes queued.json, which the process reads; state.json was of an earlier process."""
        item, folder = self.items[id], self.items[id].folder.path
        planned = record.Planned(label=item.run.label, config=item.config)
        records.write(folder / "queued.json", planned)
        if not locks.is_locked(folder):
            (folder / "state.json").unlink(missing_ok=True)

    def carried_out(self, engine: Any) -> dict[str, str] | None:
        """As run_all returns it."""
        try:
            while self.waiting or self.running:
                self._start_all(engine)
                self._show()
                for id, exit in engine.poll(POLL_SECONDS).items():
                    self.running.remove(id)
                    self._end(id, exit)
        except KeyboardInterrupt:
            LOG.warning("stopping: the runs at work save their state; again: at once")
            engine.stop()
            return None
        except BaseException:  # a full disk, say
            engine.stop()
            raise
        left = [id for id in self.items if id not in self.failed]
        lost = [id for id in left if not self.items[id].result]
        return self.failed | dict.fromkeys(lost, OTHERWISE)

    def _start_all(self, engine: Any) -> None:
        for id in list(self.waiting):
            item = self.items[id]
            if not engine.has_room(item.run.resources):
                break
            if not locks.is_locked(item.folder.path):
                self.waiting.remove(id)
                if item.done:
                    self._end(id, Exit(0))
                else:
                    self._start(id, item, engine)

    def _start(self, id: str, item: Item, engine: Any) -> None:
        folder, resources = item.folder.path, item.run.resources
        # Unbuffered, so that the error ends the log; without the working directory on the path,
        # unless it is on this process's own: a user's file there could hide a module.
        flags = ["-u"] if os.getcwd() in sys.path else ["-u", "-P"]
        self.plan(id)  # another sweep of this folder may have asked for something else meanwhile
        command = [sys.executable, *flags, "-m", "pe_jax", "run", f"--workdir={folder.parent}"]
        replay = Path(__file__).parents[1] / "configs/replay.py"  # a user's comes before its name
        command += [f"--config={replay}:{folder / 'queued.json'}", f"--command={self.command}"]
        threads = engine.threads(resources, len(self.waiting))
        with contextlib.suppress(Refused):  # the run will tell
            if (begun := item.folder.begun()) and begun.device:
                threads = begun.device.threads  # their number decides the last bits
        # Runs may share a GPU, of whose memory a process would take three quarters at once. A
        # step of XLA's CPU allocates its memory anew: in huge pages it took a sixth less time.
        own = {"NPROC": str(threads), "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        own["GLIBC_TUNABLES"] = "glibc.malloc.hugetlb=1"
        log = (folder / "log.txt").absolute()
        with concerning(log), open(log, "a") as file:
            print(f"started by a sweep at {records.now()}", file=file)
        engine.submit(id, Command(command, own | self.environment, Path.cwd(), log, resources))
        self.running.append(id)

    def _show(self) -> None:
        ended = self.total - len(self.waiting) - len(self.running)
        name = "1 run" if self.total == 1 else f"{self.total} runs"
        state = "" if self.running else "waiting for a run that another process holds"
        self.display.update(name, ended, state, self.total)
        for id in self.running:
            folder = self.items[id].folder
            begun = "compiling" if locks.is_locked(folder.path) else "starting"
            with contextlib.suppress(OSError):  # the run itself will tell
                line = jsonl.last_line(folder.metrics)
                self.display.show(self.names[id], line, begun)

    def _end(self, id: str, exit: Exit) -> None:
        item, label = self.items[id], self.names[id]
        self.display.remove(label)
        result, state = item.result, records.state_of(item.folder.path)
        done = state and state.stage is Stage.DONE
        ended = result and (done or not exit.code)  # else it is that of before
        if not ended and exit.code == Held.exit_code:
            self.waiting.append(id)
        # Done, and not as asked: by the config of another sweep of this folder.
        elif not ended and (done or exit.code < 0) and self.killed[id] < RETRIES:
            self.killed[id] += 1
            if exit.code < 0:
                LOG.warning("%s: %s; it goes on", label, _killed(exit))
            self.waiting.append(id)
        elif not ended:
            self.failed[id] = _reason(item.folder.path, exit)
            LOG.warning("%s: failed", label)
        elif result and result.seconds:
            LOG.info("%s: %s", label, duration(result.seconds.total))


def _killed(exit: Exit) -> str:
    return exit.reason or f"killed by signal {-exit.code}"


def _reason(folder: Path, exit: Exit) -> str:
    # By its state.json, else by the engine or the last line of log.txt, which state.json then gets.
    # A folder that was deleted is not made again.
    try:
        lines = (folder / "log.txt").read_text(errors="replace").strip().splitlines()
    except FileNotFoundError:  # it was there when the process was started
        return exit.reason or "its folder was deleted while it ran"
    state = records.state_of(folder)
    if state and state.stage is Stage.FAILED:
        return state.reason
    if state and state.stage is Stage.STOPPED:
        return f"stopped {state.reason}"
    if state and state.stage is Stage.DONE:
        return OTHERWISE
    if exit.code < 0:
        reason = _killed(exit)
    elif exit.code == 0:
        reason = OTHERWISE  # its id, and so its folder, is another by now
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


def parse_shard(text: str) -> Shard:
    """The shard of "i/n". ValueError for another text."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise ValueError(f"--shard is I/N with I from 1 to N, as 2/8, got {text!r}")
    return Shard(int(match[1]), int(match[2]))
