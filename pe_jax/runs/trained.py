"""A trained model of one seed, from the folder of its run, finished or not."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax

from pe_jax.data import tokenizer
from pe_jax.model.generate import TextModel
from pe_jax.pretrained.load import Pretrained
from pe_jax.pretrained.load import load as load_pretrained
from pe_jax.record import Begun, divergence
from pe_jax.runs.execute import evaluate_again, without_parent, without_users_scoring
from pe_jax.runs.folder import Folder
from pe_jax.runs.init_from import is_pretrained
from pe_jax.runs.run import Run
from pe_jax.storage.checkpoints import Checkpoints
from pe_jax.training.step import State, init, structure

if TYPE_CHECKING:
    import pandas


LOG = logging.getLogger("pe_jax")


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Trained(TextModel):
    """The model of one seed of a run.

    >>> model = Trained.of("runs/mine/rope-1a2b3c4d")
    >>> model.evaluate(lengths=(64, 4096))
    >>> model.logits("def f(")
    """

    folder: Path
    run: Run
    seed: int
    step: int
    """How many training steps its checkpoint had behind it."""

    def __repr__(self) -> str:
        return (
            f"Trained {self.name}: seed {self.seed} after {self.step:,} steps at length "
            f"{self.run.train.length}, {self.size:,} parameters\n  {self.folder}"
        )

    @classmethod
    def of(cls, folder: str | Path, seed: int | None = None) -> Trained:
        """From the newest whole checkpoint of the run in `folder`, by `find_run`; of a seed that
        diverged, the newest from before, with a warning. `seed` None: the first of its seeds.
        Damaged checkpoints are set aside, with a warning.

        ValueError or Refused if there is no such run, seed or checkpoint.
        """
        home, begun = find_run(Path(folder))
        home.check_sources(begun)
        run = Run.of(without_parent(home.path, without_users_scoring(begun.config)))
        seed = run.run.seeds[0] if seed is None else seed
        group = next((seeds for seeds in home.begun_groups if seed in seeds), None)
        if group is None:
            known = ", ".join(str(seed) for seeds in home.begun_groups for seed in seeds)
            raise ValueError(
                f"{home.path} has no checkpoint of seed {seed}; its seeds are {known or 'none'}"
            )
        like = jax.eval_shape(lambda: init(run.lm, run.encodings, run.train, group))
        step, state = _restored(Checkpoints(home.checkpoints(group)), like, group, seed)
        params = jax.tree.map(lambda a: a[group.index(seed)], state["params"])
        graphdef, _ = structure(run.lm, run.encodings)
        return cls(
            name=run.label,
            graphdef=graphdef,
            params=params,
            members=run.encodings,
            tokenizer=tokenizer.kept(home.path, begun.tokenizer),
            folder=home.path,
            run=run,
            seed=seed,
            step=step,
        )

    def evaluate(self, verbose: bool = True, **changes: Any) -> pandas.DataFrame:
        """The scores of this seed as a table, with these fields of section `eval` changed, as in
        evaluate(lengths=(64, 4096), swaps=()): a row for each swap, metric and length in tokens,
        the columns as in `pe_jax.frame`.

        Missing scores are computed and kept in the run's folder; `verbose` is as in
        `pe_jax.execute`. ValueError or Refused unless the run has finished, Interrupted after
        Ctrl-C.
        """
        from pe_jax.report.frame import frame_of

        return frame_of([evaluate_again(self.folder, changes, (self.seed,), verbose)])


def load(model: str | Path, **options: Any) -> Trained | Pretrained:
    """A model that reads and continues text: `logits`, `encode`, `decode`, `generate`.

    `model` is the folder of a run, with the options of Trained.of, as seed=1, and the model
    can `evaluate`, too; or "hf:DIR" or "gguf:PATH", a pretrained model on this disk, with the
    options of pretrained.load, as weights="bfloat16". ValueError, Refused or FileNotFoundError
    where no model is there.

    >>> load("runs/mine/rope-1a2b3c4d").generate("def ", 100)
    """
    if is_pretrained(str(model)):
        return load_pretrained(str(model), **options)
    return Trained.of(model, **options)


def _restored(
    checkpoints: Checkpoints, like: State, group: tuple[int, ...], seed: int
) -> tuple[int, State]:
    # (step, state) of the newest whole checkpoint from before `seed` diverged
    newest, words = checkpoints.restore(like), "all are damaged"
    end = int(newest[1]["diverged"][group.index(seed)]) if newest else -1
    if end >= 0:
        newest, words = checkpoints.restore(like, end), divergence({seed: end})
    if not newest:
        raise ValueError(f"{checkpoints.folder} has no checkpoint of seed {seed}: {words}")
    if end >= 0:
        LOG.warning("%s: this is its model after %s steps, from before", words, newest[0])
    return newest[:2]


def find_run(path: Path) -> tuple[Folder, Begun]:
    """The folder of the run and its config.json: `path`, or its only subfolder with a finished run,
    or without any, with a begun one. ValueError if there is none, or several.
    """
    folder = Folder(path)
    if begun := folder.begun():
        if not begun.config["train"]["steps"]:
            source = begun.config["train"]["init_from"]
            raise ValueError(f"{path} has scores alone, of the model {source}: load that")
        return folder, begun
    finished, begun = (sorted(path.glob(f"*/{name}.json")) for name in ("result", "config"))
    runs = [file.parent for file in finished or begun]
    if len(runs) == 1:
        return find_run(runs[0])
    if not runs:
        raise ValueError(f"no run in {path}: it has no config.json, nor has a folder in it")
    called = ", ".join(run.name for run in runs)
    raise ValueError(f"{path} holds {len(runs)} runs: give one of {called} in it")
