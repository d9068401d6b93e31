"""Seed groups: seeds that train together in one program."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from pe_jax.encoding import Encoding
from pe_jax.errors import Refused
from pe_jax.evaluation.scoring import Models
from pe_jax.model.config import LmConfig, stored
from pe_jax.runs.init_from import InitFrom
from pe_jax.storage.checkpoints import Checkpoints, digests
from pe_jax.storage.hashes import canonical, sha256
from pe_jax.task import Task
from pe_jax.training import mesh
from pe_jax.training.config import TrainConfig
from pe_jax.training.step import State, init, structure


class SeedGroup(NamedTuple):
    """Seeds that train together in one program, at the end of their training."""

    seeds: tuple[int, ...]
    state: State
    seconds: float = 0.0

    @property
    def diverged(self) -> dict[int, int]:
        """{seed: step at which it diverged}, without the seeds that did not."""
        steps = np.asarray(self.state["diverged"]).tolist()
        return {seed: step for seed, step in zip(self.seeds, steps, strict=True) if step >= 0}

    def digest(self) -> str:
        """SHA-256 of the state."""
        return sha256(canonical(digests(self.state)))


def final(
    lm: LmConfig,
    encodings: tuple[Encoding, ...],
    train: TrainConfig,
    seeds: tuple[int, ...],
    folder: Path,
) -> SeedGroup:
    """A group whose training has ended, from its last checkpoint. ValueError if that is damaged or
    gone; the one before it is not taken.
    """
    like = jax.eval_shape(lambda: init(lm, encodings, train, seeds))
    checkpoints = Checkpoints(folder, read_only=True)
    step = max(checkpoints.steps, default=train.steps)
    group = SeedGroup(seeds, checkpoints.state(step, like))
    if step < train.steps and len(group.diverged) < len(seeds):
        raise ValueError(
            f"{folder} has no checkpoint of step {train.steps}: give the command of the run again; "
            "if its training had ended, in another folder"
        )
    return group


def models(
    lm: LmConfig,
    encodings: tuple[Encoding, ...],
    task: Task,
    train: TrainConfig,
    seeds: Sequence[int],
    groups: Sequence[SeedGroup],
    init_from: InitFrom | None,
    dtype: str,
) -> Models:
    """The models of these seeds at the end of training, or of the checkpoint in a run of no steps;
    their parameters stored in `dtype`.
    """
    if init_from and not train.steps:
        params = init_from.models(lm, encodings, seeds, dtype)
    else:
        params = {
            seed: jax.tree.map(lambda a, row=row: stored(a[row], dtype), group.state["params"])
            for group in groups
            for row, seed in enumerate(group.seeds)
        }
    graphdef, _ = structure(lm, encodings)
    params = {seed: params[seed] for seed in seeds}
    diverged = {seed: step for group in groups for seed, step in group.diverged.items()}
    return Models(graphdef, params, encodings, diverged, train.length, task)


def devices(spec: str, groups: Sequence[Sequence[int]], batch: int) -> Mesh | None:
    """The mesh of run.mesh. Refused where devices are too few, or the seeds of a group cannot share
    them.
    """
    try:
        for seeds in groups:
            mesh.check(spec, len(seeds), batch)
        return mesh.make(spec)
    except ValueError as error:
        raise Refused(str(error)) from error
