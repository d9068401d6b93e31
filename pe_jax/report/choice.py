"""Which models a report shows, in which order, and what they are called."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pe_jax.errors import nearest
from pe_jax.record import Result
from pe_jax.report import groups, labels
from pe_jax.report.cells import Table


@dataclass(frozen=True)
class Choice:
    """The models to show by their labels, each with the name it is shown by. Empty: all models by
    their labels, the best first.
    """

    rows: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, texts: Iterable[str]) -> Choice:
        """From texts "LABEL" or "LABEL as NAME"."""
        pairs = (text.partition(" as ") for text in texts)
        return cls(tuple((label.strip(), (name or label).strip()) for label, _, name in pairs))

    def results(self, results: Sequence[Result]) -> list[Result]:
        """The chosen results in the order of the choice, by their names.

        A label chooses what the page calls so, or else what tables call so, or else all that were
        trained under it. A ValueError, with the nearest labels, where there is none.
        """
        if not self.rows:
            return list(results)
        called = labels.names(results)
        printed = {
            id: text
            for group in groups.groups(results)
            for id, text in labels.names(group.results).items()
        }
        chosen: dict[str, Result] = {}
        for label, name in self.rows:
            exact = [result for result in results if called[result.id] == label]
            found = exact or [r for r in results if label in (printed[r.id], r.label)]
            if not found:
                known = sorted({*called.values()})
                raise ValueError(
                    f"no model is called {label!r}{nearest(label, known, 3)} "
                    f"Known: {'; '.join(known)}."
                )
            for result in found:
                as_told = result if name == label else replace(result, label=name)
                chosen.setdefault(result.id, as_told)
        return list(chosen.values())

    def ordered(self, table: Table, results: Sequence[Result]) -> Table:
        """The table with the rows of each of its blocks in the order of these chosen results."""
        if not self.rows:
            return table
        place = {result.id: i for i, result in enumerate(results)}
        blocks = [name for name, _ in table.blocks]
        last = len(place)  # what no model scores
        rows = sorted(
            table.rows, key=lambda row: (blocks.index(row.block), place.get(row.run, last))
        )
        return replace(table, rows=tuple(rows))
