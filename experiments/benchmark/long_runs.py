"""Runs the long-context benchmark: every run, swap, length and kind (a pass, or the gradient of
one) in a process of its own, so that its peak memory is its own. long_worker.py is that process.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.benchmark.long_report import NAME, model_name
from experiments.benchmark.long_worker import KINDS
from experiments.benchmark.paired import say
from pe_jax.compose.parse import parse
from pe_jax.report import study
from pe_jax.runs.environment import commit
from pe_jax.storage.atomic import read, write

Task = tuple[str, str, int, str]
"""The id of a run, a swap or "", a length, and a kind."""


def run(options: argparse.Namespace) -> dict[str, Any]:
    """The record of all measurements, written after each one. What the same commit has measured
    already is not measured again. ValueError for a misspelt swap or a folder without results.
    """
    results = study.load(options.workdir)
    if options.swap:
        parse(options.swap)
    labels = {result.id: result.label for result in results}
    tasks: list[Task] = [
        (id, swap, length, kind)
        for id in labels
        for swap in dict.fromkeys(("", options.swap))
        for kind, lengths in zip(KINDS, (options.lengths, options.gradients), strict=True)
        for length in lengths
    ]
    # The targets follow from all lengths, so what was measured among others does not count.
    lengths = sorted({*options.lengths, *options.gradients})
    path = options.out / f"{NAME}.json"
    kept = _kept(path, lengths)
    record: dict[str, Any] = {"source": results[0].corpus.source, "lengths": lengths, "found": []}
    for i, task in enumerate(tasks, 1):
        measured = kept.get(task) or _measured(task, options.workdir, labels[task[0]], lengths)
        # The environment is that of a worker, since this process must leave the device to workers.
        record = measured.get("environment", {}) | record
        record["found"].append(measured)
        if task not in kept:
            write(path, json.dumps(record, indent=1) + "\n")
            say(f"{i}/{len(tasks)} {_told(task, measured)}")
    return record


def _kept(path: Path, lengths: Sequence[int]) -> dict[Task, dict[str, Any]]:
    """What an earlier command has measured by the present commit at the same lengths."""
    before = read(path) or {}
    if (before.get("commit"), before.get("lengths")) != (commit(), lengths):
        return {}
    return {
        (measured["id"], measured["swap"], measured["length"], measured["kind"]): measured
        for measured in before["found"]
        if "seconds" in measured
    }


def _measured(task: Task, workdir: Path, label: str, lengths: Sequence[int]) -> dict[str, Any]:
    """What a worker has measured; if it fails, the last line of its errors is the reason."""
    id, swap, length, kind = task
    command = [sys.executable, "-m", "experiments.benchmark.long_worker"]
    command += [str(workdir / id), swap, str(length), kind, *map(str, lengths)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])
    why = (done.stderr.strip().splitlines() or [f"ended with code {done.returncode}"])[-1]
    failed = {"label": label, "id": id, "swap": swap, "length": length, "kind": kind}
    return failed | {"reason": why[-200:]}


def _told(task: Task, measured: Mapping[str, Any]) -> str:
    id, swap, length, kind = task
    result = f"{measured['seconds']:.1f} s" if "seconds" in measured else measured["reason"]
    return f"{model_name(id, swap)}, {kind} of {length:,}: {result}"
