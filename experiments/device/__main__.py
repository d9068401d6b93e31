"""Measurements on one device, in some ten minutes: numbers of the fused kernel, attention beside
cuDNN and FlexAttention, training steps beside nanoGPT's, evaluation at 16,384 tokens.

python -m experiments.device [PART ...] [--device=gpu|tpu|cpu] [--minutes=10] [--out=DIR] [--tiny]
    [--torch=PYTHON]
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from configs import encodings, gpt2_small
from experiments.device.report import markdown
from experiments.device.serve import SIZES, WINDOW
from pe_jax.encoding import Dims, sites
from pe_jax.runs import environment
from pe_jax.specs.parse import make
from pe_jax.storage import atomic, jsonl

SHARES = {"kernel": 0.25, "attention": 0.25, "step": 0.35, "evaluation": 0.15}
"""The parts, with their shares of the time; what one leaves goes to the next."""
PEERS = "FlexAttention", "nanoGPT"
PLATFORMS = {"gpu": "cuda", "tpu": "tpu", "cpu": "cpu"}
"""JAX's names of the devices; PyTorch knows the first and the last."""


def cases(part: str, scale: str) -> Iterator[str]:
    """The cases of a part, the most telling first, those of a library next to each other."""
    if part == "kernel":
        yield from (f"{part}/{spec}" for spec in specs(scale))
    elif part == "attention":
        lengths = (1024, 4096, 16384) if scale == "full" else (SIZES[scale].length,)
        shown = "rope", "alibi", "t5", f"rope+window(window={WINDOW[scale]})"
        for forms in (("fused", "JAX"), PEERS[:1]):
            names = itertools.product(lengths, shown, forms)
            yield from (f"{part}/{length}/{spec}/{form}" for length, spec, form in names)
    else:
        yield from ["step/gpt2_small/nanoGPT"] * (part == "step")
        configs = ("gpt2_small", "encodings_gpu") if part == "step" else ("gpt2_small",)
        names = itertools.product(configs, gpt2_small.ENCODINGS[:: 1 if scale == "full" else 4])
        yield from (f"{part}/{config}/{spec}" for config, spec in names)


def specs(scale: str) -> list[str]:
    """Every encoding with a partner where it needs one, those with new hooks first."""
    if scale == "tiny":
        return ["alibi", "forget_gate", "cope"]
    alone = (name for name, beside in encodings.BESIDE.items() if not beside)
    names = dict.fromkeys((*encodings.specs(), *alone))
    seen, first, others = set(), [], []
    for name in names:
        if "[" in name:  # several layers
            continue
        hooks = {hook for e in make(name, Dims(64, 4, 16, 1, 64, 256)) for hook in sites(e)}
        (others if hooks <= seen else first).append(name)
        seen |= hooks
    return first + others


def rows(command: Sequence[str], cases: Sequence[str], deadline: float) -> Iterator[dict]:
    """The rows of cases, measured by a process. Where it dies, the case at which it died is refused
    and the others are measured by another one; where two in a row measure nothing, none is left.
    """
    left, silent = list(cases), 0
    while left and silent < 2 and time.monotonic() < deadline:
        with subprocess.Popen([*command, *left], stdout=subprocess.PIPE, text=True) as process:
            timer = threading.Timer(deadline - time.monotonic(), process.kill)
            timer.start()
            silent += 1
            for line in process.stdout or ():
                row = json.loads(line)
                left.remove(row["case"])
                silent = 0
                yield row
            timer.cancel()
        if left and not silent and time.monotonic() < deadline:
            yield {"case": left.pop(0), "refused": f"its process ended: {process.wait()}"}


def main(given: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="scripts/gpu", description=(__doc__ or "").partition("\n\n")[0]
    )
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(SHARES)}; all by default")
    parser.add_argument("--device", choices=PLATFORMS, default="gpu")
    parser.add_argument("--minutes", type=float, default=10.0, help="for all parts")
    parser.add_argument("--out", type=Path, default=Path("runs/gpu"), help="of the record")
    parser.add_argument("--tiny", action="store_true", help="sizes of a test")
    parser.add_argument("--torch", metavar="PYTHON", help="an interpreter with torch, for peers")
    options = parser.parse_args(given)
    if unknown := {*options.parts} - {*SHARES}:
        parser.error(f"parts are {', '.join(SHARES)}, got {unknown.pop()}")
    os.environ["JAX_PLATFORMS"] = PLATFORMS[options.device]
    record, commit = options.out / "device.jsonl", environment.commit()
    scale = "tiny" if options.tiny else "full"
    options.out.mkdir(parents=True, exist_ok=True)
    done = {row["case"]: row for row in jsonl.read_lines(record) if row["commit"] == commit}
    ours = [sys.executable, "-m", "experiments.device.cases", scale]
    theirs = [options.torch, "-m", "experiments.device.peers", PLATFORMS[options.device], scale]
    deadline, wanted = time.monotonic(), []
    for part, share in SHARES.items():
        deadline += 60 * options.minutes * share
        names = list(cases(part, scale)) if part in (options.parts or SHARES) else []
        wanted += names
        for peers, group in itertools.groupby(names, lambda name: name.endswith(PEERS)):
            todo = [name for name in group if name not in done]
            if peers and not options.torch:
                say(f"{len(todo)} cases of {part} need an interpreter with torch: --torch=PYTHON")
                continue
            for row in rows(theirs if peers else ours, todo, deadline):
                done[row["case"]] = row | {"commit": commit}
                jsonl.append(record, [done[row["case"]]])
                say(f"{row['case']}: {row.get('refused', 'measured')}")
    text = markdown(list(done.values()))
    atomic.write(options.out / "device.md", text + "\n")
    print(text)
    if lacking := [name for name in wanted if name not in done]:
        say(f"Not measured: {', '.join(lacking)}. The same command goes on with them.")
    return 0


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
