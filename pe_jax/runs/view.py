"""What shows a run while it is carried out, such as a terminal; it is no part of the record."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from pe_jax.storage.jsonl import History


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
