"""A trained model of one seed, from the folder of its run, finished or not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
from flax import nnx

from pe_jax.data import tokenizer
from pe_jax.record import Begun
from pe_jax.runs.run import Run
from pe_jax.storage import records
from pe_jax.storage.checkpoints import Checkpoints
from pe_jax.training.step import init, structure


@dataclasses.dataclass(frozen=True)
class Trained:
    """The model of one seed of a run: nnx.merge(graphdef, params) is its LM."""

    run: Run
    seed: int
    step: int
    """How many training steps its newest checkpoint had behind it."""
    graphdef: nnx.GraphDef
    params: Any
    """The tree of parameters, without the axis of seeds."""
    tokenizer: tokenizer.Tokenizer

    @classmethod
    def of(
        cls,
        folder: str | Path,
        seed: int | None = None,
        warn: Callable[[str], None] = lambda message: None,
    ) -> Trained:
        """From the newest whole checkpoint of the run in `folder`, or in its only subfolder; `seed`
        None: the first of its seeds. Damaged checkpoints are set aside, which `warn` is told.

        ValueError or Refused if there is no such run, seed or checkpoint.
        """
        folder, begun = find_run(Path(folder))
        run = Run.of(begun.config)
        seed = run.run.seeds[0] if seed is None else seed
        group = next((seeds for seeds in run.groups if seed in seeds), None)
        if group is None:
            known = ", ".join(map(str, run.run.seeds))
            raise ValueError(f"{folder} has no model of seed {seed}; its seeds are {known}")
        checkpoints = folder / "checkpoints" / "-".join(map(str, group))
        like = jax.eval_shape(lambda: init(run.lm, run.encodings, run.train, group))
        restored = Checkpoints(checkpoints).restore(like, warn) if checkpoints.is_dir() else None
        if restored is None:
            raise ValueError(f"{folder} has no checkpoint of seed {seed} yet: train it first")
        step, state, _ = restored
        params = jax.tree.map(lambda a: a[group.index(seed)], state["params"])
        graphdef, _ = structure(run.lm, run.encodings)
        return cls(run, seed, step, graphdef, params, tokenizer.kept(folder, begun.tokenizer))


def find_run(folder: Path) -> tuple[Path, Begun]:
    """The folder of the run, which is `folder` or its only subfolder, and its config.json.

    ValueError if there is no run, or if there are several.
    """
    if begun := records.read(Begun, folder / "config.json"):
        return folder, begun
    runs = sorted(path.parent for path in folder.glob("*/config.json"))
    if len(runs) == 1:
        return find_run(runs[0])
    if not runs:
        raise ValueError(f"no run in {folder}: it has no config.json, nor has a folder in it")
    names = ", ".join(path.name for path in runs)
    raise ValueError(f"{folder} holds {len(runs)} runs: give one of {names} in it")
