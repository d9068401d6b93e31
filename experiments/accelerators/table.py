"""The report of what programs need on TPU v5e, from the rows of grid.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pe_jax.report import words

Row = Mapping[str, Any]

OPERATIONS = 197e12
"""Of bfloat16, that a chip does in a second."""
BANDWIDTH = 819e9
"""Bytes that a chip moves between its memory and its cores in a second."""
MEMORY = ("arguments", "results", "temporaries", "code")
HEAD = ("encoding", "memory, GiB", "of it temporaries", "TFLOP", "GB moved", "ms at least", "by")
TITLES = {
    ("training", ""): "A training step of all seeds, on one chip",
    ("evaluation", ""): "Evaluation, on one chip",
}


def markdown(rows: Sequence[Row]) -> str:
    """A table for each kind of program and number of chips, and how they are read."""
    kinds = dict.fromkeys((row["program"], row["mesh"]) for row in rows)
    parts = []
    for program, mesh in kinds:
        title = TITLES.get((program, mesh), f"A training step of all seeds, `run.mesh={mesh}`")
        chosen = [row for row in rows if (row["program"], row["mesh"]) == (program, mesh)]
        lines = [HEAD, ["---", *["--:"] * 5, "---"], *map(_cells, chosen)]
        table = "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
        parts.append(f"### {title}\n\n{table}")
    return "\n\n".join([*parts, *_conditions(rows)])


def told(row: Row) -> str:
    """A row in a line of progress."""
    where = f" on {row['mesh']}" if row["mesh"] else ""
    what = f"{row['program']} of {row['spec']}{where}"
    if "used" in row:
        return f"{what}: {_gib(row['used'])} GiB do not fit, after {row['seconds']} s"
    return f"{what}: {_gib(_total(row))} GiB, compiled in {row['seconds']} s"


def _cells(row: Row) -> list[str]:
    name = f"`{row['spec']}`"
    if "used" in row:
        used, there = _gib(row["used"]), _gib(row["available"])
        return [name, f"does not fit: {used} of {there}", "", "", "", "", ""]
    cells = [name, _gib(_total(row)), _gib(row["temporaries"])]
    if "operations" not in row:
        return [*cells, "", "", "", ""]
    bounds = {
        "operations": row["operations"] / OPERATIONS,
        "memory": row["moved"] / BANDWIDTH,
    }
    slower = max(bounds, key=lambda name: bounds[name])
    cells += [f"{row['operations'] / 1e12:.1f}", f"{row['moved'] / 1e9:.0f}"]
    return [*cells, f"{1e3 * bounds[slower]:.0f}", slower]


def _total(row: Row) -> int:
    return sum(row[name] for name in MEMORY)


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f}"


def _conditions(rows: Sequence[Row]) -> list[str]:
    versions = {f"{name} {version}" for row in rows for name, version in row["versions"].items()}
    commits = {words.commit(row["commit"]) for row in rows}
    return [
        "**Nothing here has run.** XLA's compiler for TPU has compiled the programs on a machine "
        "without one, for TPU v5e.",
        "",
        f"Compiled by {words.join(sorted(versions))}; commit {words.join(sorted(commits))}.",
    ]
