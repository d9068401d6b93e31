"""The time of a training step, all sides in turns in one run, so that noise hits them alike.

    ratio = time of pe_jax / time of the other, in the same turn

The median of the paired ratios has the exact interval of a median, by order statistics (95 % or
more; from 6 turns on). Each side is a process of its own (benchmark_sides.py); one works at a time.
Linux alone: it reads and sets the cores of processes. `--encodings` compares encodings instead, in
one process: benchmark_encodings.py.
"""

from __future__ import annotations

import argparse
import ctypes.util
import dataclasses
import importlib.util
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pe_jax.atomic import write
from pe_jax.environment import commit
from scripts.benchmark_sides import CALL, OURS, SIDES, Shape

Times = Mapping[str, Sequence[float]]
ENCODINGS_OUT = "results/benchmark_encodings"
ABSENT = "n/a (x-transformers is not installed)"


@dataclasses.dataclass(frozen=True)
class Row:
    """One side: milliseconds a step, and the paired ratio ours / its."""

    side: str
    median: float
    low: float
    high: float
    ratio: float
    interval: tuple[float, float] | None
    """Of the ratio's median; None where there are too few turns."""


def compare(times: Times, ours: str = OURS) -> list[Row]:
    """A row for each side, from times of equal length: entry i of each belongs to turn i."""
    rows = []
    for side, values in times.items():
        ratios = [a / b for a, b in zip(times[ours], values, strict=True)]
        middle = statistics.median(ratios)
        rows.append(
            Row(side, statistics.median(values), min(values), max(values), middle, interval(ratios))
        )
    return rows


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    """[x_(k), x_(n+1-k)] of the sorted values, k the largest with P(B(n, 1/2) < k) <= 0.025."""
    n, tail, k = len(values), 0.0, 0
    while (tail := tail + math.comb(n, k) / 2**n) <= 0.025:
        k += 1
    ordered = sorted(values)
    return (ordered[k - 1], ordered[n - k]) if k else None


class Worker:
    """One side at work in its process."""

    def __init__(self, side: str, environment: Mapping[str, str], cores: set[int]):
        self.side = side
        self.process = subprocess.Popen(
            [sys.executable, "-m", "scripts.benchmark_sides", side],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(environment),
            text=True,
        )
        os.sched_setaffinity(self.process.pid, cores)
        self.facts: dict[str, Any] = json.loads(self._answer())

    def turn(self, steps: int) -> tuple[float, float]:
        """(wall, CPU) milliseconds a step."""
        print("step", steps, file=self.process.stdin, flush=True)
        wall, cpu = self._answer().split()
        return 1e3 * float(wall) / steps, 1e3 * float(cpu) / steps

    def _answer(self) -> str:
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.side} ended with code {self.process.wait()}; see above")
        return line

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def measure(workers: Sequence[Worker], pairs: int, one_core: bool, say: Callable) -> Times:
    """Milliseconds a step by side: wall time, or with `one_core` CPU time, of CALL steps a turn."""
    times: dict[str, list[float]] = {worker.side: [] for worker in workers}
    for pair in range(pairs):
        for worker in workers:
            times[worker.side].append(worker.turn(CALL)[one_core])
        now = "  ".join(f"{side} {values[-1]:.0f}" for side, values in times.items())
        say(f"turn {pair + 1}/{pairs}, ms a step: {now}")
    return times


def environment(allocator: str) -> dict[str, str]:
    """Of every worker: the CPU, and the allocator preloaded where it is not malloc."""
    out = os.environ | {"JAX_PLATFORMS": "cpu"}
    out.pop("LD_PRELOAD", None)
    if allocator == "tcmalloc":
        names = ("tcmalloc_minimal", "tcmalloc")
        library = next(filter(None, map(ctypes.util.find_library, names)), None)
        if not library:
            raise ValueError(
                "--allocator=tcmalloc needs libtcmalloc_minimal, and the loader does not find it; "
                "on Debian it is in the package libtcmalloc-minimal4"
            )
        out["LD_PRELOAD"] = library
    return out


def machine() -> dict[str, Any]:
    """Processor, cores, load and Python."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "load_before": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
    }


def markdown(record: Mapping[str, Any], rows: Sequence[Row]) -> str:
    """The report: a table, and what was compared under which conditions."""
    shape, host = record["shape"], record["machine"]
    clock = "CPU time on one core" if record["one_core"] else "wall time"
    lines = [
        f"A training step of {shape['layers']} layers, D={shape['model']}, {shape['heads']} heads, "
        f"mlp {shape['mlp']}, T={shape['length']}, batch {shape['batch']}, float32; {clock}, "
        f"{record['pairs']} turns of {CALL} steps. {host['processor']}, {host['cores']} cores, "
        f"load {host['load_before']} before and {record['load_after']} after.",
        "",
        f"| side | ms a step (min - max) | {OURS} / it (95 %) | parameters | threads | allocator "
        "| form | versions |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        facts = record["sides"][row.side]
        bounds = "{:.3f} - {:.3f}".format(*row.interval) if row.interval else "too few turns"
        ratio = "1" if row.side == OURS else f"{row.ratio:.3f} ({bounds})"
        cells = [
            row.side,
            f"{row.median:.0f} ({row.low:.0f} - {row.high:.0f})",
            ratio,
            f"{facts['parameters']:,}",
            facts["threads"],
            facts["allocator"],
            facts["form"],
            ", ".join(f"{name} {version}" for name, version in facts["versions"].items()),
        ]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    lines += [f"| {side} | {ABSENT} |  |  |  |  |  |  |" for side in record["absent"]]
    return "\n".join(lines) + "\n"


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    def names(text: str) -> tuple[str, ...]:
        return tuple(name for name in text.replace(" ", "").split(",") if name)

    parser = argparse.ArgumentParser(prog="scripts/benchmark", description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=12, help="turns of each side (default: 12)")
    parser.add_argument("--quick", action="store_true", help="3 turns, printed and not written")
    parser.add_argument(
        "--one_core",
        action="store_true",
        help="CPU time on one core, which neighbours hardly disturb, in place of wall time on all",
    )
    parser.add_argument("--allocator", choices=("malloc", "tcmalloc"), default="malloc")
    parser.add_argument(
        "--encodings",
        type=names,
        nargs="?",
        const=(),
        metavar="NAME,NAME",
        help="the cost of these encodings, or of all, against nope; goes on where it was cut off",
    )
    parser.add_argument("--turns", type=int, help="of --encodings, nope and each (default: 6)")
    parser.add_argument("--out", type=Path, help="default: results/benchmark[_encodings]")
    out = parser.parse_args(given)
    if out.encodings is None and out.turns is not None:
        parser.error("--turns belongs to --encodings; here it is --pairs")
    if out.encodings is not None:
        for name in ("pairs", "quick", "one_core", "allocator"):
            if getattr(out, name) != parser.get_default(name):
                parser.error(f"--{name} does not go with --encodings, which has --turns")
    out.turns = 6 if out.turns is None else out.turns
    for name in ("pairs", "turns"):
        if getattr(out, name) < 1:
            parser.error(f"--{name} must be at least 1, got {getattr(out, name)}")
    if out.quick:
        out.pairs = 3
    if out.out is None:
        out.out = Path("results/benchmark" if out.encodings is None else ENCODINGS_OUT)
    return out


def run(options: argparse.Namespace) -> tuple[dict[str, Any], list[Row]]:
    """The record that is written, and its rows."""

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    host = machine()
    if host["load_before"] > 0.5 and not options.one_core:
        say(f"The machine is busy (load {host['load_before']}): see --one_core, or wait.")
    peers = all(importlib.util.find_spec(name) for name in ("torch", "x_transformers"))
    present = [side for side in SIDES if peers or not side.startswith("x-transformers")]
    allowed = os.sched_getaffinity(0)
    cores = {max(allowed)} if options.one_core else allowed
    workers, begun = [], time.monotonic()
    try:
        for side in present:
            say(f"{side}: compiling and warming up")
            workers.append(Worker(side, environment(options.allocator), cores))
        times = measure(workers, options.pairs, options.one_core, say)
    finally:
        for worker in workers:
            worker.close()
    rows = compare(times)
    record = {
        "commit": commit(),
        "shape": dataclasses.asdict(Shape()),
        "pairs": options.pairs,
        "one_core": options.one_core,
        "machine": host,
        "load_after": round(os.getloadavg()[0], 2),
        "seconds": round(time.monotonic() - begun, 1),
        "sides": {worker.side: worker.facts for worker in workers},
        "absent": [side for side in SIDES if side not in present],
        "ms": times,
        "ratios": {row.side: {"median": row.ratio, "interval": row.interval} for row in rows},
    }
    return record, rows


def main() -> None:
    options = arguments()
    if options.encodings is not None:
        from scripts import benchmark_encodings

        sys.exit(benchmark_encodings.main(options.encodings, options.turns, options.out))
    try:
        record, rows = run(options)
    except (ValueError, RuntimeError) as error:
        sys.exit(f"scripts/benchmark: {error}")
    text = markdown(record, rows)
    print(text)
    if not options.quick:
        name = "step_one_core" if options.one_core else "step"
        write(options.out / f"{name}.json", json.dumps(record, indent=1) + "\n")
        write(options.out / f"{name}.md", text)
        print(f"Written: {options.out / name}.md and .json")


if __name__ == "__main__":
    main()
