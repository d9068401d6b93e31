"""Text larger than memory: CPU time and memory of making its store and of runs on it, beside a run
on a small text; and the time of batches from the mapped file beside those from memory.

The text is made of pieces of a corpus of three to five words in random order, so that it repeats no
passage; one document in fifty is a copy of an earlier one.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from experiments.benchmark import turns
from pe_jax.data.batches import Batches
from pe_jax.data.documents import Documents
from pe_jax.data.load import load
from pe_jax.runs.environment import commit

SHAPES = {"long": 150_000, "short": 400}
"""The bytes of a document: of a book, and of a page of the web."""
FILES = 16
LENGTH = 256
RUN = (
    f"run --config=configs/base.py:pe=rope --config.train.length={LENGTH} --config.train.steps=2 "
    "--config.train.batch=32 --config.run.seeds=0, --config.eval.swaps=() "
    f"--config.eval.lengths={LENGTH}, --config.eval.metrics=nonoverlapping "
    "--config.eval.targets=8192"
)


def run(gigabytes: float, source: str, folder: Path, times: int, out: Path | None) -> None:
    """Measures a text of so many gigabytes in each shape, made below `folder`, where it stays."""
    small = folder / "small"
    record: dict[str, Any] = {"commit": commit(), "machine": turns.machine()}
    record |= {"gigabytes": gigabytes, "shapes": {}}
    for shape, size in SHAPES.items():
        text, store = folder / shape, folder / f"{shape}.store"
        if not text.exists():
            turns.say(f"{shape}: writing the text")
            apart(write, text, source, int(gigabytes * 1e9), size)
            apart(write, small / shape, source, 10 * 10**6, size)
        measures: dict[str, Any] = {"bytes": sum(p.stat().st_size for p in text.iterdir())}
        options = f"--source=files:{text} --store={store}"
        measures["making"] = measured(f"prepare {options}")
        measures["documents"] = sum(
            len(d) for d in load(f"files:{text}", "", f"{store}").splits.values()
        )
        for name, where in (("run", text), ("small", small / shape)):
            data = f"--config.data.source=files:{where} --config.data.store={store}"
            workdir = folder / f"{shape}.{name}.{time.time_ns()}"
            measures[name] = measured(f"{RUN} {data} --workdir={workdir}")
        measures["batches"] = apart(batches, f"files:{text}", f"{store}", times)
        record["shapes"][shape] = measures
        turns.say(json.dumps(measures))
    turns.report(record, markdown(record), out / "data" if out else None)


def apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a function, in a process of its own: the peak of a child begins at that of its
    parent, which stays small.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def write(folder: Path, source: str, size: int, document: int) -> None:
    """Writes `size` bytes of text as FILES files of .jsonl, documents of about `document` bytes."""
    words = b" ".join(d.tobytes() for d in load(source).splits["train"]).decode().split()
    rng = np.random.default_rng(0)
    cuts = np.cumsum(rng.integers(3, 6, len(words) // 4))
    parts = [
        json.dumps(" ".join(words[a:b]), ensure_ascii=False)[1:-1].encode() + b" "
        for a, b in zip(cuts[:-1], cuts[1:], strict=True)
        if b <= len(words)
    ]
    pieces = np.array(parts, object)
    mean = sum(map(len, parts)) / len(parts)
    folder.mkdir(parents=True)
    draw = random.Random(0)
    for number in range(FILES):
        with (folder / f"{number:02d}.jsonl").open("wb") as file:
            kept = b""
            while file.tell() < size / FILES:
                text = b"".join(pieces[rng.integers(0, len(pieces), max(1, int(document / mean)))])
                if kept and draw.random() < 0.02:
                    text = kept
                elif draw.random() < 0.02:
                    kept = text
                file.write(b'{"text": "' + text + b'"}\n')


def measured(arguments: str) -> dict[str, float]:
    """CPU and wall seconds and peak memory (MB) of a command of pe-jax. RuntimeError where it
    fails.
    """
    begun = time.monotonic()
    process = subprocess.Popen([sys.executable, "-m", "pe_jax", *shlex.split(arguments)])
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"pe-jax {arguments} has failed")
    return {
        "cpu": round(usage.ru_utime + usage.ru_stime, 1),
        "wall": round(time.monotonic() - begun, 1),
        "peak_mb": round(usage.ru_maxrss * 1024 / 1e6),
    }


def batches(source: str, store: str, times: int, steps: int = 200) -> dict[str, list[float]]:
    """CPU milliseconds of a batch from the mapped file, and of the same batch of documents in
    memory (at most a gigabyte of them), in turns.
    """
    mapped = load(source, "", store).splits["train"]
    mapped = mapped.take(slice(0, int(np.searchsorted(np.cumsum(mapped.sizes), 1e9))))
    sides = {"mapped": mapped, "memory": Documents.of([*mapped])}
    readers = {name: Batches(documents, LENGTH, 32, 0) for name, documents in sides.items()}
    spent: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(times):
        for name in sorted(sides, reverse=bool(turn % 2)):
            begun = time.process_time()
            for step in range(turn * steps, (turn + 1) * steps):
                readers[name][step]
            spent[name].append(round(1000 * (time.process_time() - begun) / steps, 4))
    return spent


def markdown(record: dict[str, Any]) -> str:
    """A row for each shape."""
    rows = []
    for shape, measures in record["shapes"].items():
        making, own, small = (measures[name] for name in ("making", "run", "small"))
        mapped, memory = (measures["batches"][name] for name in ("mapped", "memory"))
        rows.append(
            [
                *(shape, f"{measures['bytes'] / 1e9:.2f}", f"{measures['documents']:,}"),
                *(f"{making['cpu']:.0f}", f"{making['peak_mb']:,}", f"{own['cpu']:.1f}"),
                *(f"{small['cpu']:.1f}", f"{own['peak_mb']:,}", f"{small['peak_mb']:,}"),
                *(f"{sorted(memory)[len(memory) // 2]:.2f}", str(turns.ratio(mapped, memory))),
            ]
        )
    head = "shape,GB,documents,CPU s of making,peak MB of making,CPU s of a run,on 10 MB"
    head += ",peak MB of a run,on 10 MB,CPU ms of a batch in memory,mapped beside memory"
    return turns.table(head.split(","), rows)
