"""Kills of one run: at random moments, by each signal, and with the clock set back in between."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from experiments.faults.outcome import Outcome, Tally
from experiments.faults.toy import Toy, findings

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
HOUR = 3600.0


def attacks(toy: Toy, kills: int = 20, seed: int = 0) -> Iterator[Tally]:
    """A tally for each signal, sent `kills` times, and one for a clock that is set back."""
    begun = time.monotonic()
    said, code = _ended(toy.run(toy.folder / "undisturbed"))
    if code:
        raise RuntimeError(f"the toy run has failed: {said}")
    seconds = time.monotonic() - begun
    killer = _Killer(toy, random.Random(seed), seconds, findings(toy.folder / "undisturbed"))
    for number in SIGNALS:
        yield killer.tally(f"{number.name} of a run, at random moments", number, kills)
    yield killer.tally(
        "SIGKILL of a run, then the clock set back by an hour",
        signal.SIGKILL,
        max(1, kills // 4),
        between=_later,
    )


class _Killer(NamedTuple):
    """What kills runs."""

    toy: Toy
    rng: random.Random
    seconds: float
    """What an undisturbed run takes."""
    whole: dict[str, Any]
    """What it finds."""

    def tally(
        self,
        fault: str,
        number: signal.Signals,
        kills: int,
        between: Callable[[Path], None] = lambda workdir: None,
    ) -> Tally:
        """What comes of so many kills. Every run is killed until it has ended by itself; `between`
        is called after each kill.
        """
        tally = Tally(fault)
        while tally.counts.total() < kills:
            workdir, hits = self.toy.folder / f"{number.name}-{self.rng.randrange(10**9)}", 0
            while True:
                due = tally.counts.total() + hits < kills
                said, code = self._lived(workdir, number if due else None)
                if code == 0:
                    break
                hits += 1
                between(workdir)
                own = "Traceback" in said and "Fatal Python error" not in said  # in a module
                if own or not due:
                    tally.add(Outcome.LOST, said[-500:])
                    return tally
            for _ in range(hits):
                same = findings(workdir) == self.whole
                tally.add(Outcome.SURVIVED if same else Outcome.LOST, "another result")
        return tally

    def _lived(self, workdir: Path, number: signal.Signals | None) -> tuple[str, int]:
        """(what it printed, its exit code) of a run that gets a signal at a random moment."""
        process = self.toy.run(workdir)
        try:
            process.wait(self.rng.uniform(0.0, self.seconds) if number else None)
        except subprocess.TimeoutExpired:
            process.send_signal(number or signal.SIGKILL)
        return _ended(process)


def _ended(process: subprocess.Popen) -> tuple[str, int]:
    """(what it printed, its exit code)"""
    return process.communicate()[0], process.returncode


def _later(folder: Path) -> None:
    """Makes every file an hour newer than it is, as if the clock had been set back since."""
    for path in folder.rglob("*"):
        known = path.stat()
        os.utime(path, (known.st_atime + HOUR, known.st_mtime + HOUR))
