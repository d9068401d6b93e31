"""The toy runs that faults are done to: a small model on made-up text, trained in seconds."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import subprocess
import sys
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
    """Makes a folder of small texts of made-up words; gives its path."""
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

    def sweep(self, runs: int) -> Path:
        """The config file of a sweep of so many runs, which differ in their learning rates."""
        path = self.folder / f"sweep_{runs}.py"
        rates = [1e-2 * 1.01**i for i in range(runs)]
        path.write_text(SWEEP.format(rates=rates, folder=str(self.folder)))
        return path

    def start(self, *arguments: str, output: int | IO[str] = subprocess.PIPE) -> subprocess.Popen:
        """`pe-jax ARGUMENTS` as a process; all that it prints goes to `output`."""
        kept = {"JAX_COMPILATION_CACHE_DIR": str(self.folder / "programs"), "JAX_PLATFORMS": "cpu"}
        return subprocess.Popen(
            [sys.executable, "-m", "pe_jax", *arguments],
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | kept,
        )

    def run(self, workdir: Path, rate: float = 1e-2) -> subprocess.Popen:
        """The process of one run."""
        planned = self.planned(rate)
        return self.start("run", f"--config=replay.py:{planned}", f"--workdir={workdir}")

    def planned(self, rate: float = 1e-2) -> Path:
        """A file with the config of a run, for --config=replay.py:FILE."""
        path = self.folder / "run.json"
        path.write_text(json.dumps({"config": Run.of(self.config(rate)).config}))
        return path


def findings(workdir: Path) -> dict[str, Any]:
    """{run: what it has found that does not depend on the clock} of the runs of a work directory
    that have a whole result.
    """
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
    """What a result has found that does not depend on the clock."""
    names = ("rows", "curves", "targets", "target_bytes", "digests", "rates")
    found = {name: getattr(result, name) for name in names}
    train = result.train
    return found | {"loss": train.loss, "valid": train.valid, "progress": train.progress}
