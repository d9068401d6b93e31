"""Carries out a run: trains its seeds, scores them, writes the record. The same call goes on after
a kill; with more seeds, or another section `eval`, it trains and scores what is missing.

Of several processes, on one host or many, all do the same. The first alone reads and writes the
run's folder, and tells the others what is there (training/processes.py).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from pe_jax import record
from pe_jax.data import tokenizer
from pe_jax.data.tokenizer import Tokens
from pe_jax.errors import Refused
from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.evaluate import Models, evaluate
from pe_jax.evaluation.passes import jobs, plan, wanted
from pe_jax.evaluation.scorers import SampleScorer, Scored
from pe_jax.evaluation.windows import windows
from pe_jax.model.config import stored
from pe_jax.record import Baseline, Begun, Result, Tried
from pe_jax.runs import environment, scores
from pe_jax.runs.folder import Folder, chosen, wider
from pe_jax.runs.progress import SILENT, Parts, RunBar, View, evaluation_share
from pe_jax.runs.run import Run
from pe_jax.runs.scores import Scores, moved_targets
from pe_jax.runs.trackers import Trackers, require
from pe_jax.storage import locks, records
from pe_jax.storage.checkpoints import Checkpoints, digests
from pe_jax.storage.hashes import canonical, sha256
from pe_jax.storage.jsonl import History, damaged_lines, read_lines
from pe_jax.training import mesh, need
from pe_jax.training.loop import final, train
from pe_jax.training.processes import broadcast, each, gather, gather_texts
from pe_jax.training.session import Session, Validate, stopping
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

    Of several processes all call it with the same run. Only the first uses the work directory and
    shows anything; all get the result, or what was raised.
    """
    environment.keep_programs()
    folder, first = Folder.of(run.id, workdir), jax.process_index() == 0
    if view or not verbose or not first:
        shown = contextlib.nullcontext((view or SILENT) if first else SILENT)
    else:
        shown = RunBar(run.label, run.run.seeds, evaluation_share(run), folder.metrics)
    with shown as view:
        return _execute(run, folder, command, view)


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
    if not run.eval.source and text.about.hash != finished.corpus.hash:
        raise Refused(
            f"{folder.path} was trained on other text ({run.data.source} has changed since): name "
            "the text that is to be scored by eval.source"
        )
    devices = _devices(run, view)
    with locks.locked(folder.path, wait=True, say=view.say) as check, stopping(view.say) as stop:
        session = Session(History(None, view.watch, check), view.say, stop, devices)
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


# One run


def _execute(run: Run, folder: Folder, command: str, view: View) -> Result:
    """As `execute`, with the view that shows the run."""
    if result := broadcast(folder.complete, run, kind=Result | None):
        return result
    broadcast(require, run.log.trackers)
    if run.train.rates:
        return _execute_at_best_rate(run, folder, command, view)
    with _held_work(run, folder, command, view) as work:
        if result := broadcast(folder.complete, run, kind=Result | None):
            return result  # another process has written it meanwhile
        trained = _train(run, folder, work)
        models = _models(run, trained)
        scored = _score(run, folder, models, _scored_text(run, work), work.session)

        def finish() -> Result:
            assert work.begun
            result = _result(run, folder, work.begun, trained, scored)
            work.finish(result)
            return result

        return broadcast(finish, kind=Result)


class Work(NamedTuple):
    """What carrying out a run needs besides the run and its folder. The last two fields are for the
    first process alone.
    """

    text: Tokens
    session: Session
    begun: Begun | None = None
    finish: Callable[[Result], None] = lambda result: None
    """Writes the record, and shows it to the trackers."""


@contextlib.contextmanager
def _held_work(run: Run, folder: Folder, command: str, view: View) -> Iterator[Work]:
    """Reads the text of a run and holds its folder while the run is carried out. Refused in all
    processes where one of them is refused, as for text that is too short, devices that do not
    suffice, or too little memory.
    """
    text = _same_text(run.load)
    try:
        devices = mesh.make(run.run.mesh)
    except ValueError as error:
        raise Refused(str(error)) from error
    broadcast(_check_groups, run, folder, devices)
    with stopping(view.say) as stop, contextlib.ExitStack() as stack:
        validate = _validation(run, text, devices) if run.train.steps else None
        settings = devices, run.log.checkpoint_seconds, validate, run.log.valid_every
        work = Work(text, Session(History(), view.say, stop, *settings))

        def hold() -> None:
            nonlocal work
            check = stack.enter_context(locks.locked(folder.path, say=view.say))
            begun = _begin(run, folder, text, command, view)
            write = stack.enter_context(folder.kept_state(check, view))
            if damaged := damaged_lines(folder.metrics):
                view.say(f"{folder.metrics}: {damaged} lines are damaged, and left out")
            trackers = Trackers(run.log.trackers, folder.path, begun, view.say)
            stack.enter_context(trackers)

            def watch(line: dict[str, Any]) -> None:
                trackers.watch(line)
                view.watch(line)

            def finish(result: Result) -> None:
                check()
                trackers.finish(result)
                write(result)

            history = History(folder.metrics, watch, check)
            forget = functools.partial(scores.forget, folder.scores)
            session = dataclasses.replace(work.session, history=history, forget=forget)
            work = Work(text, session, begun, finish)
            view.begin()

        broadcast(hold)
        yield work


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
        advice=run.advice,
        started=records.now(),
        **vars(environment.process()),
    )
    start = [run.start.summary()] if run.start and run.train.steps else []
    notes = [*start, *(f"note: {doubt}" for doubt in (*run.advice, *text.about.doubts()))]
    return folder.begin(about, text.tokenizer.json, notes, view)


def _check_groups(run: Run, folder: Folder, devices: Mesh | None) -> None:
    """Refused where the seeds of a program cannot share the devices, or need more memory."""
    for seeds in folder.groups(run.run) if run.train.steps else ():
        try:
            mesh.check(run.run.mesh, len(seeds), run.train.batch)
        except ValueError as error:
            raise Refused(str(error)) from error
        model = run.lm, run.encodings, run.train, run.task, len(seeds)
        if seeds not in folder.begun_groups and (lacks := need.lacking(*model, devices)):
            raise Refused(lacks)


def _same_text(load: Callable[[], Tokens]) -> Tokens:
    """The tokens that `load` gives in each process. Refused in all processes if it is refused in
    one, or if their texts or tokens differ.
    """
    text = each(load)
    read = gather_texts(f"{text.about.hash} {text.tokenizer.describe().sha256}")
    for process, hashes in enumerate(read):
        if hashes != read[0]:
            raise Refused(
                f"process {process} reads other text or tokens than process 0 from "
                f"{text.about.source}: give all processes the same files"
            )
    return text


def _devices(run: Run, view: View) -> Mesh | None:
    """The devices of run.mesh; where they are too few one device, of which the view is told."""
    try:
        return mesh.make(run.run.mesh)
    except ValueError as error:
        view.say(f"evaluating on one device: {error}")
        return None


# Training


def _train(run: Run, folder: Folder, work: Work) -> list[SeedGroup]:
    """Trains the programs of the run's seeds, one after another; one that has ended is read from
    its checkpoint.
    """
    if not run.train.steps:
        return []
    trained = []
    for seeds in broadcast(folder.groups, run.run, kind=tuple[tuple[int, ...], ...]):
        state, seconds = train(
            *(run.lm, run.encodings, run.train, seeds),
            work.text.splits["train"],
            folder.checkpoints(seeds),
            work.session,
            run.start,
            run.task,
            work.text.tokenizer.bos,
        )
        trained.append(SeedGroup(seeds, state, seconds))
    return trained


class SeedGroup(NamedTuple):
    """Seeds that train together in one program, at the end of their training."""

    seeds: tuple[int, ...]
    state: State
    seconds: float = 0.0


def _trained_before(run: Run, folder: Folder) -> list[SeedGroup]:
    """The programs of a finished run, from their last checkpoints. ValueError if one of these is
    damaged or gone; the checkpoint before it is not taken.
    """
    if not run.train.steps:
        return []
    trained = []
    for seeds in folder.groups(run.run):
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
    if (start := run.start) and not run.train.steps:
        model = (run.lm, run.encodings, run.run.seeds, run.eval.weights)
        params = each(lambda: start.models(*model))
    asked = {seed: params[seed] for seed in run.run.seeds}
    return Models(graphdef, asked, run.encodings, diverged, run.train.length, run.task)


# Scores and the record


def _scored_text(run: Run, work: Work) -> Tokens:
    """The text that is scored: the text of training, or the text that eval.source names."""
    if not run.eval.source:
        return work.text
    tokens, trained_on = work.text.tokenizer, work.text.about.hash
    return _same_text(lambda: run.load_scored(tokens, trained_on))


def _score(run: Run, folder: Folder, models: Models, text: Tokens, session: Session) -> Scoring:
    """Scores what the folder does not have yet."""
    apart = run.eval.source or run.eval.split == "all"  # else it was told when the run began
    for doubt in text.about.doubts([run.eval.split]) if apart else ():
        session.say(f"note: {doubt}")
    scores: list[Scores] = []

    def open_scores() -> tuple[Scored, ...]:
        kept = Scores(folder, run, session.say)
        kept.begin(text.about)
        scores.append(kept)
        return kept.known

    def keep(scored: list[Scored], baselines: list[Baseline]) -> None:
        session.history.check()
        scores[0].add(scored, baselines)

    # XLA's CPU runs the blocks of attention one after another: a second core would be idle.
    single_core = jax.default_backend() == "cpu" and not session.mesh and run.eval.by == "seed"
    began = time.monotonic()
    try:
        evaluation = evaluate(
            models,
            run.scored(text),
            run.eval,
            text.tokenizer,
            session,
            threads=environment.threads() if single_core else 1,
            known=broadcast(open_scores, kind=tuple[Scored, ...]),
            keep=keep,
        )
    finally:
        for kept in scores:
            with contextlib.suppress(locks.TakenOver):  # what ended the scoring matters
                session.history.check()
                kept.end(time.monotonic() - began)
    if not scores:
        return Scoring({}, 0.0)
    fields = {"targets": evaluation.targets, "target_bytes": evaluation.target_bytes}
    fields |= {"scored": text.about if run.eval.source else None, "sources": run.sources()}
    # The rows come from scores.jsonl, where older ones are, too; `evaluation` has only the new.
    return Scoring(fields | scores[0].result_fields(), scores[0].seconds)


class Scoring(NamedTuple):
    """What the record says of the scores, in the first process; empty in the others."""

    fields: dict[str, Any]
    """Fields of record.Result."""
    seconds: float
    """Seconds that scoring took."""


def _result(
    run: Run, folder: Folder, begun: Begun, trained: Sequence[SeedGroup], scored: Scoring
) -> Result:
    """The record of a run."""
    return Result(
        **vars(dataclasses.replace(begun, seeds=run.run.seeds)) | scored.fields,
        seconds=_seconds(sum(group.seconds for group in trained), scored.seconds),
        parameters=run.parameters(),
        train=folder.training(run.train, run.task, run.run.seeds),
        peak_memory_mib=environment.peak_memory_mib(),
        digests={
            "-".join(map(str, group.seeds)): sha256(canonical(digests(group.state)))
            for group in trained
        },
    )


def _seconds(train: float, evaluate: float) -> record.Seconds:
    return record.Seconds(train=train, evaluate=evaluate, total=train + evaluate)


# A run with several train.rates, which has a run inside for each of them. The rate is chosen by the
# validation score at the training length, the mean over all seeds. What the seeds score beyond that
# length, or on other text, has no part in the choice.


def _execute_at_best_rate(run: Run, folder: Folder, command: str, view: View) -> Result:
    """Trains the run at each of its rates, chooses one, and scores the run at that one. Where the
    best is the lowest or the highest of them, more are tried.
    """
    text = _same_text(run.load)  # which is refused before anything is written if it cannot serve
    with contextlib.ExitStack() as stack:
        parts = Parts(view, History(), len(run.train.rates) + 1)
        write: Callable[[Result], None] | None = None

        def hold() -> None:
            nonlocal write
            check = stack.enter_context(locks.locked(folder.path, say=view.say))
            write = stack.enter_context(folder.kept_state(check, view))
            folder.plan(run.label, run.config)
            folder.metrics.unlink(missing_ok=True)  # the parts give theirs anew
            parts.history = History(folder.metrics, view.watch, check)

        broadcast(hold)
        tried, todo, seconds = list[Tried](), list(run.train.rates), dict[float, float]()
        at = {rate: run.at_rate(rate) for rate in todo}  # now: a user's file may change meanwhile
        while todo:
            part = at[rate := todo.pop(0)]
            inside = folder.of_rate(part.id)
            broadcast(inside.check_text, text.about)  # its score may be there already
            valid = _valid_at_end(part, inside, command, parts.next())
            tried.append(Tried(rate=rate, valid=valid))
            seconds[rate] = broadcast(inside.training_seconds)
            if not todo and (more := wider(tried, len(run.train.rates))):
                view.say(f"train.rates: {chosen(tried).rate:g} is at the end of those tried")
                todo.append(more)
                at[more] = run.at_rate(more)
        best = chosen(tried).rate
        del seconds[best]  # the result has them
        part = at[best]
        result = _execute(part, folder.of_rate(part.id), command, parts.next())

        def finish() -> Result:
            assert write
            took = result.seconds or _seconds(0.0, 0.0)
            whole = dataclasses.replace(
                result,
                id=folder.path.name,
                config=records.plain(run.config),
                rates=tuple(tried),
                command=command,
                seconds=_seconds(took.train + sum(seconds.values()), took.evaluate),
            )
            write(whole)
            return whole

        return broadcast(finish, kind=Result)


def _valid_at_end(run: Run, folder: Folder, command: str, view: View) -> dict[int, float | None]:
    """The validation score of each seed at the end of its training; seeds that lack it are trained,
    and nothing else is scored. Refused where the validation text is shorter than a window.
    """
    end = run.run.seeds, run.train.steps
    valid = broadcast(folder.valid, *end, kind=dict[int, float | None])
    if None in valid.values():
        with _held_work(run, folder, command, view) as work:
            if work.session.validate is None:
                raise Refused(
                    "train.rates are chosen among by validation text, of which there is not one "
                    f"window of {run.train.length} tokens: give more text, or one train.rate"
                )
            broadcast(_check_ends, run, folder, _train(run, folder, work))
            work.session.stop(lambda: None)
        valid = broadcast(folder.valid, *end, kind=dict[int, float | None])
    return valid


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


# Validation: text or samples that are scored while a run trains. One of train.rates is chosen by
# this score, and it shows whether training goes on, has come to a halt or diverges.

VALIDATED = 8192
"""Scored tokens, where the validation text has as many; of a task the tokens of its samples."""


def _validation(run: Run, text: Tokens, mesh: Mesh | None) -> Validate | None:
    """Scores the validation text by `same_targets`, or the samples of the split "valid" by `bits`,
    at the training length. None where the text is shorter than one window.
    """
    config = _of_text(run, text.splits["valid"]) if run.task.reads_text else _of_samples(run)
    if config is None:
        return None
    graphdef, _ = structure(run.lm, run.encodings)

    def validate(params: Any) -> list[float | None]:
        seeds, session = range(len(jax.tree.leaves(params)[0])), Session(mesh=mesh)
        fields = graphdef, gather(params), run.encodings, {}, run.train.length, run.task
        models = Models.stacked(*fields, seeds=seeds)
        if run.task.reads_text:
            scored = evaluate(models, text.splits["valid"], config, text.tokenizer, session)
            return [row.value for row in scored.rows]
        passes = plan(run.encodings, config, task=run.task)
        (job,) = jobs(passes, keys := wanted(passes, config, seeds))
        of_samples = SampleScorer(models, config, session)(job)
        return [of_samples[key].row.value for key in keys]

    return validate


def _of_samples(run: Run) -> EvalConfig:
    """The evaluation of samples that have about VALIDATED tokens."""
    length, samples = run.train.length, max(1, VALIDATED // int(run.task.size(run.train.length)))
    config = EvalConfig((length,), ("bits",), (), samples=samples, split="valid")
    config = dataclasses.replace(config, batch_tokens=run.eval.batch_tokens)
    return config.resolved(length, task=run.task)


def _of_text(run: Run, documents: Sequence[np.ndarray]) -> EvalConfig | None:
    """The evaluation of VALIDATED targets, or of half or a quarter of them and so on."""
    length, targets = run.train.length, VALIDATED
    whole = EvalConfig((length,), ("same_targets",), (), batch_tokens=run.eval.batch_tokens)
    while targets >= max(1, length // 2):
        config = dataclasses.replace(whole, targets=targets).resolved(length)
        try:
            windows(documents, "same_targets", length, config)
        except ValueError:
            targets //= 2
        else:
            return config
    return None
