"""Why a value is not there: the reasons that a record names, and their sentences."""

from __future__ import annotations

import enum


class Reason(enum.Enum):
    """Why a value is not there."""

    BEYOND_POSITIONS = "beyond_positions"
    DIVERGED = "diverged"
    OUT_OF_MEMORY = "out_of_memory"
    NOT_FINITE = "not_finite"
    NOT_EVALUATED = "not_evaluated"


SENTENCES = {
    Reason.BEYOND_POSITIONS: "beyond its {at} positions",
    Reason.DIVERGED: "diverged at step {at}",
    Reason.OUT_OF_MEMORY: "out of memory",
    Reason.NOT_FINITE: "not finite",
    Reason.NOT_EVALUATED: "not evaluated",
}
