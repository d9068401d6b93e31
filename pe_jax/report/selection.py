"""Which models, metrics, columns and notes a report shows, in which order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pe_jax.errors import nearest
from pe_jax.record import Result
from pe_jax.report import groups, labels
from pe_jax.report.cells import Table
from pe_jax.report.sheet import Sheet


@dataclass(frozen=True)
class Selection:
    """What to show; whatever is empty is shown whole."""

    rows: tuple[tuple[str, str], ...] = ()
    """Models by their labels, each with the name it is shown by. Empty: all models by their labels,
    the best first.
    """
    metrics: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    """Columns of the tables of scores, by their titles (`Sheet.only`)."""
    notes: bool = True

    @classmethod
    def of(
        cls,
        rows: Iterable[str] = (),
        metrics: Iterable[str] = (),
        columns: Iterable[str] = (),
        notes: bool = True,
    ) -> Selection:
        """From rows "LABEL" or "LABEL as NAME"."""
        pairs = (text.partition(" as ") for text in rows)
        named = tuple((label.strip(), (name or label).strip()) for label, _, name in pairs)
        return cls(named, tuple(metrics), tuple(columns), notes)

    def results(self, results: Sequence[Result]) -> list[Result]:
        """The chosen results in the order of the choice, each with the name it is shown by, and the
        curves of the chosen metrics alone.

        A label is looked for among the labels on the page, then among those in tables and in the
        records, where it may choose several. A ValueError, with the nearest labels, where no result
        has it.
        """
        if self.metrics:
            results = [
                replace(r, curves=tuple(c for c in r.curves if c.metric in self.metrics))
                for r in results
            ]
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
            labelled = exact or [r for r in results if label in (printed.get(r.id), r.label)]
            if not labelled:
                known = sorted({*printed.values()})
                raise ValueError(
                    f"no model is called {label!r}{nearest(label, known, 3)} "
                    f"Known: {'; '.join(known)}."
                )
            for result in labelled:
                named = result if name == label else replace(result, label=name)
                chosen.setdefault(result.id, named)
        for result in results:
            if result.id not in printed:  # an oracle: shown in reference rows alone
                chosen.setdefault(result.id, result)
        return list(chosen.values())

    def tables(self, tables: Sequence[Table], results: Sequence[Result]) -> list[Table]:
        """The tables of the chosen metrics, with the rows of each block in the order of `results`.
        ValueError, with the nearest metrics, for a metric that no table has.
        """
        known = list(dict.fromkeys(table.metric for table in tables))
        for metric in self.metrics:
            if metric not in known:
                raise ValueError(
                    f"no table has the metric {metric!r}{nearest(metric, known, 3)} "
                    f"Known: {', '.join(known)}."
                )
        chosen = [table for metric in self.metrics for table in tables if table.metric == metric]
        return [self._ordered(table, results) for table in (chosen if self.metrics else tables)]

    def _ordered(self, table: Table, results: Sequence[Result]) -> Table:
        if not self.rows:
            return table
        place = {result.id: i for i, result in enumerate(results)}
        blocks = [name for name, _ in table.blocks]
        last = len(place)  # rows without a model
        rows = sorted(
            table.rows, key=lambda row: (blocks.index(row.block), place.get(row.run, last))
        )
        return replace(table, rows=tuple(rows))

    def sheets(self, sheets: Iterable[Sheet]) -> list[Sheet]:
        """The sheets of scores with the chosen columns, and with notes if these are wanted."""
        return [self.noted(sheet.only(self.columns)) for sheet in sheets]

    def noted(self, sheet: Sheet) -> Sheet:
        """The sheet, without its notes if these are not wanted."""
        return sheet if self.notes else replace(sheet, notes=())
