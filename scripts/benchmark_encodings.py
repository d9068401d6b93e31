"""The cost of every encoding: its training step, and its memory, against nope's.

    ratio = time of the encoding's step / time of nope's just before, in the same process

The medians of the paired ratios have the interval of scripts/benchmark. nope against itself shows
the noise. Memory is what XLA plans for the temporaries of a compiled program: exact, and of a
step in which states are given away nearly all there is.

The model has the widths of scripts/benchmark (D=128, 4 heads of 32, mlp 512) and the quickstart's
depth of 2 layers, at T=128 with dense and at T=1024 with blockwise attention, by as many tokens.
Ratios depend on that. In a wider model the dense layers weigh more, and every encoding costs less;
in a deeper one, so does what acts once on the model's input. What only moves positions is measured
with rope. Evaluation is one forward pass of a sequence, all its tokens scored, by a model of the
longest trained length.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from pe_jax import atomic, environment, errors
from pe_jax.encodings import ENCODINGS
from pe_jax.scoring import target_nats
from pe_jax.spec import parse
from pe_jax.step import init, make_steps, structure
from scripts.benchmark import compare, machine
from scripts.benchmark_encodings_table import markdown, ratio
from scripts.benchmark_sides import Shape, parts
from scripts.kinds import group, spec_of


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is measured of each encoding."""

    shape: Shape = dataclasses.field(default_factory=lambda: Shape(layers=2))
    training: tuple[tuple[int, int, int], ...] = ((128, 32, 6), (1024, 4, 2))
    """(T, batch, steps in one call, as training makes several)."""
    evaluation: tuple[int, ...] = (8192, 16384)
    turns: int = 6
    """The fewest with an interval."""


class Step:
    """The compiled training step of one spec, and the state that it leads on."""

    def __init__(self, spec: str, shape: Shape, steps: int):
        model, members, train = parts(shape, spec)
        graphdef, _ = structure(model, members)
        self.batches = shape.batches(steps)[:, None]
        self.state = init(model, members, train, (0,))
        program = make_steps(graphdef, train, (0,))
        self.program = program.lower(self.state, self.batches).compile()
        self.memory = self.program.memory_analysis().temp_size_in_bytes
        self()

    def __call__(self) -> float:
        """Milliseconds a step."""
        begun = time.perf_counter()
        self.state, _ = jax.block_until_ready(self.program(self.state, self.batches))
        return 1e3 * (time.perf_counter() - begun) / len(self.batches)


class Bench:
    """Measures encodings by a plan; the steps of nope are compiled once."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self.nope: dict[int, Step] = {}

    def measure(self, name: str) -> dict[str, Any]:
        """All that is found of one encoding."""
        spec = spec_of(name, parts(self.plan.shape, "nope")[0].dims(self.plan.shape.length))
        members = parts(self.plan.shape, spec)[1]
        training = [self._training(spec, *size) for size in self.plan.training]
        evaluation = [self._evaluation(spec, length) for length in self.plan.evaluation]
        return {
            "name": name,
            "spec": spec,
            "group": group(members),
            "training": training,
            "evaluation": evaluation,
        }

    def _training(self, spec: str, length: int, batch: int, steps: int) -> dict[str, Any]:
        size = {"length": length, "batch": batch}
        shape = dataclasses.replace(self.plan.shape, **size)
        if length not in self.nope:
            self.nope[length] = Step("nope", shape, steps)
        nope, own = self.nope[length], Step(spec, shape, steps)
        times: dict[str, list[float]] = {"own": [], "nope": []}
        for _ in range(self.plan.turns):
            times["nope"].append(nope())
            times["own"].append(own())
        row = compare(times, ours="own")[1]
        return size | {
            "ms": times["own"],
            "ms_nope": times["nope"],
            "ratio": row.ratio,
            "interval": row.interval,
            "memory": own.memory,
            "memory_ratio": own.memory / nope.memory,
        }

    def _evaluation(self, spec: str, length: int) -> dict[str, Any]:
        trained = dataclasses.replace(self.plan.shape, length=max(self.plan.training)[0])
        model, members, _ = parts(trained, spec)
        graphdef, params = structure(model, members)
        members = tuple(e.at(length) for e in members)
        limit = min((n for e in members if (n := e.limit()) is not None), default=length)
        if limit < length:
            return {"length": length, "reason": f"beyond its {limit:,} positions"}
        tokens = jax.ShapeDtypeStruct((1, length + 1), np.int32)
        options = {"graphdef": graphdef, "encodings": members, "last": length}
        compiled = target_nats.lower(params, tokens, np.int32(0), **options).compile()
        return {"length": length, "memory": compiled.memory_analysis().temp_size_in_bytes}


def run(names: Sequence[str], plan: Plan, out: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Measures what `out` does not have yet of `names` (none: all); what is done is written at
    once. Returns the record.

    ValueError for a name that is unknown; Refused if some are asked for, and `out` has others,
    measured under other conditions.
    """
    for name in names:
        parse(name)
    ran_on = environment.environment()
    commit = ran_on.pop("commit")
    host = {name: value for name, value in machine().items() if name != "load_before"}
    settings = dataclasses.asdict(plan)
    about = {"shape": settings.pop("shape"), "plan": settings, "machine": host, **ran_on}
    about = json.loads(json.dumps(about))  # as it is read
    path = out / "encodings.json"
    found = _kept(path, about, not names, say)

    def fresh(name: str) -> bool:
        return any(
            one["name"] == name and one["commit"] == commit and "failed" not in one for one in found
        )

    todo = [name for name in names or ENCODINGS if not fresh(name)]
    bench, begun = Bench(plan), time.monotonic()
    kept = {"about": about, "found": found}
    for i, name in enumerate(todo, 1):
        load = round(os.getloadavg()[0], 2)
        try:
            one = bench.measure(name)
        except Exception as error:  # the others are worth their time; the same command tries again
            one = {"name": name, "failed": f"{type(error).__name__}: {error}".split("\n")[0]}
        found = [other for other in found if other["name"] != name]
        found.append(one | {"commit": commit, "load": load})
        kept = {"about": about, "found": found}
        atomic.write(path, json.dumps(kept, indent=1) + "\n")
        atomic.write(out / "encodings.md", markdown(kept) + "\n")
        left = (time.monotonic() - begun) / i * (len(todo) - i) / 60
        told = one.get("failed") or ", ".join(
            f"{ratio(part)} at T={part['length']:,}" for part in one["training"]
        )
        say(f"{i}/{len(todo)} {one.get('spec', name)}: {told}; about {left:.0f} minutes left")
    return kept


def _kept(path: Path, about: Mapping[str, Any], everything: bool, say: Callable[[str], None]):
    """What the file has, if it was measured under the present conditions, whatever the commit."""
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


def main(names: Sequence[str], turns: int, out: Path) -> int:
    """The exit code."""

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

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
    return int(any("failed" in one for one in kept["found"]))
