"""The table of scripts/benchmark --encodings: what each encoding costs, and which miss the aim."""

from __future__ import annotations

import collections
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

AIMS = {"content": 1.5}  # of a group, times nope's; of all others:
AIM = 1.15
LINEAR = 1.2  # of memory in the length, at most: 2.3 times for twice, as blocks grow with it too


def aim(found: Mapping[str, Any]) -> float:
    return AIMS.get(found["group"], AIM)


def exponent(found: Mapping[str, Any]) -> float | None:
    """p of memory ~ length^p, from the shortest to the longest evaluation; None without two."""
    known = [(one["length"], one["memory"]) for one in found["evaluation"] if "memory" in one]
    if len(known) < 2:
        return None
    (short, less), (long, more) = known[0], known[-1]
    return math.log(more / less) / math.log(long / short)


def misses(found: Mapping[str, Any]) -> list[str]:
    """What is beyond the aim of its group; "perhaps" where the interval of a time is not."""
    out = []
    for one in found["training"]:
        for key, title in (("ratio", "time"), ("memory_ratio", "memory")):
            if one[key] > aim(found):
                low = (one["interval"] or (0,))[0] if key == "ratio" else one[key]
                perhaps = "" if low > aim(found) else "perhaps "
                out.append(f"{perhaps}{title} at {one['length']:,}")
    if (exponent(found) or 0) > LINEAR:
        out.append("memory not linear")
    return out


def markdown(kept: Mapping[str, Any]) -> str:
    """The table, what misses its aim, and what was measured under which conditions."""
    done = [one for one in kept["found"] if "failed" not in one]
    over = [one for one in done if misses(one)]
    aims = ", ".join([f"{AIM} times nope's", *(f"{most} for {g}" for g, most in AIMS.items())])
    parts = [
        "Times nope's: a training step, and the memory of its temporaries. Then the memory of one "
        "pass of a sequence, and its exponent p (memory ~ length^p; 1 is linear).",
        "\n".join(_table(kept["about"]["plan"], done, kept["found"])),
        f"The aim is at most {aims}, and an exponent of at most {LINEAR}. {len(done) - len(over)} "
        f"of {len(done)} keep within it" + (f"; not {_listed(over)}." if over else "."),
        _conditions(kept),
    ]
    return "\n\n".join(parts)


def _table(plan: Mapping[str, Any], done: Sequence[Mapping], found: Sequence[Mapping]) -> list[str]:
    """Its lines: the cheapest first, by the mean of the logarithms of its times."""
    lengths = [f"{length:,}" for length, *_ in plan["training"]]
    head = ["encoding", "group", *(f"step, T={n} (95 %)" for n in lengths)]
    head += [f"memory, T={n}" for n in lengths]
    head += [f"evaluating {n:,}, MiB" for n in plan["evaluation"]] + ["exponent", "misses"]
    rows = [head, ["---"] * len(head)]
    for one in sorted(done, key=_cost):
        power, missed = exponent(one), ", ".join(misses(one))
        rows.append([f"`{one['spec']}`", one["group"], *map(ratio, one["training"])])
        rows[-1] += [f"{part['memory_ratio']:.2f}" for part in one["training"]]
        rows[-1] += [
            f"{part['memory'] / 2**20:,.1f}" if "memory" in part else f"n/a ({part['reason']})"
            for part in one["evaluation"]
        ]
        rows[-1] += ["n/a" if power is None else f"{power:.2f}"]
        rows[-1] += [f"{aim(one)}: {missed}" if missed else ""]
    for one in found:
        if "failed" in one:
            cells = [f"`{one['name']}`", f"failed: {one['failed']}"]
            rows.append(cells + [""] * (len(head) - len(cells)))
    return ["| " + " | ".join(cells) + " |" for cells in rows]


def _conditions(kept: Mapping[str, Any]) -> str:
    about, loads = kept["about"], [one["load"] for one in kept["found"]]
    plan, shape, host = about["plan"], about["shape"], about["machine"]
    sizes = " and ".join(
        f"T={length:,} with batch {batch} and {steps} steps a call"
        for length, batch, steps in plan["training"]
    )
    commits = collections.Counter(one["commit"] for one in kept["found"])
    return (
        f"{shape['layers']} layers, D={shape['model']}, {shape['heads']} heads, mlp "
        f"{shape['mlp']}, float32, {sizes}; medians of {plan['turns']} turns, "
        "nope and the encoding by turns in one process; nope against itself is the noise. "
        f"{host['processor']}, {host['cores']} cores, {about['device']['threads']} threads, load "
        f"{min(loads):.1f} to {max(loads):.1f}, its own included; "
        + ", ".join(f"{name} {version}" for name, version in about["versions"].items())
        + "; commit "
        + ", ".join(f"{name[:12]}{name[40:]} ({n})" for name, n in commits.items())
        + "."
    )


def _cost(found: Mapping[str, Any]) -> float:
    return statistics.fmean(math.log(one["ratio"]) for one in found["training"])


def ratio(one: Mapping[str, Any]) -> str:
    bounds = "{:.2f} - {:.2f}".format(*one["interval"]) if one["interval"] else "too few turns"
    return f"{one['ratio']:.2f} ({bounds})"


def _listed(found: Sequence[Mapping[str, Any]]) -> str:
    return "; ".join(f"{one['name']} ({', '.join(misses(one))})" for one in found)
