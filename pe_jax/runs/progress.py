"""How far runs are, on stderr: a row for each, with the messages of the logger "pe_jax" above. On a
terminal rows are bars, elsewhere a line every 20 s.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Column

LOG = logging.getLogger("pe_jax")
"""The logger of the package: what a run does, at level INFO."""
QUIET_SECONDS = 20.0  # between two lines where there is no terminal
NAT = 1 / math.log(2)  # in bits


class Display(logging.Handler):
    """Rows of progress and the package's messages, while it is entered, if it is `verbose`."""

    def __init__(self, verbose: bool = True):
        super().__init__()
        self.verbose = verbose
        self.console = Console(stderr=True)
        self.printed = time.monotonic()
        self.progress = Progress(
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True)),
            BarColumn(bar_width=16),
            TextColumn("{task.percentage:3.0f} %", table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[left]}", table_column=Column(no_wrap=True)),
            TextColumn(
                "{task.fields[state]}",
                markup=False,
                table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1),
            ),
            console=self.console,
            disable=not (verbose and self.console.is_terminal),
            expand=True,
        )
        self.rows: dict[str, Any] = {}
        self.begun: dict[str, tuple[float, float]] = {}  # when, and how much was done

    def __enter__(self) -> Display:
        self.before = LOG.level, LOG.propagate
        LOG.setLevel(logging.INFO)
        LOG.propagate = False  # else absl prints the messages a second time
        LOG.addHandler(self)
        self.progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if not self.progress.disable:  # else it prints an empty line
            self.progress.stop()
        LOG.removeHandler(self)
        LOG.setLevel(self.before[0])  # which clears what logging remembers of the level
        LOG.propagate = self.before[1]

    def emit(self, record: logging.LogRecord) -> None:
        """Prints a message above the rows."""
        if self.verbose:
            text = record.getMessage()
            self.console.print(text, highlight=False, markup=False, emoji=False, soft_wrap=True)

    def update(self, name: str, done: float, state: str, total: float) -> None:
        """Shows a row: how much is done, in any one unit, the time left by the pace since the first
        call, and a state in words. A row that goes back, or has another total, begins anew.
        """
        now = time.monotonic()
        if name not in self.rows:
            self.rows[name] = self.progress.add_task(name, total=None, state=state, left="")
        task = self.progress.tasks[self.progress.task_ids.index(self.rows[name])]
        if task.total != total or done < task.completed:
            self.progress.reset(task.id, total=total)
            self.begun[name] = now, done
        began, first = self.begun[name]
        pace = (done - first) / (now - began) if now > began else 0
        left = f"{duration((total - done) / pace)} left" if pace and done < total else ""
        self.progress.update(task.id, completed=done, state=state, left=left)
        if self.verbose and self.progress.disable and now - self.printed > QUIET_SECONDS:
            self.printed = now
            LOG.info("; ".join(map(_in_a_line, self.progress.tasks)))

    def remove(self, name: str) -> None:
        """Takes a row away."""
        if name in self.rows:
            self.progress.remove_task(self.rows.pop(name))

    def show(self, name: str, line: dict[str, Any] | None, otherwise: str = "compiling") -> None:
        """Shows the row of a run by the newest line of its metrics.jsonl."""
        if line is None:
            self.update(name, 0, otherwise, 1)
        else:
            done = line["evaluated"] if "evaluated" in line else line["step"]
            self.update(name, done, describe(line), line["of"])


def _in_a_line(task: Any) -> str:
    left, state = task.fields["left"], task.fields["state"]
    return ", ".join(filter(None, [f"{task.description}: {task.percentage:.0f} %", left, state]))


def describe(line: dict[str, Any]) -> str:
    """A line of metrics.jsonl in words."""
    if "evaluated" in line:
        return f"evaluating {line['evaluated'] / line['of']:.0%}"
    loss, valid = mean(line["loss"]), mean(line.get("valid", ()))
    in_bits = "not finite" if loss is None else f"{NAT * loss:.2f} bits"
    validation = "" if valid is None else f", validation {valid:.2f} bits"
    speed = f"{line['tokens_per_second'] / 1e3:.1f} k tokens/s"
    return f"step {line['step']}/{line['of']}, loss {in_bits}{validation}, {speed}"


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
