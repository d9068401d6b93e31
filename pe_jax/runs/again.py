"""Evaluates a finished run in another way: what is not known yet is scored and kept beside it, and
nothing is trained.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
from jax.sharding import Mesh

from pe_jax.data import tokenizer
from pe_jax.errors import Refused
from pe_jax.evaluation.evaluate import Evaluation
from pe_jax.record import Result, Seconds
from pe_jax.runs import folder as folders
from pe_jax.runs import layout, programs
from pe_jax.runs.run import Run
from pe_jax.runs.scores import Kept, scores
from pe_jax.runs.view import SILENT, View
from pe_jax.storage import locks, records
from pe_jax.storage.checkpoints import Checkpoints
from pe_jax.storage.history import History
from pe_jax.training import mesh
from pe_jax.training.divergence import final
from pe_jax.training.session import Session, stopping
from pe_jax.training.step import State, init


def evaluate_again(
    folder: Path,
    changes: Mapping[str, Any],
    seeds: Sequence[int] | None = None,
    view: View = SILENT,
) -> Result:
    """The result of the finished run in `folder` with these fields of its section `eval` changed,
    for all its seeds or some.

    Of its text, the part that is scored must be there; that of training need not if eval.source
    names other text. Refused or ValueError if the run has not finished, a checkpoint is damaged, or
    the evaluation is not possible. Interrupted after SIGINT or SIGTERM: the scores so far are kept,
    and the same call computes the rest.
    """
    programs.keep()
    folder, finished = _finished(folder)
    finished = dataclasses.replace(finished, seeds=tuple(seeds or finished.seeds))
    run_section = finished.config["run"] | {"seeds": finished.seeds, "choose_seeds": ()}
    asked = {"eval": finished.config["eval"] | changes, "run": run_section}
    run = Run.of(alone(folder, finished.config | asked))
    text = run.load_scored(tokenizer.kept(folder, finished.tokenizer), finished.corpus.hash)
    if not run.eval.source and text.about.hash != finished.corpus.hash:
        raise Refused(
            f"{folder} was trained on other text ({run.data.source} has changed since): name the "
            "text that is to be scored by eval.source"
        )
    for doubt in text.about.doubts([run.eval.split]):
        view.say(f"note: {doubt}")
    devices = _devices(run, view)
    with locks.locked(folder, say=view.say) as check, stopping(view.say) as stop:
        kept = Kept.of(folder, run, view.say)
        kept.check(text.about)
        groups = folders.groups(folder, run)
        session = Session(History(None, view.watch, check), view.say, stop, devices)
        begun = time.monotonic()
        seeds = [seed for group in groups for seed in group]

        def keep(evaluation: Evaluation) -> Result:
            evaluating = kept.seconds + time.monotonic() - begun
            training = finished.seconds.train if finished.seconds else 0.0
            result = dataclasses.replace(
                finished,
                **vars(evaluation),
                config=finished.config | asked,
                scored=text.about if run.eval.source else None,
                seconds=Seconds(train=training, evaluate=evaluating, total=training + evaluating),
            )
            return kept.joined(result, run)

        states = _states(run, folder, groups)
        return keep(scores(run, states, seeds, text, session, kept.done, keep))


def _devices(run: Run, view: View) -> Mesh | None:
    """Those of the run's mesh; one device, which the view is told, where they are too few."""
    try:
        return mesh.make(run.run.mesh)
    except ValueError as error:
        view.say(f"evaluating on one device: {error}")
        return None


def _finished(folder: Path) -> tuple[Path, Result]:
    """(the folder that holds its models, result) of a finished run."""
    finished = records.read(Result, folder / "result.json")
    if finished is None:
        raise ValueError(f"{folder} has no result.json: the run has not finished yet")
    models = layout.of_one_rate(folder)
    folders.check_sources(folder, finished)
    return models, finished


def alone(folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    """The config of the run in `folder` if it is not trained: where it started from, which may have
    gone, does not matter, and its tokens are those in its folder.
    """
    train = config["train"] | {"init_from": "", "rates": ()}
    path = folder / "tokenizer.json"
    tokens = {"tokenizer": f"file:{path.resolve()}"} if path.is_file() else {}
    return config | {"train": train, "data": config["data"] | tokens}


def _states(run: Run, folder: Path, groups: tuple[tuple[int, ...], ...]) -> list[State]:
    """The states at the end of the training of each program. ValueError if one of these checkpoints
    is damaged or gone; the one before it is not taken.
    """
    states = []
    for seeds in groups:
        like = jax.eval_shape(lambda seeds=seeds: init(run.lm, run.encodings, run.train, seeds))
        checkpoints = Checkpoints(layout.checkpoints(folder, seeds), read_only=True)
        states.append(final(checkpoints, like, run.train.steps))
    return states
