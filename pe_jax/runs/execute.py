"""Carries out a run: trains all its seeds, evaluates them, writes the record. The same call goes on
after a kill.

What it writes to the run's folder, in order: config.json (and tokenizer.json), state.json, which
follows how the run stands, metrics.jsonl and checkpoints/ as it goes on, result.json at the end.
Training and evaluation get a Session. Its History writes metrics.jsonl and hands every line to the
Trackers, which copy it to other programs, and to the View, which shows it to the caller.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import signal
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from pe_jax import record
from pe_jax.data.tokenizer import Tokens
from pe_jax.errors import Refused
from pe_jax.record import Begun, Result, Stage
from pe_jax.runs import environment, programs
from pe_jax.runs.run import Run
from pe_jax.runs.scores import scores
from pe_jax.runs.trackers import Trackers, require
from pe_jax.storage import atomic, locks, records, state
from pe_jax.storage.checkpoints import digests
from pe_jax.storage.hashes import sha256
from pe_jax.storage.history import History, read_lines
from pe_jax.training import mesh
from pe_jax.training.loop import train
from pe_jax.training.session import Interrupted, Session, stopping


@runtime_checkable  # the tests check types as they run
class View(Protocol):
    """What shows a run while it is carried out, such as a terminal; it is no part of the record."""

    def begin(self) -> None:
        """Called once, when the run's text, devices and folder are found fit, before it trains."""

    def watch(self, line: dict[str, Any]) -> None:
        """Gets every line of metrics.jsonl (see History)."""

    def say(self, message: str) -> None:
        """Gets messages for people."""


class Silent(View):
    """A view that shows nothing."""


SILENT = Silent()


def execute(run: Run, workdir: str | Path, command: str = "", view: View = SILENT) -> Result:
    """The run's result; what `<workdir>/<run id>/` has of it already is not done again.

    `command` is what the record says reproduces it. Raises Refused for what the user can mend, and
    Interrupted after a signal, with the training state saved. state.json says how it ended.
    """
    folder = Path(workdir) / run.id
    if done := _result(folder):
        return done
    require(run.log.trackers)
    programs.keep()
    corpus = run.load()
    try:
        devices = mesh.make(run.run.mesh)
    except ValueError as error:
        raise Refused(str(error)) from error
    with locks.locked(folder), stopping(view.say) as stop:
        if done := _result(folder):  # written by another process since
            return done
        about = _begin(run, folder, corpus, command, view)
        with _keep_state(folder), Trackers(run.log.trackers, folder, about, view.say) as trackers:

            def watch(line: dict[str, Any]) -> None:
                trackers.watch(line)
                view.watch(line)

            history = History(folder / "metrics.jsonl", watch)
            session = Session(history, view.say, stop, devices, run.log.checkpoint_seconds)
            view.begin()
            result = _train_and_evaluate(run, folder, corpus, about, session)
            trackers.finish(result)
            atomic.write(folder / "result.json", record.encode(result))
            return result


def _result(folder: Path) -> Result | None:
    return records.read(Result, folder / "result.json")


@contextlib.contextmanager
def _keep_state(folder: Path) -> Iterator[None]:
    """Keeps state.json while the run is carried out: running, then done, stopped or failed."""
    state.put(folder, Stage.RUNNING)
    ending: tuple[Stage, str] = Stage.DONE, ""
    try:
        yield
    except Interrupted as error:
        ending = Stage.STOPPED, f"by {error}"
        raise
    except KeyboardInterrupt:
        ending = Stage.STOPPED, f"by {signal.SIGINT.name}"
        raise
    except (Refused, OSError) as error:
        ending = Stage.FAILED, str(error)
        raise
    except BaseException as error:
        ending = Stage.FAILED, f"{type(error).__name__}: {error}"
        raise
    finally:
        with contextlib.suppress(OSError):  # what ended the run matters more
            state.put(folder, *ending)


def _train_and_evaluate(
    run: Run, folder: Path, corpus: Tokens, about: Begun, session: Session
) -> Result:
    """Trains the seeds, one program after another, evaluates all, and puts the record together."""
    trained = [
        train(
            run.lm,
            run.encodings,
            run.train,
            seeds,
            corpus.splits["train"],
            folder / "checkpoints",
            session,
            run.start,
        )
        for seeds in run.groups
    ]
    states, seconds = [state for state, _ in trained], sum(seconds for _, seconds in trained)
    begun = time.monotonic()
    evaluation = scores(run, states, corpus, session)
    evaluating = time.monotonic() - begun
    return Result(
        **vars(about),
        **vars(evaluation),
        parameters=run.parameters(),
        train=_training(run, read_lines(folder / "metrics.jsonl")),
        seconds=record.Seconds(train=seconds, evaluate=evaluating, total=seconds + evaluating),
        peak_memory_mib=environment.peak_memory_mib(),
        digests={
            "-".join(map(str, seeds)): sha256(record.canonical(digests(state)))
            for seeds, state in zip(run.groups, states, strict=True)
        },
    )


def _begin(run: Run, folder: Path, corpus: Tokens, command: str, view: View) -> Begun:
    """Writes config.json, and tokenizer.json if there is one. Where the run was begun before,
    checks that it goes on with the same text and tokens, and says what else has changed.
    """
    here = environment.environment()
    about = Begun(
        id=run.id,
        label=run.label,
        command=command,
        config=json.loads(record.canonical(run.config)),  # as it is read back: lists, no tuples
        seeds=run.run.seeds,
        corpus=corpus.about,
        tokenizer=corpus.tokenizer.describe(),
        parent=run.start.about() if run.start else None,
        advice=run.advice,
        started=record.now(),
        commit=here["commit"],
        versions=here["versions"],
        device=record.Device(**here["device"]),
    )
    if earlier := records.read(Begun, folder / "config.json"):
        _check_begun(run, folder, earlier, about)
        for part in ("versions", "device", "commit"):
            if getattr(earlier, part) != getattr(about, part):
                view.say(
                    f"{run.label}: {part} changed since the run was begun; "
                    "its results are not bit-reproducible"
                )
        return dataclasses.replace(about, started=earlier.started)
    if corpus.tokenizer.json is not None:
        atomic.write(folder / "tokenizer.json", corpus.tokenizer.json)
    if run.start:
        view.say(run.start.summary())
    for doubt in run.advice:
        view.say(f"note: {doubt}")
    atomic.write(folder / "config.json", record.encode(about))
    return about


def _check_begun(run: Run, folder: Path, earlier: Begun, about: Begun) -> None:
    """Refused where the run was begun with another text or other tokens."""
    if earlier.corpus.hash != about.corpus.hash:
        raise Refused(
            f"{folder} was begun on other text ({run.data.source} has changed since): "
            "delete the folder, or give another --workdir"
        )
    if earlier.tokenizer != about.tokenizer:
        raise Refused(
            f"{folder} was begun with other tokens ({run.data.tokenizer} by another version of its "
            "library): delete the folder, or give another --workdir"
        )


def _training(run: Run, lines: list[dict[str, Any]]) -> record.Training:
    """Final losses and median speed, from metrics.jsonl; None where lines of it are missing."""
    lines = [line for line in lines if "loss" in line]
    ends = {tuple(line["seeds"]): line["loss"] for line in lines if line["step"] == run.train.steps}
    ms = statistics.median(line["ms_per_step"] for line in lines) if lines else None
    return record.Training(
        length=run.train.length,
        steps=run.train.steps,
        loss=tuple(x for seeds in run.groups for x in ends.get(seeds, [None] * len(seeds))),
        ms_per_step=ms,
        tokens_per_second=ms and run.train.batch * run.train.length / ms * 1e3,
    )
