"""More steps after a finished run: with train.schedule="wsd" a run goes on from the state before
the decay of a shorter one beside it, and comes to the bits that it would have come to alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

from pe_jax.errors import Refused
from pe_jax.runs import layout
from pe_jax.runs.folder import namesakes, trains_as
from pe_jax.runs.run import Run
from pe_jax.storage.checkpoints import Checkpoints
from pe_jax.storage.history import read_lines, write_lines
from pe_jax.training.loop import before_decay
from pe_jax.training.step import State


@dataclasses.dataclass(frozen=True)
class Shorter:
    """The state before the decay of a run that is the same but for fewer steps."""

    folder: Path
    """The folder of that run."""
    step: int

    def __call__(self, state: State, seeds: Sequence[int]) -> State:
        """Its state. Refused if its checkpoint is damaged or gone."""
        kept = before_decay(layout.checkpoints(self.folder, seeds))
        try:
            return Checkpoints(kept, read_only=True).state(self.step, state)
        except ValueError as error:
            raise Refused(f"{error}; or delete {kept}: then training begins anew") from error


def shorter(run: Run, folder: Path, seeds: Sequence[int]) -> Shorter | None:
    """The longest such run of these seeds beside `folder`, of which the schedule is "wsd"."""
    if run.train.schedule != "wsd":
        return None
    found = [
        Shorter(other, int(path.name))
        for other in _same_but_for_steps(run, folder)
        for path in before_decay(layout.checkpoints(other, seeds)).glob("[0-9]*")
        if int(path.name) <= run.train.decays_from
    ]
    return max(found, key=lambda one: one.step, default=None)


def why_not(run: Run, folder: Path) -> str:
    """Why a run that begins cannot go on from a shorter one beside it; "" where there is none."""
    if run.train.schedule == "wsd" or not (others := list(_same_but_for_steps(run, folder))):
        return ""
    return (
        f"{run.label}: {others[0].name} is the same with other steps, but training begins anew: "
        "with train.schedule=cosine every rate depends on train.steps; runs of wsd can go on"
    )


def _same_but_for_steps(run: Run, folder: Path) -> Iterator[Path]:
    for other, begun in namesakes(folder):
        train = begun.config["train"]
        longer = begun.config | {"train": train | {"steps": run.train.steps}}
        if train["steps"] != run.train.steps and trains_as(run, longer):
            yield other


def take_history(start: Shorter, run: Run, folder: Path, seeds: Sequence[int]) -> None:
    """Copies what the shorter run has measured of these seeds up to its state, in place of what a
    killed attempt may have left.
    """
    path = folder / "metrics.jsonl"
    others = [line for line in read_lines(path) if line.get("seeds") != list(seeds)]
    taken = [
        line | {"of": run.train.steps}
        for line in read_lines(start.folder / "metrics.jsonl")
        if "loss" in line and line["seeds"] == list(seeds) and line["step"] <= start.step
    ]
    write_lines(path, (*others, *taken))
