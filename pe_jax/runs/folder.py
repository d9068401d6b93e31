"""The folder of a run, which holds all that is kept of it on disk:

queued.json      what a sweep is about to run
config.json      the run when it begins, and tokenizer.json if its text has one
state.json       how it stands; .lock, which the process that is at work holds
metrics.jsonl    what training has measured, and how far evaluation is
checkpoints/     of each program, by its seeds
scores.jsonl     every score so far (scores.py)
rates/           with several train.rates a run for each of them
result.json      the record, which answers what was asked for last
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import re
import signal
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax

from pe_jax import record
from pe_jax.errors import Refused, in_words
from pe_jax.record import Begun, Reason, Result, Row, Stage, Tried, divergence
from pe_jax.runs.config import RunConfig, users_files
from pe_jax.runs.progress import View
from pe_jax.storage import atomic, records
from pe_jax.storage.jsonl import read_lines
from pe_jax.task import Task
from pe_jax.training import need
from pe_jax.training.config import TrainConfig
from pe_jax.training.samples import mean_size
from pe_jax.training.session import Interrupted

SEEDS = re.compile(r"\d+(-\d+)*")


@dataclasses.dataclass(frozen=True)
class Folder:
    """A run's folder, which need not be there yet."""

    path: Path

    @classmethod
    def of(cls, id: str, workdir: str | Path) -> Folder:
        """<workdir>/<run id>."""
        return cls(Path(workdir) / id)

    # What lies where

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def scores(self) -> Path:
        return self.path / "scores.jsonl"

    def checkpoints(self, group: Sequence[int]) -> Path:
        """Where the checkpoints of one program lie."""
        return self.path / "checkpoints" / "-".join(map(str, group))

    def begun(self) -> Begun | None:
        return records.read(Begun, self.path / "config.json")

    def result(self) -> Result | None:
        return records.read(Result, self.path / "result.json")

    def plan(self, label: str, config: dict[str, Any]) -> None:
        """Writes queued.json."""
        records.write(self.path / "queued.json", record.Planned(label=label, config=config))

    # With several train.rates

    def of_rate(self, id: str) -> Folder:
        """The folder of the run of that id at one of the rates."""
        return Folder.of(id, self.path / "rates")

    def parts(self) -> list[Folder]:
        """The folder, and with several train.rates the folders inside of runs that have begun."""
        inside = sorted((self.path / "rates").glob("*/config.json"))
        return [self, *(Folder(path.parent) for path in inside)]

    def of_one_rate(self) -> Folder:
        """The folder that holds the models of a run: its own, or with several train.rates that of
        the chosen one. ValueError where that is gone.
        """
        result = self.result()
        if result is None or not result.rates:
            return self
        best = chosen(result.rates).rate
        for part in self.parts()[1:]:
            begun = part.begun()
            if begun and begun.config["train"]["rate"] == best:
                return part
        raise ValueError(f"{self.path / 'rates'} has no run of the chosen train.rate, {best:g}")

    # Which seeds train together

    @property
    def begun_groups(self) -> list[tuple[int, ...]]:
        """The seeds of each program that has a checkpoint, those of the lowest seed first."""
        steps = (self.path / "checkpoints").glob("*/[0-9]*")
        names = {path.parent.name for path in steps if SEEDS.fullmatch(path.parent.name)}
        return sorted(tuple(map(int, name.split("-"))) for name in names)

    def groups(self, asked: RunConfig) -> tuple[tuple[int, ...], ...]:
        """The seeds of each program that trains the seeds that are asked for: a seed stays in the
        program with which its training began, and the others begin in programs of their own.
        """
        begun = [group for group in self.begun_groups if set(group) & set(asked.seeds)]
        placed = {seed for group in begun for seed in group}
        return (*begun, *asked.groups([seed for seed in asked.seeds if seed not in placed]))

    # Whether it has what is asked for

    def answer(self, seeds: Sequence[int], asked: str) -> Result | None:
        """The result, if it is whole, of these seeds, and for what is `asked` (`Run.asked`)."""
        try:
            result = self.result()
        except Refused:  # it is made anew
            return None
        same = result and asked and result.asked == asked and {*result.seeds} == {*seeds}
        return result if same else None

    def complete(self, seeds: Sequence[int], asked: str) -> Result | None:
        """The answer, unless it lacks scores that there is memory for by now."""
        result = self.answer(seeds, asked)
        if result is None or not starved(result):
            return result
        left = need.free_bytes(jax.local_devices())
        fits = any(left is None or row.at is None or row.at <= left for row in starved(result))
        return None if fits else result

    def check_sources(self, begun: Begun) -> None:
        """Refused if a user's file of the config is another than when the run was trained."""
        for path, digest in begun.sources.items():
            if users_files(begun.config).get(path) != digest:
                raise Refused(
                    f"{path} has changed since {self.path} was trained with it: restore the file, "
                    "or train with the new one, which is another run"
                )

    # The process at work

    @contextlib.contextmanager
    def kept_state(self, view: View) -> Iterator[Callable[[Result], None]]:
        """Keeps state.json while the run is carried out: running, then done, stopped or failed.
        Gives finish(result), which writes the record.
        """
        records.put_state(self.path, Stage.RUNNING)
        ending = Stage.DONE, ""

        def finish(result: Result) -> None:
            nonlocal ending
            if not (self.path / "config.json").exists() and not result.rates:
                raise Refused(f"{self.path}: its folder was deleted while it ran")
            records.write(self.path / "result.json", result)
            ending = Stage.DONE, divergence(result.diverged)

        records.read_whole(Result, self.path / "result.json", view.say)  # sets a damaged one aside
        try:
            yield finish
        except BaseException as error:
            ending = _ending(error)
            raise
        finally:
            with contextlib.suppress(OSError):  # what ended the run matters
                records.put_state(self.path, *ending)

    def begin(self, about: Begun, tokenizer: str | None, notes: Iterable[str], view: View) -> Begun:
        """Writes config.json, and the text of tokenizer.json if there is one; `view` is told the
        notes. Where the run was begun before, checks that it goes on with the same text and tokens,
        and says what else has changed.
        """
        if earlier := records.read_whole(Begun, self.path / "config.json", view.say):
            return self._go_on(earlier, about, view)
        if tokenizer is not None:
            atomic.write(self.path / "tokenizer.json", tokenizer)
        for note in notes:
            view.say(note)
        records.write(self.path / "config.json", about)
        return about

    def check_text(self, corpus: record.CorpusRecord) -> None:
        """Refused if the run was begun on other text."""
        begun = self.begun()
        if begun and begun.corpus.hash != corpus.hash:
            raise Refused(
                f"{self.path} was begun on other text ({corpus.source} has changed since): "
                "delete the folder, or give another --workdir"
            )

    def _go_on(self, earlier: Begun, about: Begun, view: View) -> Begun:
        """`about` with the start, and the commits, of a run that was begun before. Refused where it
        was begun with another text or other tokens.
        """
        self.check_text(about.corpus)
        tokenizer = about.config["data"]["tokenizer"]
        theirs, ours = (dataclasses.replace(one.tokenizer, spec="") for one in (earlier, about))
        if theirs != ours:
            raise Refused(
                f"{self.path} was begun with other tokens ({tokenizer} by another version of its "
                "library): delete the folder, or give another --workdir"
            )
        commit, devices = earlier.commit, earlier.devices
        if not commit.endswith(about.commit):
            commit = f"{commit}, then {about.commit}"
        before = devices or tuple(filter(None, [earlier.device]))
        if about.device and about.device not in before[-1:]:
            devices = (*before, about.device)
        about = dataclasses.replace(about, started=earlier.started, commit=commit, devices=devices)
        for part in ("versions", "device", "commit"):
            if getattr(earlier, part) != getattr(about, part):
                view.say(
                    f"{about.label}: {part} changed since the run was begun; "
                    "its results are not bit-reproducible"
                )
        begun = dataclasses.replace(earlier, commit=commit, devices=devices)
        if begun != earlier:
            records.write(self.path / "config.json", begun)
        return about

    # What metrics.jsonl says of training

    def training(self, train: TrainConfig, task: Task, seeds: Sequence[int]) -> record.Training:
        """What training was and cost; None where lines of metrics.jsonl are missing."""
        lines = [line for line in read_lines(self.metrics) if "loss" in line]
        ends = [line for line in lines if line["step"] == train.steps]
        ms = statistics.median(line["ms_per_step"] for line in lines) if lines else None
        return record.Training(
            length=train.length,
            steps=train.steps,
            tokens=None if task.reads_text else task.size(train.length),
            labels=None if task.reads_text else task.labels(),
            loss=_by_seed(seeds, ends, "loss"),
            ms_per_step=ms,
            tokens_per_second=ms and train.batch * mean_size(task, train) / ms * 1e3,
            valid=_by_seed(seeds, ends, "valid"),
            progress=tuple(filter(None, (_progress(seed, lines) for seed in seeds))),
        )

    def valid(self, seeds: Sequence[int], steps: int) -> dict[int, float | None]:
        """The validation score of each seed after so many steps; None where the lines do not have
        it.
        """
        ends = [line for line in read_lines(self.metrics) if line.get("step") == steps]
        scores = _by_seed(seeds, ends, "valid")
        return dict.fromkeys(seeds) | dict(zip(seeds, scores, strict=False))

    def training_seconds(self) -> float:
        """Seconds of the training steps so far, compilation not counted."""
        before: dict[tuple[int, ...], int] = {}
        total = 0.0
        for line in read_lines(self.metrics):
            if "loss" in line:
                seeds = tuple(line["seeds"])
                steps = (line["step"] - before.get(seeds, 0)) * len(seeds)
                total += steps * line["ms_per_step"] / 1e3
                before[seeds] = line["step"]
        return total


def _ending(error: BaseException) -> tuple[Stage, str]:
    """How a run stands that this error has ended, and why."""
    match error:
        case Interrupted():
            return Stage.STOPPED, f"by {error}"
        case KeyboardInterrupt():
            return Stage.STOPPED, f"by {error or signal.SIGINT.name}"
        case Refused():
            return Stage.FAILED, str(error)
        case OSError():
            return Stage.FAILED, in_words(error)
    return Stage.FAILED, f"{type(error).__name__}: {error}"


def starved(result: Result) -> list[Row]:
    """The rows without a value for which there was too little memory."""
    return [row for row in result.rows if row.reason is Reason.OUT_OF_MEMORY]


WIDENINGS = 4
"""How many rates are tried at most beyond those that are asked for."""


def wider(tried: Sequence[Tried], asked: int) -> float | None:
    """The rate to try next where the best of those tried is the lowest or the highest of them: as
    far beyond it as its neighbour lies within, by a factor of 3 at most. None where it lies between
    others, with a single rate, after WIDENINGS more than were `asked`, and where it would be one of
    those tried. Refused as in `chosen`.
    """
    best, rates = chosen(tried).rate, sorted(one.rate for one in tried)
    if len(rates) < 2 or len(rates) >= asked + WIDENINGS or best not in (rates[0], rates[-1]):
        return None
    lower = best == rates[0]
    beyond = best / min(3, rates[1] / best) if lower else best * min(3, best / rates[-2])
    rounded = float(f"{beyond:.3g}")
    return None if rounded in rates else rounded


def chosen(tried: Sequence[Tried]) -> Tried:
    """The rate whose mean over seeds is the lowest, the first of equal ones. Refused if a seed
    diverged at each of them.
    """
    best = min(tried, key=lambda rate: rate.mean)
    if math.isinf(best.mean):
        rates = ", ".join(f"{rate.rate:g}" for rate in tried)
        raise Refused(f"training diverged at each of train.rates, {rates}: give lower ones")
    return best


def _by_seed(
    seeds: Sequence[int], lines: list[dict[str, Any]], name: str
) -> tuple[float | None, ...]:
    """The number of each seed in these lines; () where none has it."""
    numbers = {
        seed: value
        for line in lines
        if name in line
        for seed, value in zip(line["seeds"], line[name], strict=True)
    }
    return tuple(numbers.get(seed) for seed in seeds) if numbers else ()


def _progress(seed: int, lines: list[dict[str, Any]]) -> record.Progress | None:
    """How the training of a seed went, from its lines; None if validation text was not scored."""
    step, loss, valid, since = [], [], [], []
    for line in lines:
        if seed not in line["seeds"]:
            continue
        row = line["seeds"].index(seed)
        since.append(line["loss"][row])
        if "valid" in line:
            step.append(line["step"])
            loss.append(None if None in since else statistics.fmean(since))
            valid.append(line["valid"][row])
            since = []
    if not step:
        return None
    return record.Progress(seed=seed, step=tuple(step), loss=tuple(loss), valid=tuple(valid))
