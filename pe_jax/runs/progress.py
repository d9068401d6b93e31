"""How far runs have come: a bar on a terminal, in a notebook a line that is written over, elsewhere
(a pipe, a file) a quiet line now and then.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Column
from rich.text import Text

from pe_jax.storage.jsonl import History, Tail, read_lines

QUIET_SECONDS = 20.0  # between two lines where there is neither a terminal nor a notebook
NAT = 1 / math.log(2)  # in bits

# Views: what shows a run while it is carried out


@runtime_checkable  # the tests check types as they run
class View(Protocol):
    """Hears what a run does."""

    def begin(self) -> None:
        """Called once, when the run's text, devices and folder are found fit, before it trains."""

    def watch(self, line: dict[str, Any]) -> None:
        """Gets every line of metrics.jsonl (see History)."""

    def say(self, message: str) -> None:
        """Gets messages for people."""


class Silent(View):
    """A view that shows nothing."""


SILENT = Silent()


class Parts:
    """The view of a run that consists of several: their lines go to the history of the whole, each
    with `part`, counted from 0, and `parts`.
    """

    def __init__(self, view: View, history: History, parts: int):
        self.view, self.history, self.parts = view, history, parts
        self.part, self.begun = -1, False

    def next(self) -> Parts:
        """To be called before each part."""
        self.part += 1
        self.parts = max(self.parts, self.part + 1)
        return self

    def begin(self) -> None:
        if not self.begun:
            self.view.begin()
        self.begun = True

    def watch(self, line: dict[str, Any]) -> None:
        self.history.add(**line, part=self.part, parts=self.parts)

    def say(self, message: str) -> None:
        self.view.say(message)


# Bars


class Bar:
    """How much is done and what each run at work does: on a terminal a bar, on stderr; in a
    notebook a line that is written over; elsewhere a line now and then, on stderr.

    `total` and `done` count in any one unit, such as runs.
    """

    def __init__(self, name: str, total: float, done: float = 0.0):
        self.console = Console(stderr=True)
        self.name, self.total, self.done = name, total, done
        self.begun = self.printed = time.monotonic()
        self.measured_from = self.begun, done
        self.live, self.notebook = self.console.is_terminal, self.console.is_jupyter
        self.width = 0  # of the notebook's line
        self.progress = _Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24, table_column=Column(no_wrap=True)),
            TextColumn("{task.percentage:3.0f} %"),
            TextColumn("{task.fields[left]}", table_column=Column(no_wrap=True)),
            console=self.console,
            disable=not self.live,
        )
        self.task = self.progress.add_task(name, total=total, state="", left=self.left())
        self.progress.update(self.task, completed=done)

    def __enter__(self):
        self.progress.start()
        return self

    def __exit__(self, *exception):
        self.progress.update(self.task, state="")
        if self.live:  # otherwise it would print an empty line
            self.progress.stop()
        if self.width:
            took = duration(time.monotonic() - self.begun)
            self.say(f"{self.name}: {'stopped after' if any(exception) else 'done in'} {took}")

    def update(self, done: float, state: str) -> None:
        """Shows how much is done, in the unit of the total, and what goes on, a line a run."""
        self.done = done
        self.progress.update(self.task, completed=done, state=state, left=self.left())
        now = time.monotonic()
        if self.live or not (self.notebook or now - self.printed > QUIET_SECONDS):
            return
        self.printed = now
        told = "; ".join(
            [f"{self.name}: {done / self.total:.0%}, {self.left()}", *state.splitlines()]
        )
        (self._write_over if self.notebook else self.say)(told)

    def left(self) -> str:
        """The time left in words; at the end, the time that it took. Less than a fiftieth of all is
        too little to tell: most of it is compilation.
        """
        if self.done >= self.total:
            return duration(time.monotonic() - self.begun)
        begun, before = self.measured_from
        elapsed, gained = time.monotonic() - begun, self.done - before
        if gained < 0.02 * self.total or not elapsed:
            return "time left: measuring"
        return f"{duration(elapsed * (self.total - self.done) / gained)} left"

    def say(self, message: str) -> None:
        """Prints a line above the bar."""
        if not self.notebook:
            self.console.print(message, highlight=False, markup=False, soft_wrap=True)
            return
        self._write_over(message)
        print()
        self.width = 0

    def _write_over(self, line: str) -> None:
        """Puts a line in the place of the notebook's last one."""
        print(f"\r{line.ljust(self.width)}", end="", flush=True)
        self.width = len(line)


class _Progress(Progress):
    """The bar, and below it what the runs at work do, cut where the terminal ends."""

    def get_renderables(self) -> Iterator[RenderableType]:
        yield from super().get_renderables()
        states = (task.fields["state"] for task in self.tasks)
        yield from (Text(one, "dim", no_wrap=True, overflow="ellipsis") for one in states if one)


class RunBar(Bar):
    """The bar of one run, from its beginning or the first line of its metrics.jsonl on; a run of
    which nothing is computed shows nothing. `evaluation` is as in Share. `metrics` is
    its metrics.jsonl, by which an earlier call may have trained some of the seeds.

    The time left is measured from the first line on, neither by compilation nor by what was done
    before.
    """

    def __init__(
        self, name: str, seeds: Sequence[int], evaluation: float, metrics: Path | None = None
    ):
        super().__init__(name, 1.0)
        self.share, self.heard = Share(seeds, evaluation), False
        for line in read_lines(metrics) if metrics else ():
            if "loss" in line:  # what was scored is counted anew
                self.share.add(line)

    def __enter__(self):
        return self

    def begin(self) -> None:
        """Shows the run."""
        self.progress.start()
        self.update(0.0, "compiling")

    def watch(self, line: dict[str, Any]) -> None:
        """Shows how far the run is, by a line of its metrics.jsonl."""
        self.progress.start()
        done = self.share.add(line)
        if not self.heard:
            self.heard, self.measured_from = True, (time.monotonic(), done)
        self.update(done, describe(line))


# How far a run is, by the lines of its metrics.jsonl


def evaluation_share(run: Any) -> float:
    """The part of a run's time that evaluation takes, by the tokens that it works through. Those of
    training count three times, since they have gradients.
    """
    train, scored, size = run.train, run.eval, run.task.size
    trained = train.steps * max(1, len(train.rates)) * train.batch * size(train.length)
    windows = scored.samples
    if run.task.reads_text:
        windows = scored.targets / (scored.last or max(1, train.length // 2))
    evaluated = len(scored.ways) * windows * sum(map(size, scored.lengths))
    return float(evaluated / (3 * trained + evaluated))


class Watch:
    """How far a run at work is; each look reads the new lines of its metrics.jsonl alone."""

    def __init__(self, path: Path, seeds: Sequence[int], evaluation: float):
        self.tail, self.new = Tail(path), functools.partial(Share, seeds, evaluation)
        self.share, self.done, self.last = self.new(), 0.0, None

    def look(self) -> tuple[float, dict[str, Any] | None]:
        """(how much of the run is done, from 0 to 1; its newest line, None without one)."""
        lines, anew = self.tail.read()
        if anew:
            self.share, self.done, self.last = self.new(), 0.0, None
        for line in lines:
            self.done, self.last = self.share.add(line), line
        return self.done, self.last


class Share:
    """How much of a run is done. `evaluation` is the part of its time that evaluation takes. Seeds
    that are trained one after another count in turn.
    """

    def __init__(self, seeds: Sequence[int], evaluation: float):
        self.seeds, self.evaluation, self.part = {*seeds}, evaluation, -1
        self.trained, self.evaluated = {}, 0.0

    def add(self, line: dict[str, Any]) -> float:
        """How much is done after a line of metrics.jsonl, from 0 to 1. The lines of a run with
        several learning rates have `part` and `parts`: a rate each, and the evaluation of the best.
        """
        part = line.get("part", self.part)
        if part != self.part:
            self.part, self.trained, self.evaluated = part, {}, 0.0
        if "evaluated" in line:
            self.evaluated = line["evaluated"] / line["of"]
        else:
            asked = self.seeds.intersection(line["seeds"])
            self.trained[tuple(line["seeds"])] = len(asked) * line["step"] / line["of"]
        trained = sum(self.trained.values()) / len(self.seeds)
        if "part" in line:  # which trains, or evaluates
            return (part + (self.evaluated if "evaluated" in line else trained)) / line["parts"]
        return (1 - self.evaluation) * trained + self.evaluation * self.evaluated


# In words


def describe(line: dict[str, Any]) -> str:
    """A line of metrics.jsonl in words."""
    rate = ""
    if "part" in line:
        number, rates = line["part"] + 1, line["parts"] - 1  # the last part evaluates the best rate
        rate = f"learning rate {number} of {max(number, rates)}: "
    if "evaluated" in line:
        rate = "best learning rate: " if rate else ""
        return f"{rate}evaluating {line['evaluated'] / line['of']:4.0%}"
    loss, valid = mean(line["loss"]), mean(line.get("valid", ()))
    in_bits = "not finite" if loss is None else f"{NAT * loss:.2f} bits"
    validation = "" if valid is None else f"  validation {valid:.2f} bits"
    speed = f"{line['tokens_per_second'] / 1e3:.1f} k tokens/s"
    return f"{rate}step {line['step']}/{line['of']}  loss {in_bits}{validation}  {speed}"


def duration(seconds: float) -> str:
    """`42 s`, `3 min 05 s`, `2 h 10 min`."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of the values that are not None; None where there are none."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
