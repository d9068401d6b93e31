"""Sweeps under random kills: the results must be those of an undisturbed sweep.

A process of the sweep is killed by SIGKILL as often as a run lasts, at random moments: one of its
runs, a worker of Ray, or a launcher. A launcher that has ended early is started again, as its last
line says. Processes are found in /proc, which Linux has.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from experiments.faults.outcome import Outcome, Tally
from experiments.faults.toy import Toy, findings

LAUNCHERS = {
    "one launcher, --jobs=2": (("--jobs=2",),),
    "two launchers at once": (("--jobs=1",), ("--jobs=1",)),
    "three shards": tuple(("--jobs=1", f"--shard={i}/3") for i in (1, 2, 3)),
    "--engine=ray": (("--jobs=2", "--engine=ray"),),
}
"""The commands that do a sweep, by their flags."""


def attacks(toy: Toy, runs: int = 100, seed: int = 0) -> Iterator[Tally]:
    """A tally for each kind of launcher, of the results of `runs` runs. The engine Ray is left out
    where it is not installed.
    """
    rng = random.Random(seed)
    alone = toy.folder / "alone"
    begun = time.monotonic()
    if _start(toy, runs, alone, ("--jobs=2",)).wait():
        raise RuntimeError(f"the undisturbed sweep has failed: {_said(alone)}")
    every = 2 * (time.monotonic() - begun) / runs
    whole = findings(alone)
    for kind, launchers in LAUNCHERS.items():
        if "ray" in kind and importlib.util.find_spec("ray") is None:
            continue
        workdir = toy.folder / f"sweep-{len(launchers)}-{kind.startswith('--')}"
        kills, failed = _disturbed(toy, runs, workdir, launchers, rng, every)
        tally, found = Tally(f"sweep of {runs} runs, {kind}, {kills} kills"), findings(workdir)
        for id, wanted in whole.items():
            same = found.get(id) == wanted
            tally.add(Outcome.SURVIVED if same else Outcome.LOST, failed or f"{id} differs")
        yield tally


def _disturbed(
    toy: Toy,
    runs: int,
    workdir: Path,
    launchers: tuple[tuple[str, ...], ...],
    rng: random.Random,
    every: float,
) -> tuple[int, str]:
    """Does a sweep, of which a process is killed every `every` seconds in the mean: how often that
    was, and what was said if the sweep has failed by itself.
    """
    at_work = {i: _start(toy, runs, workdir, flags) for i, flags in enumerate(launchers)}
    kills, started = 0, len(at_work)
    while at_work:
        time.sleep(rng.expovariate(1 / every))
        if victims := _victims(workdir):
            with contextlib.suppress(ProcessLookupError):
                os.kill(rng.choice(victims), signal.SIGKILL)
            kills += 1
        for i, process in list(at_work.items()):
            if process.poll() == 0:
                del at_work[i]
            elif process.returncode is not None:
                at_work[i] = _start(toy, runs, workdir, launchers[i])
                started += 1
        if started > kills + len(launchers):
            for process in at_work.values():
                process.terminate()
            return kills, f"a sweep has failed by itself: {_said(workdir)}"
    return kills, ""


def _start(toy: Toy, runs: int, workdir: Path, flags: tuple[str, ...]) -> subprocess.Popen:
    """A launcher. What it says goes to WORKDIR.log."""
    with open(f"{workdir}.log", "a") as log:
        config = f"--config={toy.sweep(runs)}"
        return toy.start("sweep", config, f"--workdir={workdir}", *flags, output=log)


def _said(workdir: Path) -> str:
    return " ".join(Path(f"{workdir}.log").read_text().splitlines()[-5:])


def _victims(workdir: Path) -> list[int]:
    """The processes of the sweeps of a work directory: launchers, runs, and workers of Ray that
    wait for a run.
    """
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if f"--workdir={workdir}" in path.read_text(errors="replace").split("\0"):
                found.add(int(path.parent.name))
                parent = int((path.parent / "stat").read_text().rpartition(")")[2].split()[1])
                if "carry_out" in Path(f"/proc/{parent}/cmdline").read_text(errors="replace"):
                    found.add(parent)
    return sorted(found)
