"""The report of what programs need on TPU v5e, from the rows of grid.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from configs import encodings_gpu
from experiments.accelerators.compiled import EVALUATED
from pe_jax.report import words

Row = Mapping[str, Any]

OPERATIONS = 197e12
"""Of bfloat16, that a chip does in a second."""
BANDWIDTH = 819e9
"""Bytes that a chip moves between its memory and its cores in a second."""
MEMORY = ("arguments", "results", "temporaries", "code")
TITLES = {"training": "A training step of all seeds", "evaluation": "Evaluation"}
FITS = ("encoding", "memory, GiB", "temporaries, GiB")
COUNTED = ("TFLOP", "GB moved", "roofline, ms", "bound by")


def markdown(rows: Sequence[Row]) -> str:
    """A table for each kind of program and each change of the config, and how they are read."""
    kinds: dict[str, list[Row]] = {}
    for row in rows:
        kinds.setdefault(_kind(row), []).append(row)
    tables = [f"### {kind}\n\n{_table(alike)}" for kind, alike in kinds.items()]
    return "\n\n".join([*tables, *_read(rows)])


def told(row: Row) -> str:
    """A row in a line of progress."""
    what = f"{row['spec']}: {_kind(row)}"
    if "available" in row:
        return f"{what} does not fit in {_gib(row['available'])} GiB, after {row['seconds']} s"
    return f"{what} takes {_gib(_total(row))} GiB, compiled in {row['seconds']} s"


def _kind(row: Row) -> str:
    changes = "".join(f", `{name}={value}`" for name, value in row["changes"])
    return f"{TITLES[row['program']]}{changes}"


def _table(rows: Sequence[Row]) -> str:
    counted = any("operations" in row for row in rows)
    lines = [FITS + COUNTED * counted, ["---", *["--:"] * (2 + len(COUNTED) * counted)]]
    lines += [[*_fits(row), *_counted(row)] for row in rows]
    full = [[*cells, *[""] * (len(lines[0]) - len(cells))] for cells in lines]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in full)


def _fits(row: Row) -> list[str]:
    name = f"`{row['spec']}`"
    total = "does not fit" if "available" in row else _gib(_total(row))
    return [name, total, _gib(row["temporaries"])]


def _counted(row: Row) -> list[str]:
    """The cells of what XLA has counted, none where it has not."""
    if "operations" not in row:
        return []
    bounds = {
        "operations": row["operations"] / OPERATIONS,
        "memory": row["moved"] / BANDWIDTH,
    }
    slower = max(bounds, key=lambda name: bounds[name])
    counts = f"{row['operations'] / 1e12:.1f}", f"{row['moved'] / 1e9:.0f}"
    return [*counts, f"{1e3 * bounds[slower]:.0f}", slower]


def _total(row: Row) -> int:
    return sum(row[name] for name in MEMORY)


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f}"


def _read(rows: Sequence[Row]) -> Iterator[str]:
    """How the tables are read, a paragraph each."""
    config = encodings_gpu.get_config()
    lm, train = config.lm, config.train
    windows = config.eval.batch_tokens // EVALUATED
    yield (
        "**Nothing here has run.** XLA has compiled these programs for TPU v5e on a machine that "
        "has none, and what the tables hold is its own account of them."
    )
    yield (
        f"**What was compiled.** The programs of `configs/encodings_gpu.py`: {lm.layers} layers, "
        f"D={lm.model}, {lm.heads} heads, {lm.dtype}. A step trains {len(config.run.seeds)} seeds "
        f"at once, each on {train.batch} windows of {train.length} tokens. An evaluation scores "
        f"all tokens of {words.count(windows, 'window')} of {EVALUATED:,}, by one seed. Headings "
        "say what was set otherwise; with `run.mesh` there are as many chips as it names, else one."
    )
    yield (
        "**How to read the columns.** All are of each chip. Memory: the state and the batch, what "
        "the program returns besides the state, its temporaries and its code; programs can have "
        "15.75 of a chip's 16 GiB. Roofline: the longer of two times, that of the operations at "
        f"{OPERATIONS / 1e12:.0f} TFLOP/s and that of the bytes at {BANDWIDTH / 1e9:.0f} GB/s, "
        "with the one that it is; it is arithmetic and no measurement. Operations and bytes are "
        "counted where a program has no loops, of which XLA counts a single turn."
    )
    versions = {f"{name} {version}" for row in rows for name, version in row["versions"].items()}
    commits = {words.commit(row["commit"]) for row in rows}
    yield f"Compiled by {words.join(sorted(versions))}; commit {words.join(sorted(commits))}."
