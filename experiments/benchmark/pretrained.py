"""The time of a forward pass of a pretrained model at long lengths: here, as it is and with swaps,
and in HuggingFace's transformers with PyTorch's scaled dot-product attention.

Both read the weights of the same file and compute in float32, one window of random tokens at a
time, of which the last KEPT are scored. A side is a process of its own. Sides take turns, so that
noise hits them alike, and nothing is compiled in a timed pass. How far the scores of the two
libraries lie apart is part of the record.
"""

from __future__ import annotations

import collections
import importlib.util
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from experiments.benchmark.paired import compare, environment, machine, say
from experiments.benchmark.worker import Worker
from pe_jax.runs.environment import commit
from pe_jax.storage.atomic import write

OURS, THEIRS = "pe_jax", "transformers"
KEPT = 256
ABSENT = "n/a (transformers and torch are not installed)"

Score = Callable[[int, str], tuple[float, float]]
"""score(tokens, swap) -> (seconds of a pass, mean -ln p of its last KEPT targets)."""


def main(source: str, lengths: Sequence[int], swaps: Sequence[str], turns: int, out: Path) -> int:
    """Measures, prints the report and writes it to `out`. The exit code."""
    try:
        record = run(source, lengths, swaps, turns)
    except (ValueError, RuntimeError, OSError) as error:
        say(f"scripts/benchmark: {error}")
        return 1
    text = markdown(record)
    print(text)
    write(out / "pretrained.json", json.dumps(record, indent=1) + "\n")
    write(out / "pretrained.md", text)
    print(f"Written: {out / 'pretrained'}.md and .json")
    return 0


def run(source: str, lengths: Sequence[int], swaps: Sequence[str], turns: int) -> dict[str, Any]:
    """The record that is written. RuntimeError if a side fails."""
    host = machine()
    if host["load_before"] > 0.5:
        say(f"The machine is busy (load {host['load_before']}): the ratios still are of one time.")
    present = all(importlib.util.find_spec(name) for name in ("torch", THEIRS))
    workers = {
        name: Worker(
            name,
            ["experiments.benchmark.pretrained", name, source],
            environment("malloc"),
            os.sched_getaffinity(0),
        )
        for name in (OURS, *([THEIRS] if present else []))
    }
    try:
        sides = [(OURS, ""), *((THEIRS, "") for _ in range(present))]
        sides += [(OURS, swap) for swap in swaps]
        measured = [_measured(workers, sides, length, turns) for length in lengths]
    finally:
        for worker in workers.values():
            worker.close()
    return {
        "commit": commit(),
        "model": source.rpartition("/")[2],
        "turns": turns,
        "machine": host,
        "sides": {name: worker.facts for name, worker in workers.items()},
        "lengths": dict(zip(map(str, lengths), measured, strict=True)),
    }


def _measured(
    workers: Mapping[str, Worker], sides: Sequence[tuple[str, str]], length: int, turns: int
) -> dict[str, Any]:
    """Seconds of each side in each turn, its score, and the most memory that its process, which all
    sides of a library share, has had so far.
    """
    found = {_name(*side): {"seconds": [], "nats": 0.0, "peak_mib": 0.0} for side in sides}
    for turn in range(turns):
        for worker, swap in sides:
            name = _name(worker, swap)
            answer = json.loads(workers[worker].ask(str(length), swap))
            found[name]["seconds"].append(answer["seconds"])
            found[name] |= {"nats": answer["nats"], "peak_mib": answer["peak_mib"]}
            say(f"{length} tokens, turn {turn + 1}/{turns}, {name}: {answer['seconds']:.1f} s")
    return found


def _name(side: str, swap: str) -> str:
    return ", ".join(filter(None, [side, swap]))


def markdown(record: Mapping[str, Any]) -> str:
    """What was measured, and a table for each length."""
    host, lengths = record["machine"], record["lengths"]
    versions = (facts["versions"] for facts in record["sides"].values())
    peaks = collections.defaultdict(float)
    for name, own in (item for found in lengths.values() for item in found.items()):
        worker = name.partition(",")[0]
        peaks[worker] = max(peaks[worker], own["peak_mib"])
    lines = [
        f"A forward pass of {record['model']}, float32, one window at a time; wall time, "
        f"{record['turns']} turns. {host['processor']}, {host['cores']} cores, load "
        f"{host['load_before']} before. "
        + "; ".join(", ".join(f"{n} {v}" for n, v in own.items()) for own in versions)
        + ". Peak memory of the process that ran all rows of a library: "
        + ", ".join(f"{worker} {peak:,.0f} MiB" for worker, peak in peaks.items())
        + "."
    ]
    for length, found in lengths.items():
        lines += [
            "",
            f"| {length} tokens | seconds (min - max) | times {THEIRS}' | nats a token |",
            "|---|---|---|---|",
            *(_line(found, name) for name in found),
        ]
        if THEIRS not in found:
            lines.append(f"| {THEIRS} | {ABSENT} |  |  |")
    return "\n".join(lines) + "\n"


def _line(found: Mapping[str, Any], name: str) -> str:
    """The row of one side; its ratio is the median over turns."""
    seconds = {side: found[side]["seconds"] for side in (name, THEIRS) if side in found}
    rows = compare(seconds, name)
    ratio = f"{rows[-1].ratio:.2f}" if THEIRS in found else "n/a"
    return (
        f"| {name} | {rows[0].median:.1f} ({rows[0].low:.1f} - {rows[0].high:.1f}) | {ratio} "
        f"| {found[name]['nats']:.4f} |"
    )


def _ours(source: str) -> tuple[dict[str, str], Score]:
    import jax

    from pe_jax.evaluation.scoring import target_nats
    from pe_jax.pretrained.load import load

    model, compiled = load(source), {}

    def score(length: int, swap: str) -> tuple[float, float]:
        tokens = _tokens(length, model.lm.vocab)
        arguments = model.params, tokens, np.int32(0)
        if (length, swap) not in compiled:
            encodings = tuple(e.at(length) for e in model.encodings(swap))
            fixed = {"graphdef": model.graphdef, "encodings": encodings, "last": min(KEPT, length)}
            compiled[length, swap] = target_nats.lower(*arguments, **fixed).compile()
        begun = time.monotonic()
        nats = np.asarray(compiled[length, swap](*arguments))
        return time.monotonic() - begun, float(nats.mean())

    return {"jax": jax.__version__}, score


def _theirs(source: str) -> tuple[dict[str, str], Score]:
    import torch  # pyright: ignore[reportMissingImports]
    import transformers  # pyright: ignore[reportMissingImports]

    kind, _, place = source.partition(":")
    path = Path(place)
    where = {"gguf_file": path.name} if kind == "gguf" else {}
    folder = path.parent if kind == "gguf" else path
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="sdpa", **where
    ).eval()

    def score(length: int, swap: str) -> tuple[float, float]:
        assert not swap, "swaps are of pe_jax"
        tokens = torch.tensor(_tokens(length, model.config.vocab_size), dtype=torch.long)
        begun = time.monotonic()
        with torch.no_grad():
            logits = model(tokens[:, :-1], logits_to_keep=KEPT, use_cache=False).logits[0]
        seconds = time.monotonic() - begun
        nats = torch.nn.functional.cross_entropy(logits, tokens[0, -len(logits) :])
        return seconds, float(nats)

    return {name: version(name) for name in ("transformers", "torch")}, score


def _tokens(length: int, vocab: int) -> np.ndarray:
    """Random tokens, int32 [1, length + 1]."""
    return np.random.default_rng(0).integers(0, vocab, (1, length + 1)).astype(np.int32)


def work(side: str, source: str) -> None:
    """Answers each line "LENGTH SWAP" of standard input with a line of JSON."""
    versions, score = (_ours if side == OURS else _theirs)(source)
    print(json.dumps({"versions": versions}), flush=True)
    for line in sys.stdin:
        length, _, swap = line.rstrip("\n").partition(" ")
        seconds, nats = score(int(length), swap)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"seconds": seconds, "nats": nats, "peak_mib": peak}), flush=True)


if __name__ == "__main__":
    work(*sys.argv[1:])
