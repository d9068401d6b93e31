"""The section `resources` of a config, and the cores of this machine.

Without JAX: the workers of Ray import it.
"""

from __future__ import annotations

import dataclasses
import os

from pe_jax.fields import Count, Natural, NotNegative, check


@dataclasses.dataclass(frozen=True)
class Resources:
    """What Ray keeps for a run while it is at work. Other engines do not read it."""

    cpus: Count = 1
    """Cores: XLA has as many threads."""
    gpus: NotNegative = 0.0
    """GPUs, the only ones that the run sees; below 1, runs share one."""
    tpus: Natural = 0
    """Chips of a TPU, the only ones that the run sees."""

    def __post_init__(self):
        check(self, "resources.")
        if self.gpus > 1 and self.gpus % 1:
            raise ValueError(
                f"resources.gpus is a whole number or a part of one GPU, got {self.gpus:g}"
            )


def cores() -> int:
    """The cores that this process may use; on macOS and Windows all cores."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
