"""The cost of every encoding: the time and memory of its training step, against nope's.

    ratio = time of the encoding's step / time of nope's just before, in the same process

Reported are medians of the paired ratios, with the interval of paired.py; nope against itself shows
the noise. Memory is what XLA plans for the temporaries of a compiled program: it is exact, and
nearly all the memory of a step, since the step writes the new state over the old one.

The model has the widths of paired.py (D=128, 4 heads of 32, mlp 512) and the quickstart's depth of
2 layers. It is trained at T=128 with dense and at T=1024 with blockwise attention, on as many
tokens a step. The ratios depend on the shape: in a wider model the dense layers weigh more, and
every encoding costs less; in a deeper one, so do encodings that act once on the model's input.
Encodings that only move positions are measured with rope. Evaluation is one forward pass of a
sequence, all its tokens scored, by a model that was trained at the longest of the lengths.
"""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from experiments.benchmark.encodings_table import markdown, ratio
from experiments.benchmark.paired import compare, machine, say
from experiments.benchmark.sides import Workload
from pe_jax import errors
from pe_jax.atlas.groups import group, spec_of
from pe_jax.compose.parse import parse
from pe_jax.encodings import ENCODINGS
from pe_jax.evaluation.scoring import target_nats
from pe_jax.model.config import LmConfig
from pe_jax.runs import environment
from pe_jax.storage import atomic
from pe_jax.training.step import init, make_steps, structure

NAME = "encodings.json"


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is measured of each encoding."""

    work: Workload = Workload(LmConfig(vocab=256, layers=2, model=128, heads=4, mlp=512))
    training: tuple[tuple[int, int, int], ...] = ((128, 32, 6), (1024, 4, 2))
    """(T, batch, steps in one call, as training makes several)."""
    evaluation: tuple[int, ...] = (8192, 16384)
    """Tokens of the sequence."""
    turns: int = 6
    """Of nope and the encoding, at each length. With fewer than 6 there is no interval."""


class Step:
    """The compiled training step of one spec, and the state that it advances."""

    def __init__(self, spec: str, work: Workload, steps: int):
        members = work.encodings(spec)
        graphdef, _ = structure(work.lm, members)
        self.batches = work.batches(steps)[:, None]
        self.state = init(work.lm, members, work.train, (0,))
        program = make_steps(graphdef, work.train, (0,))
        self.program = program.lower(self.state, self.batches).compile()
        self.memory = _temporaries(self.program)
        self()

    def __call__(self) -> float:
        """Makes the steps of one call and returns the milliseconds a step."""
        begun = time.perf_counter()
        self.state, _ = jax.block_until_ready(self.program(self.state, self.batches))
        return 1e3 * (time.perf_counter() - begun) / len(self.batches)


class Bench:
    """Measures encodings by a plan; the steps of nope are compiled once."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self.nope: dict[int, Step] = {}

    def measure(self, name: str) -> dict[str, Any]:
        """What is recorded of one encoding, except for the commit and the load: times in ms a step,
        memory in bytes.
        """
        work = self.plan.work
        spec = spec_of(name, work.lm.dims(work.train.length))
        return {
            "name": name,
            "spec": spec,
            "group": group(work.encodings(spec)),
            "training": [self._training(spec, *size) for size in self.plan.training],
            "evaluation": [self._evaluation(spec, length) for length in self.plan.evaluation],
        }

    def _training(self, spec: str, length: int, batch: int, steps: int) -> dict[str, Any]:
        work = self.plan.work.sized(length=length, batch=batch)
        if length not in self.nope:
            self.nope[length] = Step("nope", work, steps)
        nope, own = self.nope[length], Step(spec, work, steps)
        times: dict[str, list[float]] = {"own": [], "nope": []}
        for _ in range(self.plan.turns):
            times["nope"].append(nope())
            times["own"].append(own())
        row = compare(times, ours="own")[1]
        return {
            "length": length,
            "batch": batch,
            "ms": times["own"],
            "ms_nope": times["nope"],
            "ratio": row.ratio,
            "interval": row.interval,
            "memory": own.memory,
            "memory_ratio": own.memory / nope.memory,
        }

    def _evaluation(self, spec: str, length: int) -> dict[str, Any]:
        work = self.plan.work.sized(length=max(self.plan.training)[0])
        members = work.encodings(spec)
        graphdef, params = structure(work.lm, members)
        members = tuple(encoding.at(length) for encoding in members)
        limit = min((n for e in members if (n := e.limit()) is not None), default=length)
        if limit < length:
            return {"length": length, "reason": f"beyond its {limit:,} positions"}
        tokens = jax.ShapeDtypeStruct((1, length + 1), np.int32)
        options: dict[str, Any] = {"graphdef": graphdef, "encodings": members, "last": length}
        compiled = target_nats.lower(params, tokens, np.int32(0), **options).compile()
        return {"length": length, "memory": _temporaries(compiled)}


def run(names: Sequence[str], plan: Plan, out: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Measures those of `names` (none: all) that `out` lacks at the present commit. Returns the
    record, which is written after each one.

    ValueError for an unknown name; Refused if `names` are given, and `out` has measurements under
    other conditions.
    """
    for name in names:
        parse(name)
    commit, about = _conditions(plan)
    measurements = _kept(out / NAME, about, not names, say)
    fresh = {m["name"] for m in measurements if m["commit"] == commit and "failed" not in m}
    todo = [name for name in names or ENCODINGS if name not in fresh]
    bench, begun = Bench(plan), time.monotonic()
    for i, name in enumerate(todo, 1):
        load = round(os.getloadavg()[0], 2)
        measured = _measured(bench, name) | {"commit": commit, "load": load}
        measurements = [other for other in measurements if other["name"] != name] + [measured]
        _write(out, {"about": about, "found": measurements})
        left = (time.monotonic() - begun) / i * (len(todo) - i) / 60
        say(f"{i}/{len(todo)} {_told(measured)}; about {left:.0f} minutes left")
    return {"about": about, "found": measurements}


def _conditions(plan: Plan) -> tuple[str, dict[str, Any]]:
    """The commit, and all else that times and memory depend on, as JSON would hold it."""
    ran_on = environment.environment()
    commit = ran_on.pop("commit")
    host = {name: value for name, value in machine().items() if name != "load_before"}
    settings = {
        "training": plan.training,
        "evaluation": plan.evaluation,
        "turns": plan.turns,
    }
    about = {"shape": plan.work.sizes(), "plan": settings, "machine": host, **ran_on}
    return commit, json.loads(json.dumps(about))


def _kept(
    path: Path, about: Mapping[str, Any], everything: bool, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """The measurements in the file, of any commit. If they were made under other conditions: none
    where `everything` is measured anew, else Refused.
    """
    old = atomic.read(path)
    if old is None:
        return []
    differ = ", ".join(name for name in about if old["about"].get(name) != about[name])
    if differ and not everything:
        raise errors.Refused(
            f"{path} was measured under other conditions ({differ}): measure every encoding anew "
            "by --encodings without names, or give another folder by --out=DIR"
        )
    if differ:
        say(f"{path} was measured under other conditions ({differ}): all anew")
    return [] if differ else old["found"]


def _temporaries(program: Any) -> int:
    """The bytes that XLA plans for the temporaries of a compiled program."""
    return program.memory_analysis().temp_size_in_bytes


def _measured(bench: Bench, name: str) -> dict[str, Any]:
    try:
        return bench.measure(name)
    except Exception as error:  # go on with the others; the same command tries this one again
        return {"name": name, "failed": f"{type(error).__name__}: {error}".split("\n")[0]}


def _told(measured: Mapping[str, Any]) -> str:
    if "failed" in measured:
        return f"{measured['name']}: {measured['failed']}"
    ratios = [f"{ratio(part)} at T={part['length']:,}" for part in measured["training"]]
    return f"{measured['spec']}: {', '.join(ratios)}"


def _write(out: Path, kept: Mapping[str, Any]) -> None:
    atomic.write(out / NAME, json.dumps(kept, indent=1) + "\n")
    atomic.write(out / "encodings.md", markdown(kept) + "\n")


def main(names: Sequence[str], turns: int, out: Path) -> int:
    """Measures, prints the table and writes it. The exit code."""
    try:
        kept = run(names, Plan(turns=turns), out, say)
    except (ValueError, errors.Refused) as error:
        say(f"scripts/benchmark: {error}")
        return 2
    except KeyboardInterrupt:
        say(f"Stopped. What is measured is in {out}; the same command goes on.")
        return 130
    print(markdown(kept))
    print(f"\nWritten: {out}/encodings.md and .json")
    return int(any("failed" in measured for measured in kept["found"]))
