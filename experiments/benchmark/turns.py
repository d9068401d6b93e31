"""Alternating measurements of several sides, so that noise affects all of them alike: paired
ratios, medians and tables.

ratio = time of one side / time of another, in the same turn
"""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from scipy import stats

from pe_jax.runs import environment
from pe_jax.storage import atomic


class Ratio(NamedTuple):
    """The median of paired ratios, and its exact 95 % interval; None with fewer than six."""

    median: float
    interval: tuple[float, float] | None

    def __str__(self) -> str:
        return self.rounded(3)

    def rounded(self, digits: int) -> str:
        low_high = [f"{bound:.{digits}f}" for bound in self.interval or ()]
        return f"{self.median:.{digits}f} ({' - '.join(low_high) or 'too few turns'})"


def ratio(times: Sequence[float], others: Sequence[float]) -> Ratio:
    """The ratio of `times` to `others`, turn by turn. ValueError if their numbers differ."""
    ratios = [own / other for own, other in zip(times, others, strict=True)]
    bounds = stats.quantile_test(ratios, p=0.5).confidence_interval(0.95)
    interval = None if math.isnan(bounds.low) else (float(bounds.low), float(bounds.high))
    return Ratio(statistics.median(ratios), interval)


class Worker:
    """The process of a side, which is asked by lines of words and answers by lines of JSON."""

    def __init__(self, *command: str, cores: set[int] | None = None):
        self.command = command
        self.process = subprocess.Popen(
            [sys.executable, "-m", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"JAX_PLATFORMS": "cpu"},
            text=True,
        )
        if cores:  # Linux only
            os.sched_setaffinity(self.process.pid, cores)
        self.facts = self._answer()

    def ask(self, *words: object) -> dict[str, Any]:
        """The answer to a line of these words."""
        print(*words, file=self.process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout
        if line := self.process.stdout.readline():
            return json.loads(line)
        raise RuntimeError(f"{' '.join(self.command)} ended with code {self.process.wait()}")

    def close(self) -> None:
        """Closes the input of the process, which stops it, and waits for its end."""
        self.process.communicate()


def machine() -> dict[str, Any]:
    """Processor, cores, load and Python version."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor(),
        "cores": environment.cores(),
        "load_before": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
    }


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; short rows are padded."""
    lines = [head, ["---"] * len(head), *rows]
    full = [[*cells, *[""] * (len(head) - len(cells))] for cells in lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in full)


def say(text: str) -> None:
    """Prints progress to standard error; standard output is for the report."""
    print(text, file=sys.stderr, flush=True)


def report(record: Mapping[str, Any], text: str, path: Path | None) -> None:
    """Prints a report, and writes it with its record if a path is given."""
    print(text)
    if path:
        write(path, record, text)


def write(path: Path, record: Mapping[str, Any], text: str) -> None:
    """Writes a record and its report to PATH.json and PATH.md."""
    atomic.write(path.with_suffix(".json"), json.dumps(record, indent=1, allow_nan=False) + "\n")
    atomic.write(path.with_suffix(".md"), text + "\n")
