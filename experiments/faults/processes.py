"""Runs and sweeps whose processes receive signals at random moments. A command that ends early is
repeated, and the results must equal those of an undisturbed one. Processes are found in /proc, so
this needs Linux.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from experiments.faults.toy import Tally, Toy, findings

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
LAUNCHERS = {
    "one launcher, --jobs=2": (("--jobs=2",),),
    "two launchers at once": (("--jobs=1",), ("--jobs=1",)),
    "three shards": tuple(("--jobs=1", f"--shard={i}/3") for i in (1, 2, 3)),
    "--engine=ray": (("--jobs=2", "--engine=ray"),),
}
"""The flags of the commands that run a sweep together."""
HOUR = 3600.0

Command = tuple[str, ...]


def kills(toy: Toy, count: int = 20, seed: int = 0) -> Iterator[Tally]:
    """A tally for each signal, of `count` of them, and one with a clock that is set back each time,
    of a quarter as many.
    """
    rng, command = random.Random(seed), toy.run()
    begun = time.monotonic()
    whole = _undisturbed(toy, command, toy.folder / "alone")
    seconds = time.monotonic() - begun
    back = "SIGKILL of a run, then the clock set back by an hour"
    kinds = [
        *((f"{n.name} of a run, at random moments", n, count, False) for n in SIGNALS),
        (back, signal.SIGKILL, max(1, count // 4), True),
    ]
    for fault, number, wanted, clock_back in kinds:
        tally = Tally(fault)
        while (left := wanted - tally.counts.total()) > 0:
            workdir = toy.folder / f"{number.name}-{rng.randrange(10**9)}"
            hits, failed = _disturbed(
                toy, [command], workdir, rng, seconds / 2, number, left, clock_back
            )
            said = _said(workdir)  # Python itself prints one where it is stopped as it starts
            if said.count("Traceback") > said.count("Fatal Python error"):
                failed = said[-500:]
            same = not failed and findings(workdir) == whole
            for _ in range(hits or bool(failed)):
                tally.add("survived" if same else "lost", failed or "another result")
        yield tally


def sweeps(toy: Toy, runs: int = 100, seed: int = 0) -> Iterator[Tally]:
    """A tally for each kind of launcher, over the results of `runs` runs. One of their processes (a
    run, a Ray worker or a launcher) is killed about once per duration of a run. Ray is skipped if
    it is not installed.
    """
    rng, command = random.Random(seed), toy.sweep(runs)
    begun = time.monotonic()
    whole = _undisturbed(toy, (*command, "--jobs=2"), toy.folder / "alone")
    every = 2 * (time.monotonic() - begun) / runs
    for i, (kind, launchers) in enumerate(LAUNCHERS.items()):
        if "ray" in kind and importlib.util.find_spec("ray") is None:
            continue
        workdir = toy.folder / f"sweep-{i}"
        commands = [(*command, *flags) for flags in launchers]
        hits, failed = _disturbed(toy, commands, workdir, rng, every, signal.SIGKILL)
        tally, after = Tally(f"sweep of {runs} runs, {kind}, {hits} kills"), findings(workdir)
        for id, wanted in whole.items():
            same = after.get(id) == wanted
            tally.add("survived" if same else "lost", failed or f"{id} differs")
        yield tally


def _undisturbed(toy: Toy, command: Command, workdir: Path) -> dict:
    """The findings of an undisturbed command."""
    process = toy.start(*command, f"--workdir={workdir}")
    said, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"the undisturbed command has failed: {said[-500:]}")
    return findings(workdir)


def _disturbed(
    toy: Toy,
    commands: Sequence[Command],
    workdir: Path,
    rng: random.Random,
    every: float,
    number: signal.Signals,
    most: float = float("inf"),
    clock_back: bool = False,
) -> tuple[int, str]:
    """Starts the commands, each again until it succeeds, and sends a signal to one of their
    processes every `every` seconds on average, up to `most` times. With `clock_back` files get an
    hour newer before a command starts again. Returns the number of signals, and the last output if
    a command failed by itself.
    """

    def start(i: int) -> None:
        with open(f"{workdir}.log", "a") as log:
            at_work[i] = toy.start(*commands[i], f"--workdir={workdir}", output=log)

    at_work: dict[int, subprocess.Popen] = {}
    for i in range(len(commands)):
        start(i)
    hits, started = 0, len(commands)
    while at_work:
        time.sleep(rng.expovariate(1 / every))
        victims = _victims(workdir)
        if victims and hits < most:
            with contextlib.suppress(ProcessLookupError):
                os.kill(rng.choice(victims), number)
            hits += 1
        for i, process in list(at_work.items()):
            if process.poll() == 0:
                del at_work[i]
            elif process.returncode is not None:
                if clock_back:
                    _make_newer(workdir)
                start(i)
                started += 1
        if started > hits + len(commands):
            for process in at_work.values():
                process.terminate()
            return hits, f"a command has failed by itself: {_said(workdir)[-500:]}"
    return hits, ""


def _said(workdir: Path) -> str:
    return Path(f"{workdir}.log").read_text()


def _make_newer(folder: Path) -> None:
    """Makes every file an hour newer, as if the clock had been set back."""
    for path in folder.rglob("*"):
        known = path.stat()
        os.utime(path, (known.st_atime + HOUR, known.st_mtime + HOUR))


def _victims(workdir: Path) -> list[int]:
    """The processes of the commands of a work directory: launchers, runs, and Ray workers that wait
    for a run.
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
