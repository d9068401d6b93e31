"""Carries out a run: trains its seeds, scores them, writes the record. The same call goes on after
a kill; with more seeds, or another section `eval`, it trains and scores what is missing.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pe_jax.errors import Refused
from pe_jax.evaluation import evaluate
from pe_jax.record import Begun, Result, Seconds, Tried
from pe_jax.runs import environment, losses, scores, seed_groups
from pe_jax.runs.folder import Folder
from pe_jax.runs.progress import Display
from pe_jax.runs.run import Run, Text
from pe_jax.runs.seed_groups import SeedGroup
from pe_jax.storage import jsonl, locks, records
from pe_jax.testing import check_model
from pe_jax.training import loop
from pe_jax.training.session import Session, stopping

LOG = logging.getLogger("pe_jax")


def execute(
    run: Run,
    workdir: str | Path,
    command: str = "",
    verbose: bool = True,
    tried: Sequence[Tried] = (),
) -> Result:
    """Trains the seeds of a run, scores them and gives the result: `rows` are the scores, a Row for
    each replica, way, metric and length in tokens. All of it is kept in <workdir>/<run.id>, and
    what that folder has already is not computed again.

    Messages of the logger "pe_jax" and the progress go to stderr, neither with verbose=False.
    `command` is what the record says reproduces the run; `tried` are learning rates that were tried
    before (rates.py).

    Raises Refused for what the user can mend, such as text that is too short, and Interrupted after
    SIGINT or SIGTERM, with the training state saved: the same call goes on. state.json says how the
    run ended.
    """
    environment.keep_programs()
    folder, asked = Folder.of(run.id, workdir), run.asked([one.rate for one in tried])
    if result := folder.complete(run.run.seeds, asked):
        return result
    with Display(verbose):
        text = run.load()  # which is refused before anything is written
    _check_encodings(run, text)
    programs = folder.groups(run.run.seeds) if run.train.steps else ()
    devices = seed_groups.devices(run.run.mesh, programs, run.train.batch)
    validate = None
    if run.train.steps:
        validate = evaluate.validation(
            *(run.lm, run.encodings, run.task, text.trained),
            *(run.train.length, run.eval.batch_tokens, devices),
        )
    with locks.locked(folder.path), Display(verbose) as display, stopping() as stop:
        if result := folder.complete(run.run.seeds, asked):
            return result  # another process has written it meanwhile
        begun = folder.begin(
            Begun(
                id=folder.path.name,
                label=run.label,
                command=command,
                config=records.plain(run.config),
                seeds=run.run.seeds,
                corpus=text.trained.about,
                tokenizer=text.trained.tokenizer.describe(),
                sources=run.files,
                parent=run.init_from.record if run.init_from else None,
                started=records.now(),
                **vars(environment.process()),
            ),
            text.trained.tokenizer.json,
        )
        with folder.at_work():
            LOG.info("%s: %s parameters of one seed", run.label, f"{run.parameters().total:,}")
            if run.init_from and run.train.steps:
                LOG.info(run.init_from.summary())
            session = Session(
                history=jsonl.History(folder.metrics, functools.partial(display.show, run.label)),
                stop=stop,
                mesh=devices,
                checkpoint_seconds=run.log.checkpoint_seconds,
                validate=validate,
                forget=functools.partial(scores.forget, folder.scores),
                valid_every=run.log.valid_every,
            )
            trained, tokens = [], text.trained
            for seeds in folder.groups(run.run.seeds) if run.train.steps else ():
                state, spent = loop.train(
                    *(run.lm, run.encodings, run.train, seeds, tokens.splits["train"]),
                    *(folder.checkpoints(seeds), session, run.init_from, run.task),
                    bos=tokens.tokenizer.bos,
                )
                trained.append(SeedGroup(seeds, state, spent))
            fields, seconds = _scored(run, folder, trained, text, session)
            training = sum(group.seconds for group in trained)
            if tried:
                begun.config["train"]["rates"] = [one.rate for one in tried]
            result = Result(
                **vars(dataclasses.replace(begun, seeds=run.run.seeds)) | fields,
                seconds=Seconds(train=training, evaluate=seconds, total=training + seconds),
                parameters=run.parameters(),
                asked=asked,
                train=losses.training(
                    jsonl.read_lines(folder.metrics), run.train, run.task, run.run.seeds
                ),
                peak_memory_mib=environment.peak_memory_mib(),
                digests={folder.checkpoints(g.seeds).name: g.digest() for g in trained},
                rates=tuple(tried),
            )
            folder.finish(result)
            return result


def estimate(run: Run, workdir: str | Path) -> evaluate.Estimate | None:
    """The time and memory that `execute` takes for a run of no steps on text; None where all its
    scores are there. Nothing is written. Refused as in `execute`.
    """
    with Display():
        text = run.load()
    models, kept = _models(run, Folder.of(run.id, workdir), ())
    return evaluate.estimate(models, text.windows, run.eval, kept.known)


def _models(run: Run, folder: Folder, trained: Sequence[SeedGroup]):
    # The models of a run, and the scores that are there
    seeds, weights = run.run.seeds, run.eval.weights
    models = seed_groups.models(
        *(run.lm, run.encodings, run.task, run.train, seeds, trained, run.init_from, weights)
    )
    return models, scores.Scores(folder.scores, run.eval, seeds, run.train.length, run.task)


def _scored(
    run: Run, folder: Folder, trained: Sequence[SeedGroup], text: Text, session: Session
) -> tuple[dict[str, Any], float]:
    models, kept = _models(run, folder, trained)
    if run.sources() != text.sources:  # whose windows have the metrics of before
        raise Refused("a file of yours has changed meanwhile: give the same command again")
    fields, seconds = scores.score(models, text, run.eval, kept, session)
    return fields | {"sources": text.sources}, seconds


def _check_encodings(run: Run, text: Text) -> None:
    # Refused for a fault of a user's own encoding, in the model of the run and on its text.
    documents = (document for split in text.trained.splits.values() for document in split)
    lengths = sorted({run.train.length, run.eval.lengths[-1]})
    check_model(run.lm, run.encodings, run.eval.swaps, run.task, documents, lengths)


def evaluate_again(
    path: Path,
    changes: Mapping[str, Any],
    seeds: Sequence[int] | None = None,
    verbose: bool = False,
) -> Result:
    """The result of the finished run in the folder `path` with these fields of its section `eval`
    changed, for all its seeds or some. Nothing is trained, and result.json stays as it is.

    The text that is scored must be there; the training text need not be if eval.source names other
    text. Refused or ValueError if the run has not finished, a checkpoint is damaged, or the
    evaluation is not possible. Interrupted after SIGINT or SIGTERM: the scores so far are kept, and
    the same call computes the rest.
    """
    environment.keep_programs()
    folder = Folder(path)
    finished = folder.result()
    if finished is None:
        raise ValueError(f"{path} has no result.json: the run has not finished yet")
    if begun := folder.begun():
        folder.check_sources(begun)
    finished = dataclasses.replace(finished, seeds=tuple(seeds or finished.seeds))
    asked = finished.config | {
        "eval": finished.config["eval"] | changes,
        "run": finished.config["run"] | {"seeds": finished.seeds} | ({"mesh": ""} if seeds else {}),
    }
    run = Run.of(without_parent(path, asked))
    parent = run.init_from and run.init_from.record
    if parent and finished.parent and parent.parameters != finished.parent.parameters:
        raise Refused(f"{run.train.init_from} has changed since {path} was scored: restore it")
    with Display(verbose):
        text = run.load(finished.corpus.hash)
    _check_encodings(run, text)
    with Display(verbose) as display, locks.locked(path, wait=True), stopping() as stop:
        devices = None
        try:
            devices = seed_groups.devices(run.run.mesh, (), run.train.batch)
        except Refused as error:
            LOG.info("evaluating on one device: %s", error)
        shown = jsonl.History(None, functools.partial(display.show, run.label))
        session, trained = Session(shown, stop, devices), []
        for group in folder.groups(run.run.seeds) if run.train.steps else ():
            fields = run.lm, run.encodings, run.train, group, folder.checkpoints(group)
            trained.append(seed_groups.final(*fields))
        fields, seconds = _scored(run, folder, trained, text, session)
        stop(lambda: None)  # which no pass has looked at where all scores are there
        training = finished.seconds.train if finished.seconds else 0.0
        whole = Seconds(train=training, evaluate=seconds, total=training + seconds)
        return dataclasses.replace(finished, **fields, config=asked, seconds=whole)


def without_parent(folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    """The config to evaluate the trained run in `folder` by: without the model that it started
    from, which may have gone, and with the tokenizer.json of the folder. A run of no steps keeps
    its config.
    """
    if not config["train"]["steps"]:
        return config
    train = config["train"] | {"init_from": "", "rates": ()}
    path = folder / "tokenizer.json"
    tokens = {"tokenizer": f"file:{path.resolve()}"} if path.is_file() else {}
    return config | {"train": train, "data": config["data"] | tokens}


def without_users_scoring(config: dict[str, Any]) -> dict[str, Any]:
    """The config without swaps and without metrics of the user's, whose files may have gone."""
    metrics = tuple(name for name in config["eval"]["metrics"] if ":" not in name)
    return config | {"eval": config["eval"] | {"metrics": metrics, "swaps": ()}}
