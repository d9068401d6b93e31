"""Comparison of pe_jax with other libraries: a training step, and the forward pass of a model."""

from __future__ import annotations

import importlib.util
import os
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.benchmark import turns
from experiments.benchmark.sides import CALL, OURS, PASSES, STEPS, Workload
from pe_jax.runs.environment import commit

SIDES = "experiments.benchmark.sides"
OTHERS = {"x-transformers": ("torch", "x_transformers"), "transformers": ("torch", "transformers")}
"""Packages required by the sides whose names begin with these."""

Answers = dict[str, list[dict[str, Any]]]
"""{row: its answers in each turn}"""


def step(count: int, one_core: bool, out: Path | None) -> None:
    """Times a training step of all sides that are installed."""
    cores = os.sched_getaffinity(0)
    workers = {}
    host = turns.machine()
    for side in _installed(STEPS):
        turns.say(f"{side}: compiling and warming up")
        workers[side] = turns.Worker(SIDES, side, cores={max(cores)} if one_core else cores)
    answers = _taken(count, {side: (worker, ()) for side, worker in workers.items()})
    clock = "cpu_ms" if one_core else "ms"
    ms = {side: [answer[clock] for answer in given] for side, given in answers.items()}
    ratios = {side: turns.ratio(ms[OURS], times)._asdict() for side, times in ms.items()}
    record = _about(host, workers) | {
        "shape": Workload().sizes(),
        "pairs": count,
        "one_core": one_core,
        "ms": ms,
        "ratios": ratios,
    }
    turns.report(record, step_markdown(record), out and out / f"step{'_one_core' * one_core}")


def step_markdown(record: Mapping[str, Any]) -> str:
    """A row for each side: its time, the ratio of pe_jax's time to it, and how it was made."""
    rows = []
    for side, times in record["ms"].items():
        facts, paired = record["sides"][side], turns.ratio(record["ms"][OURS], times)
        rows.append(
            [
                side,
                f"{statistics.median(times):.0f} ({min(times):.0f} - {max(times):.0f})",
                "1" if side == OURS else str(paired),
                f"{facts['parameters']:,}",
                str(facts["threads"]),
                *(facts["allocator"], facts["form"], _versions(facts)),
            ]
        )
    rows += [[side, "n/a (not installed)"] for side in STEPS if side not in record["ms"]]
    head = ["side", "ms a step (min - max)", f"{OURS} / it (95 %)", "parameters", "threads"]
    return (
        f"{step_of(record)}; {'CPU time on one core' if record['one_core'] else 'wall time'}, "
        f"{record['pairs']} turns of {CALL} steps. {conditions(record)}\n\n"
        + turns.table([*head, "allocator", "form", "versions"], rows)
    )


def step_of(record: Mapping[str, Any]) -> str:
    """The sizes of a training step in words."""
    shape = record["shape"]
    return (
        f"A training step of {shape['layers']} layers, D={shape['model']}, {shape['heads']} heads, "
        f"mlp {shape['mlp']}, T={shape['length']}, batch {shape['batch']}, float32"
    )


def passes(
    source: str, lengths: Sequence[int], swaps: Sequence[str], count: int, out: Path
) -> None:
    """Times a pass of a model at each length: unmodified, with each swap, and, for a pretrained
    model, in transformers if that is installed. All rows of a library share a process.
    """
    host = turns.machine()
    libraries = _installed(PASSES) if ":" in source else ["pe_jax"]
    workers = {library: turns.Worker(SIDES, library, source) for library in libraries}
    answers = {}
    for length in lengths:
        asked = {library: (worker, (length,)) for library, worker in workers.items()}
        asked |= {f"pe_jax, {swap}": (workers["pe_jax"], (length, swap)) for swap in swaps}
        answers[str(length)] = _taken(count, asked)
    record = _about(host, workers) | {"model": Path(source.rpartition(":")[2]).name, "turns": count}
    record |= {"lengths": answers}
    turns.report(record, passes_markdown(record), out / "passes")


def passes_markdown(record: Mapping[str, Any]) -> str:
    """A table for each length: seconds, the ratio to transformers (else to pe_jax), the score, and
    the temporaries that XLA plans. Below it the peak memory of each library's process.
    """
    peaks = {
        library: max(
            answer["peak_mib"]
            for answers in record["lengths"].values()
            for name, given in answers.items()
            for answer in given
            if name.partition(",")[0] == library
        )
        for library in record["sides"]
    }
    parts = [
        f"A forward pass of {record['model']}, one window at a time; wall time, "
        f"{record['turns']} turns. {conditions(record)} "
        + "; ".join(
            f"{_versions(facts)}: its process had {peaks[library]:,.0f} MiB at most"
            for library, facts in record["sides"].items()
        )
        + "."
    ]
    for length, answers in record["lengths"].items():
        base = "transformers" if "transformers" in answers else "pe_jax"
        seconds = {name: [turn["ms"] / 1e3 for turn in given] for name, given in answers.items()}
        rows = []
        for name, times in seconds.items():
            span = f"{statistics.median(times):.1f} ({min(times):.1f} - {max(times):.1f})"
            paired, last = turns.ratio(times, seconds[base]), answers[name][-1]
            rows.append([name, span, f"{paired.median:.2f}", f"{last['nats']:.4f}"])
            if "temporaries_mib" in last:
                rows[-1].append(f"{last['temporaries_mib']:,.1f}")
        head = [f"{length} tokens", "seconds (min - max)", f"times {base}'s", "nats a token"]
        parts.append(turns.table([*head, "temporaries, MiB"], rows))
    return "\n\n".join(parts)


def _versions(facts: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {number}" for name, number in facts["versions"].items())


def _installed(sides: Mapping[str, Any]) -> list[str]:
    def present(side: str) -> bool:
        packages = OTHERS.get(side.partition(",")[0], ())
        return all(importlib.util.find_spec(package) for package in packages)

    return [side for side in sides if present(side)]


def _taken(count: int, asked: Mapping[str, tuple[turns.Worker, tuple]]) -> Answers:
    answers: Answers = {name: [] for name in asked}
    for turn in range(count):
        for name, (worker, words) in asked.items():
            answers[name].append(worker.ask(*words))
        now = "  ".join(f"{name} {given[-1]['ms']:,.0f}" for name, given in answers.items())
        turns.say(f"turn {turn + 1}/{count}, ms: {now}")
    return answers


def _about(host: dict[str, Any], workers: Mapping[str, turns.Worker]) -> dict[str, Any]:
    load = round(os.getloadavg()[0], 2)
    sides = {name: worker.facts for name, worker in workers.items()}
    for worker in workers.values():
        worker.close()
    return {"commit": commit(), "machine": host, "load_after": load, "sides": sides}


def conditions(record: Mapping[str, Any]) -> str:
    """The machine and its load, in words."""
    host = record["machine"]
    return (
        f"{host['processor']}, {host['cores']} cores, load {host['load_before']} before and "
        f"{record['load_after']} after."
    )
