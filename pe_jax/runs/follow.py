"""What every process of a run but the first does: it takes part in the trainings and evaluations
that the first begins. It reads the text, and neither reads nor writes the folder of the run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from jax.sharding import Mesh

from pe_jax.data.tokenizer import Tokens
from pe_jax.errors import Refused
from pe_jax.evaluation.passes import Key
from pe_jax.record import Result
from pe_jax.runs.run import Run
from pe_jax.runs.scores import scores
from pe_jax.runs.validation import validation
from pe_jax.training import mesh
from pe_jax.training.loop import Start, train
from pe_jax.training.processes import ENDS, broadcast, each, gather_texts
from pe_jax.training.session import Session, Stop, stopping
from pe_jax.training.step import State


class Begin(msgspec.Struct, tag=True):
    """The first process begins with the run of this config."""

    config: dict[str, Any]


class Train(msgspec.Struct, tag=True):
    """It trains a program of these seeds."""

    seeds: tuple[int, ...]
    starts: bool
    """Whether it makes the state to begin with of a random one, as in a warm start."""


class Validate(msgspec.Struct, tag=True):
    """It scores validation text for the program that was trained in this place, from 0 on."""

    program: int


class Score(msgspec.Struct, tag=True):
    """It scores what has been trained, but for what is `done`."""

    done: frozenset[Key]


class Done(msgspec.Struct, tag=True):
    """It has carried out the run."""

    result: Result


Task = Begin | Train | Validate | Score | Done


def begin(run: Run) -> tuple[Tokens, Mesh | None]:
    """In the first process: begins a run with the others. Gives what `prepare` gives."""
    broadcast(Begin, run.config)
    return prepare(run)


def score(done: frozenset[Key], text: Tokens) -> None:
    """In the first process: scores, with the others, the text that it has read. Refused if theirs
    differs.
    """
    broadcast(Score, done)
    same_text(lambda: text)


def follow() -> Result:
    """Takes part in what the first process does, until that ends: then gives the result of the
    first, or raises what has ended it.
    """
    with stopping() as stop:
        follower: Follower | None = None
        while not isinstance(task := broadcast(lambda: None, kind=Task), Done):
            with contextlib.suppress(*ENDS):  # they end the first process too, which tells so
                if isinstance(task, Begin):
                    follower = Follower(Run.of(task.config), stop)
                elif follower:
                    follower.take_part(task)
    return task.result


class Follower:
    """A process that takes part in one run, and the states of the programs trained so far."""

    def __init__(self, run: Run, stop: Stop):
        self.run = run
        self.corpus, devices = prepare(run)
        self.session = Session(
            stop=stop,
            mesh=devices,
            validate=validation(run, self.corpus, devices),
            valid_every=run.log.valid_every,
        )
        self.trained: list[tuple[tuple[int, ...], State]] = []

    def take_part(self, task: Train | Validate | Score) -> None:
        run, session = self.run, self.session
        if isinstance(task, Train):
            text = self.corpus.splits["train"]
            model = run.lm, run.encodings, run.train, task.seeds
            # not called here: the first process makes the state, and sends it
            start: Start | None = (lambda state, seeds: state) if task.starts else None
            state, _ = train(*model, text, Path(), session, start, run.task)
            self.trained.append((task.seeds, state))
        elif isinstance(task, Validate) and session.validate:
            session.validate(self.trained[task.program][1]["params"])
        elif isinstance(task, Score):
            corpus = same_text(self._scored)
            seeds = [seed for seeds, _ in self.trained for seed in seeds]
            scores(run, [state for _, state in self.trained], seeds, corpus, session, task.done)

    def _scored(self) -> Tokens:
        trained_on = self.corpus
        if not self.run.eval.source:
            return trained_on
        return self.run.load_scored(trained_on.tokenizer, trained_on.about.hash)


def prepare(run: Run) -> tuple[Tokens, Mesh | None]:
    """The text of a run and its devices, in every process. Refused in all processes where it is in
    one, as for text that it lacks, and where the text differs.
    """
    try:
        devices = mesh.make(run.run.mesh)
    except ValueError as error:
        raise Refused(str(error)) from error
    return same_text(run.load), devices


def same_text(load: Callable[[], Tokens]) -> Tokens:
    """What `load` gives in each process. Refused in all if it is refused in one, or if the text or
    its tokens differ.
    """
    tokens = each(load)
    heard = gather_texts(f"{tokens.about.hash} {tokens.tokenizer.describe().sha256}")
    for process, said in enumerate(heard):
        if said != heard[0]:
            raise Refused(
                f"process {process} reads other text or tokens than process 0 from "
                f"{tokens.about.source}: give all processes the same files"
            )
    return tokens
