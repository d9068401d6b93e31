"""Published numbers: the files of results/reference/, whose README.md says what columns mean."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pe_jax import terms
from pe_jax.errors import nearest

COLUMNS = (
    "task",
    "spec",
    "at",
    "swap",
    "variant",
    "value",
    "better",
    "unit",
    "source",
    "status",
    "setting",
)
BEYOND = "beyond"  # `at` of a mean over the lengths beyond training


@dataclass(frozen=True)
class PublishedNumber:
    """A published number: a line of the file."""

    task: str
    spec: str
    at: str
    swap: str
    """The spec of encodings that were swapped in, as in "rerope"."""
    variant: str
    """Fields of the task other than in training, as in "ignore=0.98"."""
    value: float
    better: str
    unit: str
    source: str
    status: str
    setting: str


@dataclass(frozen=True)
class Reference:
    """A published table."""

    name: str
    """That of its file, without the ending."""
    entries: tuple[PublishedNumber, ...]

    @property
    def tasks(self) -> tuple[str, ...]:
        """Its tasks, in order."""
        return tuple(dict.fromkeys(entry.task for entry in self.entries))


def read(path: str | Path) -> Reference:
    """The table in a file. ValueError, with the line, for what is wrong in it; OSError where it
    cannot be read.
    """
    path = Path(path)
    if not path.exists():
        known = [other.name for other in sorted(path.parent.glob("*.csv"))]
        raise ValueError(f"no file {str(path)!r}{nearest(path.name, known)} {_GIVE}")
    try:
        lines = list(csv.reader(path.read_text("utf-8").splitlines()))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} is no CSV file ({error}). {_GIVE}") from error
    header = lines[0] if lines else []
    for name in header:
        if name not in COLUMNS:
            near = nearest(name, set(COLUMNS) - {*header})
            raise ValueError(f"{path} has an unknown column {name!r}{near} {_HAS}")
    if missing := [name for name in COLUMNS if name not in header]:
        raise ValueError(f"{path} lacks the column {missing[0]!r}: add it. {_HAS}")
    entries = []
    for i, line in enumerate(lines[1:], 2):
        if line:
            entries.append(_entry(dict(zip(header, line, strict=False)), f"{path}, line {i}"))
    if not entries:
        raise ValueError(f"{path} holds no numbers. {_GIVE}")
    seen: dict[tuple, int] = {}
    for i, entry in enumerate(entries):
        key = entry.task, entry.spec, entry.at, entry.swap, entry.variant
        if seen.setdefault(key, i) != i:
            raise ValueError(
                f"{path} has two numbers of {entry.spec} for {entry.task} at {entry.at!r}: put the "
                "other setting into a file of its own"
            )
    return Reference(path.stem, tuple(entries))


def _entry(cells: Mapping[str, str], place: str) -> PublishedNumber:
    cells = {name: cells.get(name, "").strip() for name in COLUMNS}
    try:
        value = float(cells["value"])
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{place}: value is no number, {cells['value']!r}: leave the line out")
    if cells["better"] not in ("higher", "lower"):
        raise ValueError(f"{place}: better is {cells['better']!r}: write higher or lower")
    if not re.fullmatch(r"beyond|[1-9]\d*|\d+(\.\d+)?x", cells["at"]):
        raise ValueError(
            f"{place}: at is {cells['at']!r}: write beyond, a length as in 24, or a multiple of "
            "the training length as in 4x"
        )
    for name in ("task", "spec"):
        try:
            for part in terms.members(cells[name]):
                terms.literals(terms.Term.of(part, cells[name]).fields, part)
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from error
    return PublishedNumber(**{**cells, "value": value})


_GIVE = "Give a file as those of results/reference/ are."
_HAS = f"The columns are {', '.join(COLUMNS)}."
