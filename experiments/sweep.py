"""Many runs: each in a process of its own, finished ones skipped, a failed one told and passed
over.

    python -m experiments.sweep --config=configs/quickstart.py --workdir=DIR [--jobs=N] [--dry_run]
    [--out=results/NAME]
    python -m experiments.sweep --status --workdir=DIR

A config file names its runs by get_sweep() or get_hyper(h); --also adds encodings to them, for
example a file of your own: --also=my_dir/my_file.py:MyEncoding. With `:pe=SPEC` behind the file's
name that encoding runs alone.
"""

from __future__ import annotations

import glob
import importlib.util
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from absl import flags
from ml_collections import config_flags

from experiments import cli

_CONFIG = config_flags.DEFINE_config_file(
    "config", None, "Config file with get_sweep() or get_hyper(h)."
)
_WORKDIR = flags.DEFINE_string("workdir", "runs", "Folder of the runs.")
_JOBS = flags.DEFINE_integer(
    "jobs",
    0,
    "Runs at a time; the cores are shared out. 0: one beside an accelerator, else one a core.",
    lower_bound=0,
)
_DRY_RUN = flags.DEFINE_bool(
    "dry_run", False, "List the runs, their parameters and time, and stop."
)
_OUT = flags.DEFINE_string("out", None, "Folder for the tables and the report; default: none.")
_STATUS = flags.DEFINE_bool("status", False, "Show how the runs of --workdir stand, and stop.")
_ALSO = flags.DEFINE_string("also", "", "Encodings to run besides, separated by commas.")

POLL_SECONDS = 0.3


def main() -> int:
    if _STATUS.value:
        from experiments import status

        return status.show(_workdir())
    if _CONFIG.value is None:
        return cli.fail(
            "sweep", "--config=FILE is required, for example --config=configs/quickstart.py"
        )
    environment = dict(os.environ)
    os.environ["JAX_PLATFORMS"] = (
        "cpu"  # this process only waits: the accelerator belongs to the runs
    )
    try:
        configs = _configs()
    except Exception as error:  # a config file is the user's code: it may raise anything
        return cli.fail("sweep", error)
    from pe_jax import record
    from pe_jax.run import Run
    from pe_jax.trackers import require

    try:
        runs = {run.id: run for run in map(Run.of, configs)}
    except (ValueError, TypeError, OSError) as error:
        return cli.fail("sweep", error)
    if _DRY_RUN.value:
        from experiments import cost

        cost.show(list(runs.values()), [run for id, run in runs.items() if not _finished(id)])
        return 0
    try:
        left = [run for id, run in runs.items() if not record.read(_workdir() / id / "result.json")]
        require({name for run in left for name in run.log.trackers})
        for run in {_texts(run): run for run in left}.values():
            run.load()
    except record.Refused as error:
        return cli.fail("sweep", error)
    failed = _run_all(runs, environment)
    if failed is None:
        again = cli.goes_on(cli.command("sweep"))
        print(f"stopped; what was under way is saved: {again}", file=sys.stderr)
        return cli.INTERRUPTED
    finished = [id for id in runs if id not in failed]
    if finished:
        try:
            _publish(finished)
        except (ValueError, OSError) as error:
            return cli.fail("sweep", error)
    for id, reason in failed.items():
        print(
            f"failed: {runs[id].label}: {reason} ({_workdir() / id / 'log.txt'})", file=sys.stderr
        )
    return 1 if failed else 0


def _workdir() -> Path:
    return Path(_WORKDIR.value)


def _configs() -> list[dict[str, Any]]:
    """The plain configs of the sweep, with the command line's overrides on top."""
    from experiments import hyper

    flag = flags.FLAGS["config"]
    path, _, argument = config_flags.get_config_filename(flag).partition(":")
    spec = importlib.util.spec_from_file_location("sweep_config", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    values = config_flags.get_override_values(flag)
    found = [_CONFIG.value] if argument else hyper.runs(module, _CONFIG.value, values)
    for also in filter(None, re.split(r",(?![^(\[]*[)\]])", _ALSO.value)):
        found += hyper.runs(None, module.get_config(f"pe={also}"), values)
    return [config.to_dict() for config in found]


def _texts(run) -> str:
    """What decides whether a run's text suffices."""
    return repr((run.data, run.eval, run.train.length, run.train.batch))


def _finished(id: str) -> bool:
    return (_workdir() / id / "result.json").exists()


def _run_all(runs: dict[str, Any], environment: dict[str, str]) -> dict[str, str] | None:
    """{id: reason} of the runs that failed; None when stopped by a signal."""
    from experiments import console
    from pe_jax import record

    done = [id for id in runs if _finished(id)]
    if done:
        print(f"{len(done)} of {len(runs)} runs were finished already: they are not run again")
    if len(done) == len(runs):
        return {}
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    view = console.View(f"{len(runs)} runs", len(runs), len(done))
    with record.locked(_workdir(), shared=True), view:
        workers = _Workers(runs, done, view, environment)
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

    def __init__(self, runs, done, view, environment):
        from experiments import console

        self.runs, self.view, self.console = runs, view, console
        self.waiting = [id for id in runs if id not in done]
        self.running: dict[str, subprocess.Popen] = {}
        self.ended, self.failed = len(done), {}
        self.share = console.EVALUATION
        self.environment = environment
        self.cores = len(os.sched_getaffinity(0))
        self.jobs = min(_JOBS.value or (1 if _accelerated() else self.cores), len(self.waiting))
        self.last_round = len(self.waiting) % self.jobs or self.jobs

    def queue(self) -> None:
        """Writes down what is to be run: `--status` reads it, and the processes do."""
        from pe_jax import record

        for id in self.waiting:
            queued = {"label": self.runs[id].label, "config": self.runs[id].config}
            record.write(_workdir() / id / "queued.json", json.dumps(queued))

    def step(self) -> None:
        """Starts what can be started, takes note of what ended, shows where the others are."""
        from pe_jax import record

        for id in list(self.waiting):
            if len(self.running) == self.jobs:
                break
            if not record.is_locked(_workdir() / id):
                self.waiting.remove(id)
                if _finished(id):
                    self._end(id)
                else:
                    self.running[id] = self._start(id)
        for id, process in list(self.running.items()):
            if process.poll() is not None:
                del self.running[id]
                self._end(id, process.returncode)
        states = {id: self._progress(id) for id in self.running}
        text = "; ".join(f"{self.runs[id].label}  {words}" for id, (_, words) in states.items())
        done = self.ended + sum(share for share, _ in states.values())
        self.view.update(done, text or "waiting for a run that another process holds")

    def _start(self, id: str) -> subprocess.Popen:
        from experiments import status
        from pe_jax import record

        folder = _workdir() / id
        command = [sys.executable, "-m", "experiments.run"]
        command += [
            f"--config=configs/replay.py:{folder / 'queued.json'}",
            f"--workdir={_workdir()}",
        ]
        command += [
            f"--command=python -m experiments.sweep {shlex.join(_reproducing(sys.argv[1:]))}"
        ]
        environment = {"NPROC": str(self._threads(id))} | self.environment
        # In a group of its own, so that Ctrl-C reaches it through `stop` alone.
        with open(folder / "log.txt", "a") as log:
            print(status.STARTED + record.now(), file=log, flush=True)
            return subprocess.Popen(
                command, stdout=log, stderr=log, env=environment, process_group=0
            )

    def _threads(self, id: str) -> int:
        """The run's share of the cores: those that it was begun with, since their number decides
        its last bits, else as many as each run of its round can have.
        """
        from pe_jax import record

        if begun := record.read(_workdir() / id / "config.json"):
            return begun["device"]["threads"]
        last = len(self.waiting) < self.last_round
        return max(1, self.cores // (self.last_round if last else self.jobs))

    def _end(self, id: str, code: int = 0) -> None:
        from experiments import status
        from pe_jax import record

        label = self.runs[id].label
        result = record.read(_workdir() / id / "result.json")
        if not result and record.is_locked(
            _workdir() / id
        ):  # another process was the first to take it
            self.waiting.append(id)
            return
        self.ended += 1
        if result:
            seconds = result["seconds"]
            self.share = seconds["evaluate"] / max(seconds["total"], 1e-9)
            self.view.say(f"{label}: {self.console.duration(seconds['total'])}")
            return
        if code < 0:
            with open(_workdir() / id / "log.txt", "a") as log:
                print(f"experiments.run: killed by signal {-code}", file=log)
        self.failed[id] = status.why(_workdir() / id)
        self.view.say(f"{label}: failed")

    def _progress(self, id: str) -> tuple[float, str]:
        from pe_jax import record

        share = self.console.Share(len(self.runs[id].run.seeds), self.share)
        lines = record.read_lines(_workdir() / id / "metrics.jsonl")
        done = 0.0
        for line in lines:
            done = share.add(line)
        return done, self.console.describe(lines[-1]) if lines else "compiling"

    def stop(self) -> None:
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            process.wait()


def _accelerated() -> bool:
    """Whether a GPU or TPU is there, without taking hold of it."""
    return any(glob.glob(pattern) for pattern in ("/dev/nvidia[0-9]*", "/dev/accel*", "/dev/kfd"))


def _reproducing(arguments: list[str]) -> list[str]:
    """The command line without what names this machine's folders."""
    return [a for a in arguments if not a.startswith(("--workdir", "--jobs", "--out"))] + [
        "--workdir=DIR"
    ]


def _publish(ids: list[str]) -> None:
    from experiments import console
    from pe_jax import record

    records = [record.read(_workdir() / id / "result.json") for id in ids]
    console.publish(records, Path(_OUT.value) if _OUT.value else None)


if __name__ == "__main__":
    cli.start("sweep", main)
