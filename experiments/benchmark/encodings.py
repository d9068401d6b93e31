"""The cost of every encoding: time and memory of its training step, relative to nope's.

    ratio = time of the encoding's step / time of nope's just before, in the same process

nope against itself shows the noise. Memory is XLA's plan for the temporaries of a compiled program.
It is exact, and nearly all the memory of a step, since the step writes the new state over the old
one. The model has the widths of sides.Workload and the quickstart's depth of 2 layers. It is
trained at T=128 with dense and at T=1024 with blockwise attention, on as many tokens a step. In a
wider model the dense layers dominate more, and every encoding costs relatively less. In a deeper
one the same holds for encodings that act once on the model's input. Encodings that only change
positions are measured with rope. Evaluation is one forward pass of a sequence with all tokens
scored, by a model trained at the longest of the lengths.
"""

from __future__ import annotations

import collections
import dataclasses
import math
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from experiments.benchmark import turns
from experiments.benchmark.sides import Workload, timed
from pe_jax.atlas.properties import group, moves_positions
from pe_jax.evaluation.scoring import target_nats
from pe_jax.model.config import LmConfig
from pe_jax.report import phrases
from pe_jax.runs import environment
from pe_jax.specs.parse import parse
from pe_jax.storage import records
from pe_jax.task import Task
from pe_jax.tasks.text import TEXT
from pe_jax.training.step import init, make_steps, structure

Measurement = Mapping[str, Any]
"""The record of one encoding: times in ms a step, memory in bytes."""

AIMS = {"content": 1.5}
"""The largest acceptable cost of an encoding of a group, as a multiple of nope's cost."""
AIM = 1.15
"""The same for groups that are not in AIMS."""
LINEAR = 1.2
"""The largest exponent of memory that counts as linear: blocks also grow with the length."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """The measurements of each encoding."""

    work: Workload = Workload(LmConfig(vocab=256, layers=2, model=128, heads=4, mlp=512))
    training: tuple[tuple[int, int, int], ...] = ((128, 32, 6), (1024, 4, 2))
    """(T, batch, steps in one call; training also makes several)."""
    evaluation: tuple[int, ...] = (8192, 16384)
    """Tokens of the sequence."""
    turns: int = 6
    """Turns of nope and the encoding, at each length. With fewer than 6 there is no interval."""


def trained(
    spec: str, work: Workload, steps: int, task: Task = TEXT
) -> tuple[Callable[[], float], int]:
    """(a function that continues training and returns the milliseconds a step, the bytes of
    temporaries) of the compiled training step of a spec.
    """
    members = work.encodings(spec)
    graphdef, _ = structure(work.lm, members)
    batches = work.batches(steps)[:, None]
    state = init(work.lm, members, work.train, (0,))
    program = make_steps(graphdef, work.train, (0,), task=task).lower(state, batches).compile()

    def call() -> float:
        nonlocal state
        (state, _), times = timed(lambda: jax.block_until_ready(program(state, batches)), steps)
        return times["ms"]

    call()
    return call, _temporaries(program)


def measure(name: str, plan: Plan, nopes: dict[int, Any]) -> dict[str, Any]:
    """Measures one encoding; the steps of nope, by length, are compiled once."""
    alone = parse(name).encodings(plan.work.lm.dims(plan.work.train.length))
    spec = f"{name}+rope" if moves_positions(alone) else name
    training = []
    for length, batch, steps in plan.training:
        work = plan.work.sized(length=length, batch=batch)
        if length not in nopes:
            nopes[length] = trained("nope", work, steps)
        nope, least = nopes[length]
        own, memory = trained(spec, work, steps)
        ms_nope, ms = zip(*((nope(), own()) for _ in range(plan.turns)), strict=True)
        part = {"length": length, "batch": batch, "ms": ms, "ms_nope": ms_nope}
        ratio, interval = turns.ratio(ms, ms_nope)
        part |= {"ratio": ratio, "interval": interval}
        training.append(part | {"memory": memory, "memory_ratio": memory / least})
    return {
        "name": name,
        "spec": spec,
        "group": group(plan.work.encodings(spec)),
        "training": training,
        "evaluation": [evaluated(spec, length, plan) for length in plan.evaluation],
    }


def evaluated(spec: str, length: int, plan: Plan) -> dict[str, Any]:
    """The memory of one pass, or the reason why there is none."""
    work = plan.work.sized(length=max(plan.training)[0])
    members = work.encodings(spec)
    graphdef, params = structure(work.lm, members)
    members = tuple(encoding.at(length) for encoding in members)
    limit = min((n for e in members if (n := e.limit()) is not None), default=length)
    if limit < length:
        return {"length": length, "reason": f"beyond its {limit:,} positions"}
    tokens = jax.ShapeDtypeStruct((1, length + 1), np.int32)
    static: dict[str, Any] = {"graphdef": graphdef, "encodings": members, "last": length}
    program = target_nats.lower(params, tokens, np.int32(0), **static).compile()
    return {"length": length, "memory": _temporaries(program)}


def _temporaries(program: Any) -> int:
    """The bytes that XLA plans for the temporaries of a compiled program."""
    return program.memory_analysis().temp_size_in_bytes


def run(names: Sequence[str], plan: Plan, out: Path | None) -> None:
    """Measures encodings and prints the table, which is written after each one unless `out` is
    None. ValueError for an unknown name.
    """
    for name in names:
        parse(name)
    settings = {"training": plan.training, "evaluation": plan.evaluation, "turns": plan.turns}
    about = {"shape": plan.work.sizes(), "plan": settings, "machine": turns.machine()}
    ran_on = records.plain(environment.process())
    kept, nopes = {"about": about | ran_on, "found": []}, {}
    for i, name in enumerate(names, 1):
        measured = measure(name, plan, nopes)
        load = round(os.getloadavg()[0], 2)
        kept["found"].append(measured | {"commit": ran_on["commit"], "load": load})
        if out:
            turns.write(out / "encodings", kept, markdown(kept))
        ratios = [f"{shown(part)} at T={part['length']:,}" for part in measured["training"]]
        turns.say(f"{i}/{len(names)} {measured['spec']}: {', '.join(ratios)}")
    print(markdown(kept))


def aim(measured: Measurement) -> float:
    """The largest acceptable cost of this encoding, as a multiple of nope's cost."""
    return AIMS.get(measured["group"], AIM)


def exponent(measured: Measurement) -> float | None:
    """p of memory ~ length^p, from the shortest and the longest evaluation with a value; None if
    there are fewer than two.
    """
    known = [(e["length"], e["memory"]) for e in measured["evaluation"] if "memory" in e]
    if len(known) < 2:
        return None
    (short, less), (long, more) = known[0], known[-1]
    return math.log(more / less) / math.log(long / short)


def misses(measured: Measurement) -> list[str]:
    """The costs above the aim, such as "time at 1,024"; "perhaps time at 1,024" if the median is
    above the aim but part of its interval is not.
    """
    most, missed = aim(measured), []
    for part in measured["training"]:
        at = f"at {part['length']:,}"
        if part["ratio"] > most:
            surely = part["interval"] and part["interval"][0] > most
            missed.append(f"time {at}" if surely else f"perhaps time {at}")
        if part["memory_ratio"] > most:
            missed.append(f"memory {at}")
    if (exponent(measured) or 0) > LINEAR:
        missed.append("memory not linear")
    return missed


def shown(part: Mapping[str, Any]) -> str:
    """A ratio of times with its interval."""
    return turns.Ratio(part["ratio"], part["interval"]).rounded(2)


def markdown(kept: Mapping[str, Any]) -> str:
    """The table, cheapest first, the encodings that miss their aim, and the conditions."""
    plan, shape, host = (kept["about"][name] for name in ("plan", "shape", "machine"))
    lengths = [f"{length:,}" for length, *_ in plan["training"]]
    head = ["encoding", "group", *(f"step, T={n} (95 %)" for n in lengths)]
    head += [f"memory, T={n}" for n in lengths]
    head += [f"evaluating {n:,}, MiB" for n in plan["evaluation"]] + ["exponent", "misses"]
    rows = map(_cells, sorted(kept["found"], key=_cost))
    over = [measured for measured in kept["found"] if misses(measured)]
    aims = ", ".join([f"{AIM} times nope's", *(f"{most} for {g}" for g, most in AIMS.items())])
    listed = "; ".join(f"{measured['name']} ({', '.join(misses(measured))})" for measured in over)
    sizes = " and ".join(
        f"T={length:,} with batch {batch} and {steps} steps a call"
        for length, batch, steps in plan["training"]
    )
    loads = [measured["load"] for measured in kept["found"]]
    commits = collections.Counter(measured["commit"] for measured in kept["found"])
    return "\n\n".join(
        [
            "Times nope's: a training step, and the memory of its temporaries. Then the memory of "
            "one pass of a sequence, and its exponent p (memory ~ length^p; 1 is linear).",
            turns.table(head, rows),
            f"The aim is at most {aims}, and an exponent of at most {LINEAR}. "
            f"{len(kept['found']) - len(over)} of {len(kept['found'])} keep within it"
            + (f"; not {listed}." if over else "."),
            f"{shape['layers']} layers, D={shape['model']}, {shape['heads']} heads, mlp "
            f"{shape['mlp']}, float32, {sizes}; medians of {plan['turns']} turns, "
            "nope and the encoding by turns in one process; nope against itself is the noise. "
            f"{host['processor']}, {host['cores']} cores, "
            f"{kept['about']['device']['threads']} threads, load "
            f"{min(loads):.1f} to {max(loads):.1f}, its own included; "
            + ", ".join(f"{name} {n}" for name, n in kept["about"]["versions"].items())
            + "; commit "
            + ", ".join(f"{phrases.commit(name)} ({n})" for name, n in commits.items())
            + ".",
        ]
    )


def _cells(measured: Measurement) -> list[str]:
    power, missed = exponent(measured), ", ".join(misses(measured))
    return [
        f"`{measured['spec']}`",
        measured["group"],
        *map(shown, measured["training"]),
        *(f"{part['memory_ratio']:.2f}" for part in measured["training"]),
        *(
            f"{part['memory'] / 2**20:,.1f}" if "memory" in part else f"n/a ({part['reason']})"
            for part in measured["evaluation"]
        ),
        "n/a" if power is None else f"{power:.2f}",
        f"{aim(measured)}: {missed}" if missed else "",
    ]


def _cost(measured: Measurement) -> float:
    """Mean logarithm of the ratios of times."""
    return statistics.fmean(math.log(part["ratio"]) for part in measured["training"])
