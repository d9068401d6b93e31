"""Carries out a run: trains its seeds, scores them, writes the record. The same call goes on after
a kill; with more seeds, or another section `eval`, it trains and scores what is missing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from pe_jax import record
from pe_jax.data import tokenizer
from pe_jax.data.tokenizer import Tokens
from pe_jax.errors import Refused
from pe_jax.evaluation.evaluate import Models, evaluate
from pe_jax.evaluation.validation import validation
from pe_jax.model.config import stored
from pe_jax.record import Begun, Result, Tried
from pe_jax.runs import environment, scores
from pe_jax.runs.folder import Folder, chosen, wider
from pe_jax.runs.progress import SILENT, Parts, RunBar, View, evaluation_share
from pe_jax.runs.run import Run, Text
from pe_jax.runs.scores import Scores, moved_targets
from pe_jax.runs.trackers import Trackers, require
from pe_jax.storage import locks, records
from pe_jax.storage.checkpoints import Checkpoints, digests
from pe_jax.storage.hashes import canonical, sha256
from pe_jax.storage.jsonl import History, damaged_lines, read_lines
from pe_jax.training import mesh
from pe_jax.training.loop import final, train
from pe_jax.training.session import Session, stopping
from pe_jax.training.step import State, init, structure


def execute(
    run: Run,
    workdir: str | Path,
    command: str = "",
    view: View | None = None,
    verbose: bool = True,
) -> Result:
    """Trains the seeds of a run, scores them and gives the result: `rows` are the scores, a Row for
    each replica, way, metric and length in tokens. All of it is kept in <workdir>/<run.id>, and
    what that folder has already is not computed again.

    On a terminal a bar shows how far the run is, in a notebook a line that is written over,
    elsewhere a line every 20 s on stderr; nothing with verbose=False. `view` is another view in
    their place. `command` is what the record says reproduces the run.

    Raises Refused for what the user can mend, such as text that is too short, and Interrupted after
    SIGINT or SIGTERM, with the training state saved: the same call goes on. state.json says how the
    run ended.
    """
    environment.keep_programs()
    folder = Folder.of(run.id, workdir)
    if result := folder.complete(run.run.seeds, run.asked()):
        return result
    require(run.log.trackers)
    shown = contextlib.nullcontext(view or SILENT)
    if verbose and view is None:
        shown = RunBar(run.label, run.run.seeds, evaluation_share(run), folder.metrics)
    with shown as view:
        if run.train.rates:
            return at_best_rate(run, folder, command, view)
        return at_one_rate(run, folder, command, view)


def at_one_rate(run: Run, folder: Folder, command: str, view: View) -> Result:
    """`execute` of a run with one learning rate."""
    with work(run, folder, command, view) as (text, begun, session, trackers, write):
        if result := folder.complete(run.run.seeds, run.asked()):
            return result  # another process has written it meanwhile
        trained = train_groups(run, folder, text.trained, session)
        fields, seconds = _score(run, folder, _models(run, trained), text, session)
        result = Result(
            **vars(dataclasses.replace(begun, seeds=run.run.seeds)) | fields,
            seconds=_seconds(sum(group.seconds for group in trained), seconds),
            parameters=run.parameters(),
            asked=run.asked(),
            train=folder.training(run.train, run.task, run.run.seeds),
            peak_memory_mib=environment.peak_memory_mib(),
            digests={
                "-".join(map(str, group.seeds)): sha256(canonical(digests(group.state)))
                for group in trained
            },
        )
        trackers.finish(result)
        write(result)
        return result


@contextlib.contextmanager
def work(run: Run, folder: Folder, command: str, view: View):
    """Holds the folder of a run while it is carried out: (text, what config.json says, session,
    trackers, write(result)). Refused for text that is too short, devices that do not suffice, or
    too little memory.
    """
    text = run.load()
    try:
        devices = mesh.make(run.run.mesh)
    except ValueError as error:
        raise Refused(str(error)) from error
    _check_groups(run, folder, devices)
    with locks.locked(folder.path), stopping(view.say) as stop:
        begun = _begin(run, folder, text.trained, command, view)
        with (
            folder.kept_state(view) as write,
            Trackers(run.log.trackers, folder.path, begun, view.say) as trackers,
        ):
            if damaged := damaged_lines(folder.metrics):
                view.say(f"{folder.metrics}: {damaged} lines are damaged, and left out")

            def watch(line: dict[str, Any]) -> None:
                trackers.watch(line)
                view.watch(line)

            session = Session(
                history=History(folder.metrics, watch),
                say=view.say,
                stop=stop,
                mesh=devices,
                checkpoint_seconds=run.log.checkpoint_seconds,
                validate=validation(
                    *(run.lm, run.encodings, run.task, text.trained),
                    *(run.train.length, run.eval.batch_tokens, devices),
                )
                if run.train.steps
                else None,
                valid_every=run.log.valid_every,
                forget=lambda seeds: scores.forget(folder.scores, seeds),
            )
            view.begin()
            yield text, begun, session, trackers, write


def _begin(run: Run, folder: Folder, text: Tokens, command: str, view: View) -> Begun:
    """Begins or goes on with a run in its folder, which is held."""
    about = Begun(
        id=folder.path.name,
        label=run.label,
        command=command,
        config=records.plain(run.config),
        seeds=run.run.seeds,
        corpus=text.about,
        tokenizer=text.tokenizer.describe(),
        sources=run.files,
        parent=run.start.about() if run.start else None,
        started=records.now(),
        **vars(environment.process()),
    )
    start = [run.start.summary()] if run.start and run.train.steps else []
    notes = [*start, *(f"note: {doubt}" for doubt in text.about.doubts())]
    return folder.begin(about, text.tokenizer.json, notes, view)


def _check_groups(run: Run, folder: Folder, devices: Mesh | None) -> None:
    """Refused where the seeds of a program cannot share the devices."""
    for seeds in folder.groups(run.run) if run.train.steps else ():
        try:
            mesh.check(run.run.mesh, len(seeds), run.train.batch)
        except ValueError as error:
            raise Refused(str(error)) from error


# Training


class SeedGroup(NamedTuple):
    """Seeds that train together in one program, at the end of their training."""

    seeds: tuple[int, ...]
    state: State
    seconds: float = 0.0


def train_groups(run: Run, folder: Folder, text: Tokens, session: Session) -> list[SeedGroup]:
    """Trains the programs of the run's seeds, one after another; one that has ended is read from
    its checkpoint.
    """
    trained = []
    for seeds in folder.groups(run.run) if run.train.steps else ():
        state, seconds = train(
            *(run.lm, run.encodings, run.train, seeds),
            text.splits["train"],
            folder.checkpoints(seeds),
            session,
            run.start,
            run.task,
            text.tokenizer.bos,
        )
        trained.append(SeedGroup(seeds, state, seconds))
    return trained


def _trained_before(run: Run, folder: Folder) -> list[SeedGroup]:
    """The programs of a finished run, from their last checkpoints. ValueError if one of these is
    damaged or gone; the checkpoint before it is not taken.
    """
    trained = []
    for seeds in folder.groups(run.run) if run.train.steps else ():
        like = jax.eval_shape(lambda seeds=seeds: init(run.lm, run.encodings, run.train, seeds))
        checkpoints = Checkpoints(folder.checkpoints(seeds), read_only=True)
        trained.append(SeedGroup(seeds, final(checkpoints, like, run.train.steps)))
    return trained


def _models(run: Run, trained: Sequence[SeedGroup]) -> Models:
    """The models of the run's seeds; a run of no steps has the models of its parent."""
    graphdef, _ = structure(run.lm, run.encodings)
    params: dict[int, Any] = {}
    diverged: dict[int, int] = {}
    for group in trained:
        for row, seed in enumerate(group.seeds):
            params[seed] = jax.tree.map(
                lambda a, row=row: stored(a[row], run.eval.weights), group.state["params"]
            )
            if (step := int(np.asarray(group.state["diverged"])[row])) >= 0:
                diverged[seed] = step
    if run.start and not run.train.steps:
        params = run.start.models(run.lm, run.encodings, run.run.seeds, run.eval.weights)
    asked = {seed: params[seed] for seed in run.run.seeds}
    return Models(graphdef, asked, run.encodings, diverged, run.train.length, run.task)


# Scores


class Scoring(NamedTuple):
    """What the record says of the scores."""

    fields: dict[str, Any]
    """Fields of record.Result."""
    seconds: float
    """Seconds that scoring took."""


def _score(run: Run, folder: Folder, models: Models, text: Text, session: Session) -> Scoring:
    """Scores what the folder does not have yet."""
    apart = run.eval.source or run.eval.split == "all"  # else it was told when the run began
    about = text.scored.about
    for doubt in about.doubts([run.eval.split]) if apart else ():
        session.say(f"note: {doubt}")
    kept = Scores(folder, run, session.say)
    kept.begin(about)
    # XLA's CPU runs the blocks of attention one after another: a second core would be idle.
    single_core = jax.default_backend() == "cpu" and not session.mesh and run.eval.by == "seed"
    began = time.monotonic()
    try:
        evaluation = evaluate(
            models,
            text.windows,
            run.eval,
            session,
            threads=environment.threads() if single_core else 1,
            known=kept.known,
            keep=kept.add,
        )
    finally:
        kept.end(time.monotonic() - began)
    fields = {"targets": evaluation.targets, "target_bytes": evaluation.target_bytes}
    fields |= {"scored": about if run.eval.source else None, "sources": run.sources()}
    # The rows come from scores.jsonl, where older ones are, too; `evaluation` has only the new.
    return Scoring(fields | kept.result_fields(), kept.seconds)


def _seconds(train: float, evaluate: float) -> record.Seconds:
    return record.Seconds(train=train, evaluate=evaluate, total=train + evaluate)


# A run with several train.rates, which has a run inside for each of them. The rate is chosen by the
# validation score at the training length, the mean over all seeds. What the seeds score beyond that
# length, or on other text, has no part in the choice.


def at_best_rate(run: Run, folder: Folder, command: str, view: View) -> Result:
    """Trains the run at each of its rates, chooses one, and scores the run at that one. Where the
    best is the lowest or the highest of them, more are tried.
    """
    text = run.load()  # refused before anything is written
    with locks.locked(folder.path), folder.kept_state(view) as write:
        folder.plan(run.label, run.config)
        folder.metrics.unlink(missing_ok=True)  # the parts give theirs anew
        parts = Parts(view, History(folder.metrics, view.watch), len(run.train.rates) + 1)
        tried, todo, seconds = list[Tried](), list(run.train.rates), dict[float, float]()
        at = {rate: run.at_rate(rate) for rate in todo}  # now: a user's file may change meanwhile
        while todo:
            part = at[rate := todo.pop(0)]
            inside = folder.of_rate(part.id)
            inside.check_text(text.trained.about)  # its score may be there already
            tried.append(Tried(rate=rate, valid=_valid_at_end(part, inside, command, parts.next())))
            seconds[rate] = inside.training_seconds()
            if not todo and (more := wider(tried, len(run.train.rates))):
                view.say(f"train.rates: {chosen(tried).rate:g} is at the end of those tried")
                todo.append(more)
                at[more] = run.at_rate(more)
        best = at[chosen(tried).rate]
        del seconds[chosen(tried).rate]  # the result has them
        inside = folder.of_rate(best.id)
        result = inside.complete(best.run.seeds, best.asked()) or at_one_rate(
            best, inside, command, parts.next()
        )
        took = result.seconds or _seconds(0.0, 0.0)
        whole = dataclasses.replace(
            result,
            id=folder.path.name,
            config=records.plain(run.config),
            rates=tuple(tried),
            asked=run.asked(),
            command=command,
            seconds=_seconds(took.train + sum(seconds.values()), took.evaluate),
        )
        write(whole)
        return whole


def _valid_at_end(run: Run, folder: Folder, command: str, view: View) -> dict[int, float | None]:
    """The validation score of each seed at the end of its training; seeds that lack it are trained,
    and nothing else is scored. Refused where the validation text is shorter than a window.
    """
    end = run.run.seeds, run.train.steps
    if None in folder.valid(*end).values():
        with work(run, folder, command, view) as (text, _, session, _, _):
            if session.validate is None:
                raise Refused(
                    "train.rates are chosen among by validation text, of which there is not one "
                    f"window of {run.train.length} tokens: give more text, or one train.rate"
                )
            _check_ends(run, folder, train_groups(run, folder, text.trained, session))
            session.stop(lambda: None)
    return folder.valid(*end)


def _check_ends(run: Run, folder: Folder, trained: Sequence[SeedGroup]) -> None:
    """Refused where metrics.jsonl has lost the validation score of a program that has not
    diverged.
    """
    lines = read_lines(folder.metrics)
    ends = [line["seeds"] for line in lines if line.get("step") == run.train.steps]
    for group in trained:
        if (np.asarray(group.state["diverged"]) < 0).any() and list(group.seeds) not in ends:
            raise Refused(
                f"{folder.metrics} has lost the end of the training of seeds {group.seeds}, by "
                f"which a learning rate is chosen: delete {folder.path} and run the same command "
                "again"
            )


# A finished run that is asked for other scores


def evaluate_again(
    path: Path,
    changes: Mapping[str, Any],
    seeds: Sequence[int] | None = None,
    view: View = SILENT,
) -> Result:
    """The result of the finished run in the folder `path` with these fields of its section `eval`
    changed, for all its seeds or some. Nothing is trained, and result.json stays as it is.

    The text that is scored must be there; the training text need not be if eval.source names other
    text. Refused or ValueError if the run has not finished, a checkpoint is damaged, or the
    evaluation is not possible. Interrupted after SIGINT or SIGTERM: the scores so far are kept, and
    the same call computes the rest.
    """
    environment.keep_programs()
    finished = Folder(path).result()
    if finished is None:
        raise ValueError(f"{path} has no result.json: the run has not finished yet")
    folder = Folder(path).of_one_rate()
    if begun := folder.begun():
        folder.check_sources(begun)
    finished = dataclasses.replace(finished, seeds=tuple(seeds or finished.seeds))
    asked = finished.config | {
        "eval": finished.config["eval"] | changes,
        "run": finished.config["run"] | {"seeds": finished.seeds} | ({"mesh": ""} if seeds else {}),
    }
    run = Run.of(without_parent(folder, asked))
    before = Run.of(without_parent(folder, without_users_scoring(finished.config)))
    if moved := moved_targets(before, run):
        view.say(f"note: {moved}")
    text = run.load_scored(tokenizer.kept(folder.path, finished.tokenizer), finished.corpus.hash)
    if not run.eval.source and text.scored.about.hash != finished.corpus.hash:
        raise Refused(
            f"{folder.path} was trained on other text ({run.data.source} has changed since): name "
            "the text that is to be scored by eval.source"
        )
    devices = _devices(run, view)
    with locks.locked(folder.path, wait=True, say=view.say), stopping(view.say) as stop:
        session = Session(History(None, view.watch), view.say, stop, devices)
        models = _models(run, _trained_before(run, folder))
        fields, seconds = _score(run, folder, models, text, session)
        session.stop(lambda: None)  # which no pass has looked at where all scores are there
        training = finished.seconds.train if finished.seconds else 0.0
        return dataclasses.replace(
            finished, **fields, config=asked, seconds=_seconds(training, seconds)
        )


def without_parent(folder: Folder, config: dict[str, Any]) -> dict[str, Any]:
    """The config to evaluate the trained run in `folder` by: without the model that it started
    from, which may have gone, and with the tokenizer.json of the folder. A run of no steps keeps
    its config.
    """
    if not config["train"]["steps"]:
        return config
    train = config["train"] | {"init_from": "", "rates": ()}
    path = folder.path / "tokenizer.json"
    tokens = {"tokenizer": f"file:{path.resolve()}"} if path.is_file() else {}
    return config | {"train": train, "data": config["data"] | tokens}


def without_users_scoring(config: dict[str, Any]) -> dict[str, Any]:
    """The config without swaps and without metrics of the user's, whose files may have gone."""
    metrics = tuple(name for name in config["eval"]["metrics"] if ":" not in name)
    return config | {"eval": config["eval"] | {"metrics": metrics, "swaps": ()}}


def _devices(run: Run, view: View) -> Mesh | None:
    """The devices of run.mesh; where they are too few one device, of which the view is told."""
    try:
        return mesh.make(run.run.mesh)
    except ValueError as error:
        view.say(f"evaluating on one device: {error}")
        return None
