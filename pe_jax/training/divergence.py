"""Seeds whose training diverges: they are told, and the checkpoints of such a training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pe_jax.reason import divergence
from pe_jax.storage.checkpoints import Checkpoints


class Divergence:
    """The seeds of one program that have diverged so far. `say` is told of each of them once."""

    def __init__(self, seeds: Sequence[int], say: Callable[[str], None]):
        self.seeds, self.say = seeds, say
        self.steps: dict[int, int] = {}
        """The step at which each of them diverged, as in step.py."""

    def note(self, diverged: np.ndarray) -> None:
        """Takes the leaf "diverged" of a training state."""
        known = self.steps
        found = zip(self.seeds, diverged.tolist(), strict=True)
        self.steps = {seed: step for seed, step in found if step >= 0}
        if new := {seed: step for seed, step in self.steps.items() if seed not in known}:
            then = "training stops" if self.of_all else "the other seeds go on"
            self.say(f"{divergence(new)}: {then}")

    @property
    def of_all(self) -> bool:
        """Whether all seeds have diverged."""
        return len(self.steps) == len(self.seeds)


def final(checkpoints: Checkpoints, like: Any, steps: int) -> Any:
    """The state in which a training of `steps` steps ended: the one after them, or after fewer
    where all seeds had diverged. ValueError if its checkpoint is damaged or gone.
    """
    newest = max(checkpoints.steps, default=steps)
    if newest < steps:
        state = checkpoints.state(newest, like)
        if (state["diverged"] >= 0).all():
            return state
    return checkpoints.state(steps, like)
