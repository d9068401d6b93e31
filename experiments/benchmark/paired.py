"""The time of a training step of pe_jax and of other implementations: the sides, which take turns,
so that noise hits them alike.

    ratio = time of pe_jax / time of the other side, in the same turn

Reported is the median of these paired ratios, with its 95 % confidence interval. Each side is a
process of its own (sides.py), and one of them works at a time. Linux only: it reads and sets the
cores that a process may use.
"""

from __future__ import annotations

import ctypes.util
import dataclasses
import importlib.util
import json
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scipy import stats

from experiments.benchmark.sides import CALL, OURS, SIDES, Workload
from experiments.benchmark.worker import Worker
from pe_jax.runs.environment import commit
from pe_jax.storage.atomic import write

Times = Mapping[str, Sequence[float]]
ABSENT = "n/a (x-transformers is not installed)"


@dataclasses.dataclass(frozen=True)
class Row:
    """One side: milliseconds a step (median, least and most of the turns), and the median ratio of
    ours to it, paired by turns.
    """

    side: str
    median: float
    low: float
    high: float
    ratio: float
    interval: tuple[float, float] | None
    """Of the ratio's median; None where there are too few turns."""


def compare(times: Times, ours: str = OURS) -> list[Row]:
    """A row for each side. ValueError unless all sides have as many times, one for each turn."""
    rows = []
    for side, values in times.items():
        ratios = [own / other for own, other in zip(times[ours], values, strict=True)]
        median, middle = statistics.median(values), statistics.median(ratios)
        rows.append(Row(side, median, min(values), max(values), middle, interval(ratios)))
    return rows


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    """The exact 95 % confidence interval of a median, whose ends are two of the values. None for
    fewer than six values, of which no two make such an interval.
    """
    bounds = stats.quantile_test(values, p=0.5).confidence_interval(0.95)
    return None if math.isnan(bounds.low) else (float(bounds.low), float(bounds.high))


def measure(workers: Sequence[Worker], pairs: int, one_core: bool) -> Times:
    """{side: milliseconds a step, for each turn}: wall time, or with `one_core` CPU time."""
    times: dict[str, list[float]] = {worker.side: [] for worker in workers}
    for pair in range(pairs):
        for worker in workers:
            times[worker.side].append(worker.turn(CALL)[one_core])
        now = "  ".join(f"{side} {values[-1]:.0f}" for side, values in times.items())
        say(f"turn {pair + 1}/{pairs}, ms a step: {now}")
    return times


def environment(allocator: str) -> dict[str, str]:
    """The environment variables of a worker: JAX on the CPU, and the allocator to preload, unless
    it is malloc. ValueError if the allocator is not installed.
    """
    variables = os.environ | {"JAX_PLATFORMS": "cpu"}
    variables.pop("LD_PRELOAD", None)
    if allocator == "tcmalloc":
        names = ("tcmalloc_minimal", "tcmalloc")
        library = next(filter(None, map(ctypes.util.find_library, names)), None)
        if not library:
            raise ValueError(
                "--allocator=tcmalloc needs libtcmalloc_minimal, and the loader does not find it; "
                "on Debian it is in the package libtcmalloc-minimal4"
            )
        variables["LD_PRELOAD"] = library
    return variables


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


def say(text: str) -> None:
    """Prints progress to standard error: standard output is for the report."""
    print(text, file=sys.stderr, flush=True)


def run(pairs: int, one_core: bool, allocator: str) -> tuple[dict[str, Any], list[Row]]:
    """The record to be written, and the rows of its table. ValueError if the allocator is not
    installed, RuntimeError if a side fails.
    """
    host = machine()
    if host["load_before"] > 0.5 and not one_core:
        say(f"The machine is busy (load {host['load_before']}): see --one_core, or wait.")
    peers = all(importlib.util.find_spec(name) for name in ("torch", "x_transformers"))
    present = [side for side in SIDES if peers or not side.startswith("x-transformers")]
    begun = time.monotonic()
    times, facts = _times_and_facts(present, pairs, one_core, environment(allocator))
    rows = compare(times)
    record = {
        "commit": commit(),
        "shape": Workload().sizes(),
        "pairs": pairs,
        "one_core": one_core,
        "machine": host,
        "load_after": round(os.getloadavg()[0], 2),
        "seconds": round(time.monotonic() - begun, 1),
        "sides": facts,
        "absent": [side for side in SIDES if side not in present],
        "ms": times,
        "ratios": {row.side: {"median": row.ratio, "interval": row.interval} for row in rows},
    }
    return record, rows


def _times_and_facts(
    sides: Sequence[str], pairs: int, one_core: bool, variables: Mapping[str, str]
) -> tuple[Times, dict[str, Any]]:
    allowed = os.sched_getaffinity(0)
    cores = {max(allowed)} if one_core else allowed
    workers: list[Worker] = []
    try:
        for side in sides:
            say(f"{side}: compiling and warming up")
            module = "experiments.benchmark.sides", side
            workers.append(Worker(side, module, variables, cores))
        return measure(workers, pairs, one_core), {w.side: w.facts for w in workers}
    finally:
        for worker in workers:
            worker.close()


def markdown(record: Mapping[str, Any], rows: Sequence[Row]) -> str:
    """The report: what was measured under which conditions, and a table of the sides."""
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
        lines.append("| " + " | ".join(_cells(row, record["sides"][row.side])) + " |")
    lines += [f"| {side} | {ABSENT} |  |  |  |  |  |  |" for side in record["absent"]]
    return "\n".join(lines) + "\n"


def _cells(row: Row, facts: Mapping[str, Any]) -> list[str]:
    bounds = "{:.3f} - {:.3f}".format(*row.interval) if row.interval else "too few turns"
    return [
        row.side,
        f"{row.median:.0f} ({row.low:.0f} - {row.high:.0f})",
        "1" if row.side == OURS else f"{row.ratio:.3f} ({bounds})",
        f"{facts['parameters']:,}",
        str(facts["threads"]),
        facts["allocator"],
        facts["form"],
        ", ".join(f"{name} {version}" for name, version in facts["versions"].items()),
    ]


def main(pairs: int, one_core: bool, allocator: str, out: Path | None) -> int:
    """Measures, prints the report and writes it to `out`, unless that is None. The exit code."""
    try:
        record, rows = run(pairs, one_core, allocator)
    except (ValueError, RuntimeError) as error:
        say(f"scripts/benchmark: {error}")
        return 1
    text = markdown(record, rows)
    print(text)
    if out:
        path = out / ("step_one_core" if one_core else "step")
        write(path.with_suffix(".json"), json.dumps(record, indent=1) + "\n")
        write(path.with_suffix(".md"), text)
        print(f"Written: {path}.md and .json")
    return 0
