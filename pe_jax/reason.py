"""Why a value is not there: the reasons that a record names, and their sentences."""

from __future__ import annotations

import enum
from collections.abc import Mapping


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


def divergence(steps: Mapping[int, int]) -> str:
    """From which step on the training of seeds went wrong, {seed: step}, in words: "seeds 0, 2:
    loss or gradient not finite from step 37 on"; "" for none.
    """
    by_step: dict[int, list[int]] = {}
    for seed, step in sorted(steps.items()):
        by_step.setdefault(step, []).append(seed)
    return "; ".join(
        f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}: "
        f"loss or gradient not finite from step {step} on"
        for step, seeds in by_step.items()
    )
