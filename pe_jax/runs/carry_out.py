"""Carries out a run at its one learning rate, in its folder.

What it writes there, in order: config.json (and tokenizer.json), state.json, which follows how the
run stands, metrics.jsonl and checkpoints/ as it goes on, evaluations/ (scores.py), and at the end
result.json, which answers what was asked for last. Training and evaluation get a Session. Its
History writes metrics.jsonl and hands every line to the Trackers, which copy it to other programs,
and to the View, which shows it to the caller.
"""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pe_jax import record
from pe_jax.data.tokenizer import Tokens
from pe_jax.errors import Refused, in_words
from pe_jax.evaluation.evaluate import Evaluation
from pe_jax.reason import divergence
from pe_jax.record import Begun, Result, Stage
from pe_jax.runs import environment, follow, layout, measured
from pe_jax.runs import folder as folders
from pe_jax.runs.begin import begin
from pe_jax.runs.run import Run
from pe_jax.runs.scores import Kept, scores
from pe_jax.runs.trackers import Trackers
from pe_jax.runs.validation import validation
from pe_jax.runs.view import View
from pe_jax.storage import locks, records, state
from pe_jax.storage.arrays import digests
from pe_jax.storage.hashes import canonical, sha256
from pe_jax.storage.history import History, damaged_lines, read_lines
from pe_jax.training import mesh, need
from pe_jax.training.loop import train
from pe_jax.training.processes import broadcast
from pe_jax.training.session import Interrupted, Session, stopping
from pe_jax.training.step import State


class Work(NamedTuple):
    """What carrying out a run in its folder needs."""

    folder: Path
    about: Begun
    corpus: Tokens
    session: Session
    trackers: Trackers
    told: Callable[[str], None]
    """Gets what state.json is to say of the run when it is done."""


class Trained(NamedTuple):
    """One program at the end of its training."""

    seeds: tuple[int, ...]
    state: State
    seconds: float


def carry_out(run: Run, folder: Path, command: str, view: View) -> Result:
    """The run's result: what is missing is trained and scored."""
    if done := folders.complete(run, folder):
        return done
    with _at_work(run, folder, command, view) as work:
        if done := folders.complete(run, folder):  # by another process since
            return done
        trained = _train(run, work)
        result = _result(run, work, trained)
        work.session.history.check()
        work.trackers.finish(result)
        records.write(folder / "result.json", result)
        work.told(divergence(result.diverged))
        return result


def tuned(run: Run, folder: Path, command: str, view: View) -> dict[int, float | None]:
    """Bits per byte of validation text of each seed after training, which is done if it is missing.
    Nothing else is scored. Refused where the validation text is shorter than a window.
    """
    valid = measured.valid(run, read_lines(folder / "metrics.jsonl"))
    if None in valid.values():
        with _at_work(run, folder, command, view) as work:
            if work.session.validate is None:
                raise Refused(
                    "train.rates are chosen among by validation text, of which there is not one "
                    f"window of {run.train.length} tokens: give more text, or one train.rate"
                )
            _validate(run, work, _train(run, work))
        valid = measured.valid(run, read_lines(folder / "metrics.jsonl"))
    return valid


def _validate(run: Run, work: Work, trained: list[Trained]) -> None:
    """Scores validation text for programs that were trained without, by an earlier release."""
    path = work.folder / "metrics.jsonl"
    ends = [line for line in read_lines(path) if line.get("step") == run.train.steps]
    for number, program in enumerate(trained):
        if (np.asarray(program.state["diverged"]) >= 0).all():
            continue
        end = next((line for line in ends if line["seeds"] == list(program.seeds)), None)
        if end is None:
            raise Refused(
                f"{path} has lost the end of the training of seeds {program.seeds}, by which a "
                f"learning rate is chosen: delete {work.folder} and run the same command again"
            )
        if "valid" not in end and work.session.validate:
            broadcast(follow.Validate, number)
            score = work.session.validate(program.state["params"])
            work.session.history.add(**end, valid=score)


@contextlib.contextmanager
def _at_work(run: Run, folder: Path, command: str, view: View) -> Iterator[Work]:
    """Holds the run's folder, with its text read, and keeps state.json."""
    corpus, devices = follow.begin(run)
    try:
        for group in folders.groups(folder, run):
            mesh.check(run.run.mesh, len(group), run.train.batch)
            model = run.lm, run.encodings, run.train, run.task, len(group)
            new = group not in layout.trained_groups(folder)
            if new and (lacks := need.lacking(*model, devices)):
                raise Refused(lacks)
    except ValueError as error:
        raise Refused(str(error)) from error
    with locks.locked(folder, say=view.say) as check, stopping(view.say) as stop:
        about = begin(run, folder, corpus, command, view)
        if damaged := damaged_lines(folder / "metrics.jsonl"):
            view.say(f"{folder / 'metrics.jsonl'}: {damaged} lines are damaged, and left out")
        with (
            keep_state(folder, check) as told,
            Trackers(run.log.trackers, folder, about, view.say) as trackers,
        ):

            def watch(line: dict[str, Any]) -> None:
                trackers.watch(line)
                view.watch(line)

            session = Session(
                History(folder / "metrics.jsonl", watch, check),
                view.say,
                stop,
                devices,
                run.log.checkpoint_seconds,
                validation(run, corpus, devices),
                run.log.valid_every,
            )
            view.begin()
            yield Work(folder, about, corpus, session, trackers, told)


@contextlib.contextmanager
def keep_state(folder: Path, check: locks.Check) -> Iterator[Callable[[str], None]]:
    """Keeps state.json while the run is carried out: running, then done, stopped or failed. Gives a
    function for the reason that a run which is done has. A folder that another process has taken
    over is left to that.
    """
    state.put(folder, Stage.RUNNING)
    ending: tuple[Stage, str] = Stage.DONE, ""

    def told(reason: str) -> None:
        nonlocal ending
        ending = Stage.DONE, reason

    try:
        yield told
    except Interrupted as error:
        ending = Stage.STOPPED, f"by {error}"
        raise
    except KeyboardInterrupt:
        ending = Stage.STOPPED, f"by {signal.SIGINT.name}"
        raise
    except Refused as error:
        ending = Stage.FAILED, str(error)
        raise
    except OSError as error:
        ending = Stage.FAILED, in_words(error)
        raise
    except BaseException as error:
        ending = Stage.FAILED, f"{type(error).__name__}: {error}"
        raise
    finally:
        with contextlib.suppress(OSError, locks.TakenOver):  # what ended the run matters more
            check()
            state.put(folder, *ending)


def _train(run: Run, work: Work) -> list[Trained]:
    """Trains the programs of the run's seeds, one after another; those that have ended are read."""
    return [_trained(run, work, seeds) for seeds in folders.groups(work.folder, run)]


def _trained(run: Run, work: Work, seeds: tuple[int, ...]) -> Trained:
    """Trains the seeds of one program."""
    broadcast(follow.Train, seeds, run.start is not None)
    model = run.lm, run.encodings, run.train, seeds
    state, seconds = train(
        *model,
        work.corpus.splits["train"],
        layout.checkpoints(work.folder, seeds),
        work.session,
        run.start,
        run.task,
    )
    return Trained(seeds, state, seconds)


def _result(run: Run, work: Work, trained: list[Trained]) -> Result:
    """Scores what is missing, keeps it, and puts the record together."""
    kept = Kept.of(work.folder, run, work.session.say)
    scored = work.corpus
    if run.eval.source:
        scored = run.load_scored(work.corpus.tokenizer, work.corpus.about.hash)
        for doubt in scored.about.doubts([run.eval.split]):
            work.session.say(f"note: {doubt}")
    kept.check(scored.about)
    follow.score(kept.done, scored)
    begun = time.monotonic()

    def keep(evaluation: Evaluation) -> Result:
        evaluating = kept.seconds + time.monotonic() - begun
        training = sum(program.seconds for program in trained)
        seconds = record.Seconds(train=training, evaluate=evaluating, total=training + evaluating)
        result = Result(
            **vars(dataclasses.replace(work.about, seeds=run.run.seeds)),
            **vars(evaluation),
            parameters=run.parameters(),
            train=measured.training(run, read_lines(work.folder / "metrics.jsonl")),
            seconds=seconds,
            peak_memory_mib=environment.peak_memory_mib(),
            digests={
                "-".join(map(str, program.seeds)): sha256(canonical(digests(program.state)))
                for program in trained
            },
            scored=scored.about if run.eval.source else None,
        )
        return kept.joined(result, run)

    states = [program.state for program in trained]
    seeds = [seed for program in trained for seed in program.seeds]
    return keep(scores(run, states, seeds, scored, work.session, kept.done, keep))
