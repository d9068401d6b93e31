"""What came out, in one paragraph, computed from a table's rows."""

from __future__ import annotations

import math
from collections.abc import Mapping

from pe_jax.report.cells import Row, Table, described, in_percent
from pe_jax.report.words import count, each, join, plusminus


def summary(table: Table, headed: bool = False) -> str:
    """Who is best at the longest length and who uses the context: of the models as trained, or,
    where there is one model, of it and its swaps.

    It begins with what sets the table's group apart, where there are several and it is not `headed`
    by that.
    """
    metric, longest = described(table.metric), table.lengths[-1]
    called = _names(table)
    train = table.train_length
    told = "" if headed else table.heading
    heading = f"{told[:1].upper()}{told[1:]}: " if told else ""
    unit = "" if table.tokens else " tokens"
    said = [f"{heading}{_setting(table, called, unit)}."]
    reached = sorted(
        (row for row in called if row.cells[-1].n and row.compared),
        key=lambda row: metric.sign * row.cells[-1].mean,
    )
    if not any(row.compared for row in called):
        return f"{said[0]} None solves length {train}, so none is compared beyond it."
    if not reached:
        return f"{said[0]} None has a value at {longest}."
    printed = {plusminus(row.cells[-1].mean, math.nan) for row in reached}
    if len(reached) > 1 and len(printed) == 1:
        said.append(f"All round to the same {metric.unit} at {longest}: {printed.pop()}.")
    else:
        means = ((called[row], row.cells[-1]) for row in reached[:3])
        best = ", then ".join(f"{name} ({plusminus(c.mean, c.half)})" for name, c in means)
        said.append(f"{metric.best.capitalize()} {metric.unit} at {longest}: {best}.")
    if longest == train:
        return " ".join(said)
    compared = {called[row]: row for row in reached if not math.isnan(row.gain.half)}
    if compared:
        said.append(_gains(compared, metric.sign, f"{longest} against {train}{unit}"))
    kept = [called[row] for row in reached if row.censored and row.effective == longest]
    if kept:
        solved = in_percent(table.metric)
        kind = "Solved" if solved else f"Within 1 % of their value at {train}"
        said.append(f"{kind} at every longer length: {join(kept)}.")
    return " ".join(said)


def _names(table: Table) -> dict[Row, str]:
    """The rows that are compared, and what the paragraph calls them."""
    trained = {row: row.label for row in table.rows if row.trained}
    if len(trained) != 1:
        return trained
    (model,) = trained
    swaps = [row for row in table.rows if row.together and row.way]
    return trained | {row: row.label.removeprefix(f"{model.label}, ") for row in swaps}


def _setting(table: Table, called: Mapping[Row, str], unit: str) -> str:
    """What was trained at which length and evaluated up to which."""
    trained = [row for row in called if row.trained]
    swaps = len(called) - len(trained)
    what = f"{trained[0].label}," if swaps else count(len(trained), "encoding")
    seeds = each([row.replicas for row in trained], table.replicate) if trained else ""
    seeds = f" ({seeds}{'' if swaps else ' each'})" if seeds else ""
    at = "lengths up to " if table.tokens else ""
    ways = f", as it is and with {count(swaps, 'swap')}" if swaps else ""
    return (
        f"{what} trained at {at}{table.train_length}{unit}{seeds}, evaluated at up to "
        f"{table.lengths[-1]}{unit}{ways}"
    )


def _gains(rows: Mapping[str, Row], sign: int, lengths: str) -> str:
    better = [name for name, row in rows.items() if sign * row.gain.mean + row.gain.half < 0]
    worse = [name for name, row in rows.items() if sign * row.gain.mean - row.gain.half > 0]
    level = [name for name in rows if name not in better + worse]
    parts = [
        f"{verb}: {join(group)}"
        for verb, group in (("better", better), ("not distinguishable", level), ("worse", worse))
        if group
    ]
    return f"At {lengths} (95 % interval of the gain): {'; '.join(parts)}."
