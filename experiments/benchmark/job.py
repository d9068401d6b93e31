"""The whole job of one encoding, by pe_jax and by x-transformers in turns: training of the three
seeds of the quickstart, and their evaluation at its five lengths by its two metrics, without swaps.

Each turn of a side is a process of its own, timed from its start to its end: on all cores by the
clock, or on one core by its CPU time. Both train on the same batches and score the same windows.
pe_jax is what a user runs, `pe-jax run`, twice: with nothing compiled before, and with the programs
of the first time kept. The other side (job_peer.py) finds batches and windows in a file.
"""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from ml_collections import ConfigDict

from experiments.benchmark.paired import compare, machine, say
from pe_jax.configs import quickstart
from pe_jax.data import batches
from pe_jax.evaluation.windows import windows
from pe_jax.runs.environment import commit
from pe_jax.runs.run import Run
from pe_jax.storage.atomic import write

OURS, KEPT, PEER = "pe_jax", "pe_jax, programs kept", "x-transformers"
ENCODINGS = ("rope", "alibi", "t5", "sinusoidal", "nope")  # those of the quickstart that both have


def config_of(encoding: str) -> ConfigDict:
    """The quickstart's config of an encoding, without swaps."""
    config = quickstart.get_config(f"pe={encoding}")
    config.eval.swaps = ()
    return config


def prepare(run: Run, path: Path) -> None:
    """Writes batches, learning rates and windows of a run's job for the peer."""
    corpus, steps = run.load(), run.train.steps
    arrays, cuts = {}, []
    for seed in run.run.seeds:
        dataset = batches.batches(corpus.splits["train"], run.train.length, run.train.batch, seed)
        arrays[f"batches/{seed}"] = batches.stack([dataset], 0, steps)[:, 0].astype(np.uint8)
    for metric in run.eval.metrics:
        for length in run.eval.lengths:
            cut = windows(corpus.splits[run.eval.split], metric, length, run.eval)
            cuts.append(f"{metric}/{length}")
            arrays[f"{cuts[-1]}/tokens"] = cut.tokens.astype(np.uint8)
            arrays |= {f"{cuts[-1]}/lo": cut.lo, f"{cuts[-1]}/hi": cut.hi}
    lm, train = run.lm, run.train
    about = {k: getattr(lm, k) for k in ("vocab", "layers", "model", "heads")}
    about |= {k: getattr(train, k) for k in ("beta1", "beta2", "decay", "clip")}
    about |= {"mlp": lm.mlp or 4 * lm.model, "longest": max(run.eval.lengths)}
    about |= {"seeds": run.run.seeds, "cuts": cuts, "batch_tokens": run.eval.batch_tokens}
    schedule = train.rates_by_step()
    rates = np.array([np.asarray(schedule(step)) for step in range(steps)])
    np.savez(path, config=json.dumps(about), rates=rates, **arrays)


class Timed(NamedTuple):
    """What came of a process."""

    wall: float
    cpu: float
    """Seconds by the clock, and of CPU time."""
    out: str
    """What it printed."""


def timed(command: Sequence[str], variables: Mapping[str, str]) -> Timed:
    """Runs a process to its end. RuntimeError if it fails."""

    def cpu() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    wall, before = time.monotonic(), cpu()
    done = subprocess.run(command, env=dict(variables), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return Timed(time.monotonic() - wall, cpu() - before, done.stdout)


def ours(encoding: str, workdir: Path, cache: Path) -> dict[str, Any]:
    """The job by `pe-jax run`, which keeps its programs in the folder `cache`."""
    variables = os.environ | {"JAX_PLATFORMS": "cpu", "XDG_CACHE_HOME": str(cache)}
    variables.pop("JAX_COMPILATION_CACHE_DIR", None)
    command = [sys.executable, "-m", "pe_jax", "run"]
    command += [f"--config=quickstart.py:pe={encoding}", "--config.eval.swaps=()"]
    done = timed([*command, f"--workdir={workdir}"], variables)
    (path,) = workdir.glob("*/result.json")
    result, values = json.loads(path.read_text()), {}
    for row in result["rows"]:
        values.setdefault(f"{row['metric']}/{row['length']}", []).append(row["value"])
    return {"wall": done.wall, "cpu": done.cpu, "values": values}


def peer(encoding: str, data: Path) -> dict[str, Any]:
    """The job by x-transformers."""
    command = [sys.executable, "-m", "experiments.benchmark.job_peer", str(data), encoding]
    done = timed(command, os.environ)
    return {"wall": done.wall, "cpu": done.cpu, "values": json.loads(done.out.splitlines()[-1])}


def turns(encoding: str, count: int, peers: bool) -> dict[str, list[dict[str, Any]]]:
    """What each side took and scored, in each turn."""
    found: dict[str, list[dict[str, Any]]] = {side: [] for side in (OURS, KEPT, PEER)[: 2 + peers]}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(Run.of(config_of(encoding).to_dict()), folder / "job.npz")
        for turn in range(count):
            cache = folder / f"cache_{turn}"
            for side, done in found.items():
                workdir = folder / f"{turn}_{len(side)}"
                done.append(
                    peer(encoding, folder / "job.npz")
                    if side == PEER
                    else ours(encoding, workdir, cache)
                )
                last = done[-1]
                say(
                    f"{encoding}, turn {turn + 1}/{count}, {side}: {last['wall']:.0f} s, "
                    f"{last['cpu']:.0f} s of CPU time"
                )
    return found


def markdown(record: Mapping[str, Any]) -> str:
    """The report: the conditions, and a row for each encoding and side."""
    host, key = record["machine"], "cpu" if record["one_core"] else "wall"
    clock = "CPU time, on one core," if record["one_core"] else "wall time"
    lines = [
        "The quickstart's job of one encoding: training of three seeds and their evaluation at "
        f"five lengths by two metrics, without swaps; {clock} of the whole process. "
        f"{record['turns']} turns; {host['processor']}, {host['cores']} cores, load "
        f"{host['load_before']} before and {record['load_after']} after.",
        "",
        f"| encoding | side | seconds (min - max) | {OURS} / it (95 %) | "
        "bits per byte at the shortest and longest length |",
        "|---|---|---|---|---|",
    ]
    for encoding, sides in record["jobs"].items():
        totals = {side: [turn[key] for turn in done] for side, done in sides.items()}
        for row in compare(totals, OURS):
            lines.append(f"| {encoding} | {_cells(row, sides[row.side])} |")
    if record["absent"]:
        lines.append(f"| | {PEER} | n/a (x-transformers is not installed) | | |")
    return "\n".join(lines) + "\n"


def _cells(row: Any, done: Sequence[Mapping[str, Any]]) -> str:
    bounds = "{:.2f} - {:.2f}".format(*row.interval) if row.interval else "too few turns"
    values = [v for name, v in done[-1]["values"].items() if name.startswith("same_targets/")]
    ends = [statistics.mean(seeds) for seeds in (values[0], values[-1])]
    return " | ".join(
        [
            row.side,
            f"{row.median:.0f} ({row.low:.0f} - {row.high:.0f})",
            "1" if row.side == OURS else f"{row.ratio:.2f} ({bounds})",
            "{:.2f}, {:.2f}".format(*ends),
        ]
    )


def main(encodings: Sequence[str], count: int, one_core: bool, out: Path) -> int:
    """Measures, prints the report and writes it to `out`. The exit code."""
    if unknown := set(encodings) - set(ENCODINGS):
        say(f"scripts/benchmark: --job has {', '.join(ENCODINGS)}; got {', '.join(unknown)}")
        return 2
    if one_core:  # for the processes that this one starts, too
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    host = machine()
    peers = all(importlib.util.find_spec(name) for name in ("torch", "x_transformers"))
    try:
        jobs = {name: turns(name, count, peers) for name in encodings or ENCODINGS}
    except RuntimeError as error:
        say(f"scripts/benchmark: {error}")
        return 1
    record = {
        "commit": commit(),
        "turns": count,
        "one_core": one_core,
        "machine": host,
        "load_after": round(os.getloadavg()[0], 2),
        "absent": not peers,
        "jobs": jobs,
    }
    text = markdown(record)
    print(text)
    path = out / ("job_one_core" if one_core else "job")
    write(path.with_suffix(".json"), json.dumps(record, indent=1) + "\n")
    write(path.with_suffix(".md"), text)
    print(f"Written: {path}.md and .json")
    return 0
