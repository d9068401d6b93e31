"""A sweep under random kills: its results must be those of an undisturbed one.

    python -m experiments.faults.engines --runs=20 --kinds local ray shards

A process of the sweep is killed by SIGKILL every few seconds: one of its runs, a worker of Ray, or
the sweep itself. What has ended early is given again, as its last line says. Needs Linux's /proc.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

KINDS = {
    "local": (("--jobs=2",),),
    "ray": (("--jobs=2", "--engine=ray"),),
    "shards": tuple(("--jobs=1", f"--shard={i}/3") for i in (1, 2, 3)),
}
"""The commands that do the sweep, by their flags."""
STUDY = """
from pe_jax.configs.base import get_config as base

TINY = {{
    "lm": dict(model=16, heads=2, layers=1),
    "train": dict(steps=60, steps_per_call=2, length=16, batch=4),
    "eval": dict(lengths=(16, 32), targets=256),
    "run": dict(seeds=(0, 1)),
    "log": dict(checkpoint_seconds=0.0),
    "data": dict(source={source!r}),
}}


def get_config(arg="pe=rope"):
    config = base(arg)
    for name, values in TINY.items():
        config[name].update(values)
    return config


def get_hyper(h):
    return h.sweep("config.train.rate", [1e-3 * (1 + i / 1000) for i in range({runs})])
"""


class Outcome(NamedTuple):
    """What a sweep under kills came to."""

    kills: int
    commands: int
    """How many sweeps were started; those that are not the first went on."""
    different: list[str]
    """The ids of runs whose rows are not those of the undisturbed sweep."""


def sweep_under_kills(
    folder: Path, runs: int = 20, kind: str = "local", every: float = 4.0, seed: int = 0
) -> Outcome:
    """Does a sweep of `runs` toy runs, undisturbed in `folder`/alone and, as one of KINDS, in
    `folder`/KIND, while a random process is killed every `every` seconds in the mean. With the
    folder of an earlier call, what is there goes on. RuntimeError if a sweep fails by itself.
    """
    rng = random.Random(seed)
    study = _study(folder, runs)
    alone, disturbed = folder / "alone", folder / kind
    if _start(study, alone, ("--jobs=2",)).wait():
        raise RuntimeError(f"the undisturbed sweep has failed: see {alone}.log")
    at_work = {flags: _start(study, disturbed, flags) for flags in KINDS[kind]}
    kills, commands = 0, len(at_work)
    while at_work:
        time.sleep(rng.expovariate(1 / every))
        victims = _victims(disturbed)
        if victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(rng.choice(victims), signal.SIGKILL)
            kills += 1
        for flags, process in list(at_work.items()):
            if process.poll() == 0:
                del at_work[flags]
            elif process.returncode is not None:
                at_work[flags] = _start(study, disturbed, flags)
                commands += 1
        if commands > kills + len(KINDS[kind]):
            raise RuntimeError(f"a sweep has failed though none was killed: see {disturbed}.log")
    wanted, got = _rows(alone), _rows(disturbed)
    different = [id for id in wanted if wanted[id] != got.get(id)]
    return Outcome(kills, commands, different)


def _study(folder: Path, runs: int) -> Path:
    """The config file of the sweep, with its text beside it."""
    rng = random.Random(0)
    text = folder / "text"
    text.mkdir(parents=True, exist_ok=True)
    words = ["".join(rng.choices("etaoinshrdlu", k=rng.randint(2, 7))) for _ in range(100)]
    for i in range(12):
        (text / f"{i:02d}.txt").write_text(" ".join(rng.choices(words, k=600)))
    study = folder / "study.py"
    study.write_text(STUDY.format(source=f"files:{text}", runs=runs))
    return study


def _start(study: Path, workdir: Path, flags: tuple[str, ...]) -> subprocess.Popen[bytes]:
    """A sweep, whose runs all have one thread; what it says goes to WORKDIR.log."""
    command = [sys.executable, "-m", "pe_jax.commands", "sweep"]
    command += [f"--config={study}", f"--workdir={workdir}", *flags]
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "NPROC": "1"}
    with open(f"{workdir}.log", "ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, env=environment)


def _victims(workdir: Path) -> list[int]:
    """The processes of the sweeps of a work directory: sweeps, runs, and workers of Ray that wait
    for a run.
    """
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if f"--workdir={workdir}" in path.read_text(errors="replace").split("\0"):
                found.add(int(path.parent.name))
                parent = int((path.parent / "stat").read_text().rpartition(")")[2].split()[1])
                if "carry_out" in Path(f"/proc/{parent}/cmdline").read_text(errors="replace"):
                    found.add(parent)
    return sorted(found)


def _rows(workdir: Path) -> dict[str, Any]:
    """The rows of each result by the run's id."""
    paths = workdir.glob("*/result.json")
    return {path.parent.name: json.loads(path.read_text())["rows"] for path in paths}


def main() -> int:
    """Prints what a sweep under kills came to; 1 if a result differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=[*KINDS])
    parser.add_argument("--every", type=float, default=4.0, help="seconds between kills")
    options = parser.parse_args()
    different = 0
    with tempfile.TemporaryDirectory() as folder:
        for kind in options.kinds:
            found = sweep_under_kills(Path(folder), options.runs, kind, options.every)
            different += len(found.different)
            print(
                f"{kind}: {options.runs} runs, {found.kills} kills, {found.commands} commands, "
                f"{len(found.different)} results that differ from those of an undisturbed sweep",
                flush=True,
            )
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
