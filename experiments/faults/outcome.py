"""What came of a fault, and the table of all."""

from __future__ import annotations

import collections
import dataclasses
import enum
from collections.abc import Iterable


class Outcome(enum.Enum):
    """What came of one fault."""

    SURVIVED = "survived"  # the rows are those of an undisturbed run
    DETECTED = "detected"  # so they are, or they are not there, and the damage was named
    LOST = "lost"  # other rows, or none, without a word; or a traceback


HEAD = ("fault", "tried", *(outcome.value for outcome in Outcome))
"""The columns of the table."""


@dataclasses.dataclass
class Tally:
    """The outcomes of one kind of fault."""

    fault: str
    counts: collections.Counter[Outcome] = dataclasses.field(default_factory=collections.Counter)
    losses: list[str] = dataclasses.field(default_factory=list)
    """What was done, and what came of it, where something was lost."""

    def add(self, outcome: Outcome, what: str) -> None:
        """Counts an outcome; `what` says what was done and what came of it."""
        self.counts[outcome] += 1
        if outcome is Outcome.LOST:
            self.losses.append(what)

    def row(self) -> list[str | int]:
        """The cells of its line in the table."""
        return [self.fault, self.counts.total(), *(self.counts[outcome] for outcome in Outcome)]


def table(tallies: Iterable[Tally]) -> str:
    """A Markdown table: a line for each fault, then one line for each loss."""
    import tabulate

    tallies = list(tallies)
    lines = [tabulate.tabulate([tally.row() for tally in tallies], HEAD, tablefmt="github")]
    lines += [f"- lost: {tally.fault}: {loss}" for tally in tallies for loss in tally.losses]
    return "\n".join(lines) + "\n"
