"""The table of what each encoding costs, and which of them cost more than the project's aim.

A measurement is what encodings.py records of one encoding.
"""

from __future__ import annotations

import collections
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from pe_jax.report import words

Measurement = Mapping[str, Any]

AIMS = {"content": 1.5}
"""The most that an encoding of a group may cost, as a multiple of nope's cost."""
AIM = 1.15
"""The same for the groups that are not in AIMS."""
LINEAR = 1.2
"""The largest exponent of memory that counts as linear: blocks grow with the length, too."""


def aim(measured: Measurement) -> float:
    """The most that this encoding may cost, as a multiple of nope's cost."""
    return AIMS.get(measured["group"], AIM)


def exponent(measured: Measurement) -> float | None:
    """p of memory ~ length^p, from the shortest and the longest evaluation that have a value; None
    unless there are two.
    """
    known = [(e["length"], e["memory"]) for e in measured["evaluation"] if "memory" in e]
    if len(known) < 2:
        return None
    (short, less), (long, more) = known[0], known[-1]
    return math.log(more / less) / math.log(long / short)


def misses(measured: Measurement) -> list[str]:
    """What costs more than the aim, such as "time at 1,024"; "perhaps time at 1,024" where the
    median is above the aim, but a part of its interval is not.
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


def ratio(part: Mapping[str, Any]) -> str:
    """A ratio of times with its interval."""
    bounds = "{:.2f} - {:.2f}".format(*part["interval"]) if part["interval"] else "too few turns"
    return f"{part['ratio']:.2f} ({bounds})"


def markdown(kept: Mapping[str, Any]) -> str:
    """The table, the encodings that miss their aim, and the conditions of measurement."""
    done = [measured for measured in kept["found"] if "failed" not in measured]
    over = [measured for measured in done if misses(measured)]
    aims = ", ".join([f"{AIM} times nope's", *(f"{most} for {g}" for g, most in AIMS.items())])
    listed = "; ".join(f"{measured['name']} ({', '.join(misses(measured))})" for measured in over)
    parts = [
        "Times nope's: a training step, and the memory of its temporaries. Then the memory of one "
        "pass of a sequence, and its exponent p (memory ~ length^p; 1 is linear).",
        "\n".join(_table(kept["about"]["plan"], kept["found"])),
        f"The aim is at most {aims}, and an exponent of at most {LINEAR}. {len(done) - len(over)} "
        f"of {len(done)} keep within it" + (f"; not {listed}." if over else "."),
        _conditions(kept),
    ]
    return "\n\n".join(parts)


def _table(plan: Mapping[str, Any], found: Sequence[Measurement]) -> list[str]:
    """The table's lines: the cheapest encodings first, those that could not be measured last."""
    lengths = [f"{length:,}" for length, *_ in plan["training"]]
    head = ["encoding", "group", *(f"step, T={n} (95 %)" for n in lengths)]
    head += [f"memory, T={n}" for n in lengths]
    head += [f"evaluating {n:,}, MiB" for n in plan["evaluation"]] + ["exponent", "misses"]
    done = [measured for measured in found if "failed" not in measured]
    rows = [head, ["---"] * len(head), *map(_cells, sorted(done, key=_cost))]
    for failed in (measured for measured in found if "failed" in measured):
        cells = [f"`{failed['name']}`", f"failed: {failed['failed']}"]
        rows.append(cells + [""] * (len(head) - len(cells)))
    return ["| " + " | ".join(cells) + " |" for cells in rows]


def _cells(measured: Measurement) -> list[str]:
    power, missed = exponent(measured), ", ".join(misses(measured))
    evaluation = [
        f"{part['memory'] / 2**20:,.1f}" if "memory" in part else f"n/a ({part['reason']})"
        for part in measured["evaluation"]
    ]
    return [
        f"`{measured['spec']}`",
        measured["group"],
        *map(ratio, measured["training"]),
        *(f"{part['memory_ratio']:.2f}" for part in measured["training"]),
        *evaluation,
        "n/a" if power is None else f"{power:.2f}",
        f"{aim(measured)}: {missed}" if missed else "",
    ]


def _cost(measured: Measurement) -> float:
    """The mean logarithm of its ratios of times."""
    return statistics.fmean(math.log(part["ratio"]) for part in measured["training"])


def _conditions(kept: Mapping[str, Any]) -> str:
    about, loads = kept["about"], [measured["load"] for measured in kept["found"]]
    plan, shape, host = about["plan"], about["shape"], about["machine"]
    sizes = " and ".join(
        f"T={length:,} with batch {batch} and {steps} steps a call"
        for length, batch, steps in plan["training"]
    )
    commits = collections.Counter(measured["commit"] for measured in kept["found"])
    return (
        f"{shape['layers']} layers, D={shape['model']}, {shape['heads']} heads, mlp "
        f"{shape['mlp']}, float32, {sizes}; medians of {plan['turns']} turns, "
        "nope and the encoding by turns in one process; nope against itself is the noise. "
        f"{host['processor']}, {host['cores']} cores, {about['device']['threads']} threads, load "
        f"{min(loads):.1f} to {max(loads):.1f}, its own included; "
        + ", ".join(f"{name} {version}" for name, version in about["versions"].items())
        + "; commit "
        + ", ".join(f"{words.commit(name)} ({n})" for name, n in commits.items())
        + "."
    )
