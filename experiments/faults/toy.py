"""The toy runs that faults are applied to, and the outcomes of faults."""

from __future__ import annotations

import collections
import dataclasses
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from pe_jax.errors import Refused
from pe_jax.record import Result
from pe_jax.runs.run import Run
from pe_jax.storage import records

VALUES: dict[str, dict[str, Any]] = {
    "lm": {"model": 16, "heads": 2, "layers": 1},
    "train": {"steps": 40, "steps_per_call": 2, "length": 16, "batch": 4},
    "eval": {"lengths": (16, 32), "targets": 256},
    "run": {"seeds": (0, 1)},
    "log": {"checkpoint_seconds": 0.0},
}
SWEEP = """\
from pathlib import Path

from experiments.faults.toy import Toy
from pe_jax.configs.base import get_config


def get_sweep():
    for rate in {rates}:
        sections = Toy(Path({folder!r})).config(rate)
        config = get_config("pe=" + sections.pop("pe"))
        config.update(sections)
        yield config
"""


def write_text(folder: Path, files: int = 12, words: int = 600, seed: int = 0) -> Path:
    """Creates a folder of small texts of made-up words; returns its path."""
    rng = random.Random(seed)
    known = ["".join(rng.choices("etaoinshrdlu", k=rng.randint(2, 7))) for _ in range(100)]
    folder.mkdir(parents=True)
    for i in range(files):
        (folder / f"{i:02d}.txt").write_text(" ".join(rng.choices(known, k=words)))
    return folder


@dataclasses.dataclass(frozen=True)
class Toy:
    """A folder with a text, and the runs on it."""

    folder: Path

    def prepare(self) -> Toy:
        """Writes the text."""
        write_text(self.folder / "text")
        return self

    def config(self, rate: float = 1e-2) -> dict[str, Any]:
        """The config of a run at this learning rate."""
        sections = {name: dict(values) for name, values in VALUES.items()}
        sections["train"]["rate"] = rate
        return {"pe": "rope", "data": {"source": f"files:{self.folder / 'text'}"}} | sections

    def sweep(self, runs: int) -> tuple[str, str]:
        """The arguments of a sweep over this many learning rates, without --workdir."""
        path = self.folder / f"sweep_{runs}.py"
        rates = [1e-2 * 1.01**i for i in range(runs)]
        path.write_text(SWEEP.format(rates=rates, folder=str(self.folder)))
        return "sweep", f"--config={path}"

    def start(self, *arguments: str, output: int | IO[str] = subprocess.PIPE) -> subprocess.Popen:
        """`pe-jax ARGUMENTS` as a process; its output goes to `output`."""
        kept = {"JAX_COMPILATION_CACHE_DIR": str(self.folder / "programs"), "JAX_PLATFORMS": "cpu"}
        return subprocess.Popen(
            [sys.executable, "-m", "pe_jax", *arguments],
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | kept,
        )

    def run(self) -> tuple[str, str]:
        """The arguments of a run, without --workdir."""
        path = self.folder / "run.json"
        path.write_text(json.dumps({"config": Run.of(self.config()).config}))
        return "run", f"--config=replay.py:{path}"


def findings(workdir: Path) -> dict[str, Any]:
    """{run: `of_result`} of the runs of a work directory with a complete result."""
    found = {}
    for path in sorted(workdir.glob("*/result.json")):
        try:
            result = records.read(Result, path)
        except Refused:
            continue
        if result:
            found[result.id] = of_result(result)
    return found


def of_result(result: Result) -> dict[str, Any]:
    """The parts of a result that do not depend on the clock."""
    names = ("rows", "curves", "targets", "target_bytes", "digests", "rates")
    found = {name: getattr(result, name) for name in names}
    train = result.train
    return found | {"loss": train.loss, "valid": train.valid, "progress": train.progress}


OUTCOMES = ("survived", "detected", "lost")
"""survived: the rows equal those of an undisturbed run. detected: they do, or are missing, and the
damage was named. lost: anything else, such as other rows or a traceback.
"""
HEAD = ("fault", "tried", *OUTCOMES)


@dataclasses.dataclass
class Tally:
    """The outcomes of one kind of fault."""

    fault: str
    counts: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    losses: list[str] = dataclasses.field(default_factory=list)

    def add(self, outcome: str, what: str) -> None:
        """Counts an outcome; `what` describes the action and its result."""
        self.counts[outcome] += 1
        self.losses += [what] * (outcome == "lost")

    def row(self) -> list[str | int]:
        """The cells of the tally's line in the table."""
        return [self.fault, self.counts.total(), *(self.counts[outcome] for outcome in OUTCOMES)]


def table(tallies: Iterable[Tally]) -> str:
    """A Markdown table: a line for each fault, then one line for each loss."""
    import tabulate

    tallies = list(tallies)
    lines = [tabulate.tabulate([tally.row() for tally in tallies], HEAD, tablefmt="github")]
    lines += [f"- lost: {tally.fault}: {loss}" for tally in tallies for loss in tally.losses]
    return "\n".join(lines) + "\n"
