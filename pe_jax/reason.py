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
    NO_KEYS = "no_keys"
    NOT_EVALUATED = "not_evaluated"


SENTENCES = {
    Reason.BEYOND_POSITIONS: "beyond its {at} positions",
    Reason.DIVERGED: "diverged at step {at}",
    Reason.OUT_OF_MEMORY: "needs {at}, {free} are free",
    Reason.NOT_FINITE: "not finite",
    Reason.NO_KEYS: "no key token among the targets",
    Reason.NOT_EVALUATED: "not evaluated",
}


def sentence(reason: Reason, at: int | None, free: int | None) -> str:
    """The sentence of a reason, with the numbers that a record.Row has for it."""
    if reason is not Reason.OUT_OF_MEMORY:
        return SENTENCES[reason].format(at=at)
    if at is None or free is None:  # the device has told it in the middle of a pass
        return "out of memory"
    return SENTENCES[reason].format(at=in_bytes(at), free=in_bytes(free))


def in_bytes(number: int) -> str:
    """A number of bytes, as in "41.2 GB"."""
    units = (10**12, "TB"), (10**9, "GB"), (10**6, "MB")
    unit, name = next((one for one in units if number >= one[0]), units[-1])
    return f"{number / unit:.3g} {name}"


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
