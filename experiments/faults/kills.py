"""Kills of one run: at random moments, by each signal, and with the clock set back in between."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from experiments.faults.outcome import Outcome, Tally
from experiments.faults.toy import Toy, findings

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
HOUR = 3600.0


def attacks(toy: Toy, kills: int = 20, seed: int = 0) -> Iterator[Tally]:
    """A tally for each signal, sent `kills` times, and one for a clock that is set back."""
    rng = random.Random(seed)
    begun = time.monotonic()
    said, code = _ended(toy.run(toy.folder / "undisturbed"))
    if code:
        raise RuntimeError(f"the toy run has failed: {said}")
    seconds = time.monotonic() - begun
    whole = findings(toy.folder / "undisturbed")
    for number in SIGNALS:
        tally = Tally(f"{number.name} of a run, at random moments")
        yield _killed(toy, tally, number, kills, rng, seconds, whole, lambda workdir: None)
    tally = Tally("SIGKILL of a run, then the clock set back by an hour")
    yield _killed(toy, tally, signal.SIGKILL, max(1, kills // 4), rng, seconds, whole, _later)


def _killed(
    toy: Toy,
    tally: Tally,
    number: signal.Signals,
    kills: int,
    rng: random.Random,
    seconds: float,
    whole: dict,
    between: Callable[[Path], None],
) -> Tally:
    """Kills runs until there were so many kills. Every run is killed until it has ended by itself;
    `between` is called after each kill.
    """
    while tally.counts.total() < kills:
        workdir, hits = toy.folder / f"{number.name}-{rng.randrange(10**9)}", 0
        while True:
            process = toy.run(workdir)
            due = tally.counts.total() + hits < kills
            try:
                process.wait(rng.uniform(0.0, seconds) if due else None)
            except subprocess.TimeoutExpired:
                process.send_signal(number)
                process.wait()
            said, code = _ended(process)
            if code == 0:
                break
            hits += 1
            between(workdir)
            own = (
                "Traceback" in said and "Fatal Python error" not in said
            )  # no module was there yet
            if own or not due:
                tally.add(Outcome.LOST, said[-500:])
                return tally
        for _ in range(hits):
            same = findings(workdir) == whole
            tally.add(Outcome.SURVIVED if same else Outcome.LOST, "another result")
    return tally


def _ended(process: subprocess.Popen) -> tuple[str, int]:
    """(what it printed, its exit code)"""
    return process.communicate()[0], process.returncode


def _later(folder: Path) -> None:
    """Makes every file an hour newer than it is, as if the clock had been set back since."""
    for path in folder.rglob("*"):
        known = path.stat()
        os.utime(path, (known.st_atime + HOUR, known.st_mtime + HOUR))
