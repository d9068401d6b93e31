"""A sweep divided among launchers that know nothing of each other, such as the tasks of a SLURM
array: each does every n-th run. The work directory, which all of them see, is all that they share.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

SLURM = "slurm"
Item = TypeVar("Item")


class Shard(NamedTuple):
    """Which part of a sweep, counted from 1, of how many."""

    number: int = 1
    of: int = 1

    def own(self, runs: Sequence[Item]) -> list[Item]:
        """Its runs: the one of its number, and every `of`-th after that."""
        return list(runs[self.number - 1 :: self.of])


def parse(text: str, environment: Mapping[str, str]) -> Shard:
    """The shard of "i/n", or with "slurm" that of the task of a SLURM array by its environment
    variables. ValueError if it is neither.
    """
    if text == SLURM:
        names = ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_COUNT")
        known = [environment.get(name, "") for name in names]
        if not all(value.isdecimal() for value in known):
            raise ValueError(
                "--shard=slurm is for a task of a SLURM array (sbatch --array=1-8), which sets "
                f"{', '.join(names)}"
            )
        task, first, count = map(int, known)
        number = task - first + 1
        if number > count:
            raise ValueError(
                f"--shard=slurm needs an array without gaps, as --array=1-8, got task {task} of "
                f"{count} from {first} on"
            )
        return Shard(number, count)
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise ValueError(f"--shard is I/N with I from 1 to N, as 2/8, or slurm, got {text!r}")
    return Shard(int(match[1]), int(match[2]))
