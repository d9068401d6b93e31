"""The factors of `longrope` for a trained model, by the search of evaluation/evolution.py on its
validation text. Nothing is trained, and the test split is not scored.

The loss of a candidate is bits per byte by the metric same_targets at the longer length. It is kept
in a line of its own as soon as it is known: a search that was cut off goes on, and one of more
generations goes on from one of fewer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax

from pe_jax.data.tokenizer import Tokens
from pe_jax.errors import Refused
from pe_jax.evaluation.candidates import Loss, candidate_of, place_of
from pe_jax.evaluation.evolution import Candidate, Search, Space, best, evolve
from pe_jax.evaluation.windows import windows
from pe_jax.record import Result
from pe_jax.runs import environment, programs
from pe_jax.runs.run import Run
from pe_jax.runs.trained import Trained
from pe_jax.runs.view import SILENT, View
from pe_jax.spec.parse import parse
from pe_jax.storage import atomic, locks, records
from pe_jax.storage.hashes import canonical, sha256
from pe_jax.storage.history import History, read_lines
from pe_jax.training.session import Session, stopping

METRIC = "same_targets"
BEGIN = ("pi", "ntk", "yarn", "longrope")
"""The swaps that a search begins with."""


class Asked(NamedTuple):
    """What is asked for."""

    length: int
    """The longer length, in tokens."""
    targets: int = 4096
    """Scored tokens of validation text."""
    population: int = 32
    generations: int = 10
    seed: int = 0
    """Of the search."""


class Found(NamedTuple):
    """What a search has found."""

    spec: str
    value: float
    """Bits per byte of validation text."""
    begin: dict[str, float]
    """Those of the swaps that the search began with, by their names."""
    scored: int
    """How many candidates it has scored."""
    path: Path
    """The file that holds all this."""


def search(model: Trained, asked: Asked, view: View = SILENT) -> Found:
    """The best factors. Refused or ValueError where the model or the request allows no search,
    Interrupted where the process is asked to stop.
    """
    programs.keep()
    _check(model, asked)
    run, trained = _scored_by(model, asked), model.run.train.length
    text = _text(model, run)
    cut = windows(text.splits["valid"], METRIC, asked.length, run.eval, text.tokenizer.sizes)
    begin = {name: candidate_of(run.encodings, name, asked.length) for name in BEGIN}
    space = Space.of([*begin.values()], asked.length / trained, trained)
    wanted = Search((*begin.values(),), space, asked.population, asked.generations, asked.seed)
    fixed = [asked._replace(generations=0), run.eval.last, model.seed, text.about.hash]
    name = f"{asked.length}-{sha256(canonical(fixed))[:8]}"
    path = model.folder / "longrope" / f"{name}.json"
    with locks.locked(model.folder, say=view.say) as check, stopping(view.say) as stop:
        path.parent.mkdir(exist_ok=True)
        lines = path.with_suffix(".jsonl")
        session = Session(History(lines, view.watch, check), view.say, stop)
        loss = Loss(run.lm, run.encodings, model.params, cut, run.eval, session)
        known = evolve(wanted, _Kept(loss, lines, wanted.most, session))
        found = _found(known, begin, path)
        told = found._asdict() | {"path": path.name, "asked": asked._asdict()}
        atomic.write(path, canonical(told) + "\n")
    return found


def _check(model: Trained, asked: Asked) -> None:
    """ValueError where the model has no rope or the length is not beyond that of training."""
    run, trained = model.run, model.run.train.length
    if not run.task.reads_text:
        raise ValueError(f"{run.label} was trained on samples of a task, and the search needs text")
    if place_of(run.encodings) is None:
        raise ValueError(
            f"{run.label} has no rope, whose place longrope takes: name a run that was trained "
            "with rope, alone or beside others (rope+alibi)"
        )
    if asked.length <= trained:
        raise ValueError(
            f"--length must be above the training length, {trained}, got {asked.length}: "
            f"{2 * trained} is twice as long"
        )


def _scored_by(model: Trained, asked: Asked) -> Run:
    """The run with the evaluation by which candidates are scored."""
    config = model.run.config
    changes = {"lengths": (asked.length,), "metrics": (METRIC,), "swaps": (), "split": "valid"}
    return Run.of(config | {"eval": config["eval"] | changes | {"targets": asked.targets}})


def _text(model: Trained, run: Run) -> Tokens:
    """The text that is scored. Refused if it is too short or has changed, ValueError if the run has
    not finished or the training of its seed diverged.
    """
    result = records.read(Result, model.folder / "result.json")
    if result is None:
        raise ValueError(f"{model.folder} has no result.json: the run has not finished yet")
    if model.step < run.train.steps:
        raise ValueError(
            f"the training of seed {model.seed} diverged: choose another of the run's seeds by "
            "--model_seed"
        )
    text = run.load_scored(model.tokenizer, result.corpus.hash)
    if not run.eval.source and text.about.hash != result.corpus.hash:
        raise Refused(
            f"{model.folder} was trained on other text: {run.data.source} has changed since"
        )
    return text


class _Kept:
    """The losses of candidates: read where they are known, else computed, and kept in a line of the
    session's history.
    """

    def __init__(self, loss: Loss, path: Path, most: int, session: Session):
        self.loss, self.most, self.session, self.done = loss, most, session, 0
        self.known = {_candidate(line): _value(line["value"]) for line in read_lines(path)}

    def __call__(self, generation: int, candidates: Sequence[Candidate]) -> list[float]:
        new = [one for one in candidates if one not in self.known]
        self.done += len(candidates) - len(new)
        for one, value in zip(new, self._computed(new), strict=True):
            self.done, self.known[one] = self.done + 1, value
            line = {"generation": generation, **one._asdict(), "value": _told(value)}
            line |= {"best": _told(min(self.known.values()))}
            self.session.history.add(**line, evaluated=self.done, of=self.most)
            self.session.stop(lambda: None)
        return [self.known[one] for one in candidates]

    def _computed(self, candidates: Sequence[Candidate]) -> Iterator[float]:
        """Their losses, in order. XLA's CPU runs the blocks of attention one after another: a
        second core would be idle if one candidate were scored at a time.
        """
        pool = ThreadPoolExecutor(environment.threads() if jax.default_backend() == "cpu" else 1)
        try:
            yield from pool.map(self.loss, candidates)
        finally:
            pool.shutdown(cancel_futures=True)


def _candidate(line: dict[str, Any]) -> Candidate:
    return Candidate(tuple(line["factors"]), line["first"], line["attention_factor"])


def _told(value: float) -> float | None:
    """A loss as JSON has it."""
    return value if math.isfinite(value) else None


def _value(told: float | None) -> float:
    return math.inf if told is None else told


def _found(known: dict[Candidate, float], begin: dict[str, Candidate], path: Path) -> Found:
    """Refused where no candidate has a finite loss."""
    (found,) = best(known, 1)
    if math.isinf(known[found]):
        raise Refused("no candidate has a finite score: give a shorter --length")
    fields = {"long": found.factors, "first": found.first}
    fields |= {"attention_factor": found.attention_factor}
    spec = parse(f"longrope({','.join(f'{name}={value!r}' for name, value in fields.items())})")
    values = {name: known[candidate] for name, candidate in begin.items()}
    return Found(str(spec), known[found], values, len(known), path)
