"""Brings records that earlier versions of the schema wrote up to the present one, for `records`.

Version 1 had no number for its version, and the reason for a missing value was a sentence. Up to
version 2 the id of a run was made of what it was evaluated on and of its seeds, too. Up to version
3 records had no digest. Up to version 4 they did not say how much of the text that is held out also
stands in that of training, nor what computed the scores.
"""

from __future__ import annotations

import re
from typing import Any

REASONS = {
    r"beyond its (\d+) positions": "beyond_positions",
    r"diverged at step (\d+)": "diverged",
    r"out of memory": "out_of_memory",
    r"not finite": "not_finite",
    r"not evaluated": "not_evaluated",
}
"""{pattern of a sentence of version 1: value of `reason.Reason`}"""


class Later(ValueError):
    """A record of a later version, which a later release has written."""


def upgraded(data: dict[str, Any], version: int) -> dict[str, Any]:
    """The parsed JSON of a record in the form of `version`, the present one; what is malformed
    stays as it is. Later where the version is later.
    """
    written = data.get("version", 1)
    if not isinstance(written, int):
        raise ValueError(f"its version is {written!r}")
    if written > version:
        raise Later(
            f"it is of version {written} of the schema and this release reads up to {version}: "
            "read it with the release that wrote it"
        )
    if written == 1 and isinstance(data.get("rows"), list):
        data = data | {"rows": [_row(row) for row in data["rows"]]}
    if written < 5 and data.get("rows"):
        data = data | {"scored_by": [{}]}
    return data | {"version": version}


def _row(row: Any) -> Any:
    """A row of version 1 with its sentence as a reason and a number."""
    if not isinstance(row, dict):
        return row
    sentence = row.get("reason")
    present = {"value": None} | {name: x for name, x in row.items() if x is not None}
    for pattern, reason in REASONS.items():
        if match := re.fullmatch(pattern, str(sentence)):
            number = {"at": int(match[1])} if match.groups() else {}
            return present | {"reason": reason} | number
    return present
