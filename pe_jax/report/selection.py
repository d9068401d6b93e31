"""Which models, metrics, columns and notes a report shows, in which order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pe_jax.errors import nearest
from pe_jax.record import Result
from pe_jax.report import labels
from pe_jax.report.sheet import Sheet
from pe_jax.report.study import Study
from pe_jax.report.table import Table


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

    def study(self, results: Sequence[Result]) -> Study:
        """The study of the chosen runs, in the order of the choice, each with the name it is shown
        by, and with the curves of the chosen metrics alone.

        A label is that of the page, of tables or of the record, where it may choose several.
        ValueError, with the nearest labels, where no run has it.
        """
        if self.metrics:
            results = [
                replace(r, curves=tuple(c for c in r.curves if c.metric in self.metrics))
                for r in results
            ]
        study = Study.of(results)
        if not self.rows:
            return study
        called = labels.names(results)
        in_tables = {id: label for group in study.groups for id, label in group.labels.items()}
        chosen: dict[str, Result] = {}
        for label, name in self.rows:
            every = [r for r in results if label in (called[r.id], in_tables.get(r.id), r.label)]
            if not every:
                known = sorted({*in_tables.values()})
                raise ValueError(
                    f"no model is called {label!r}{nearest(label, known, 3)} "
                    f"Known: {'; '.join(known)}."
                )
            oracles = [o for run in every for g in study.groups for o in g.oracles.get(run.id, ())]
            for run in (*every, *oracles):
                chosen.setdefault(run.id, run if name == label else replace(run, label=name))
        for run in results:
            if run.id not in in_tables:  # an oracle: shown in reference rows alone
                chosen.setdefault(run.id, run)
        return study.part([*chosen.values()])

    def tables(self, tables: Sequence[Table], study: Study) -> list[Table]:
        """The tables of the chosen metrics, with the rows of each block in the order of the study's
        runs. ValueError, with the nearest metrics, for a metric that no table has.
        """
        known = list(dict.fromkeys(table.metric.name for table in tables))
        for metric in self.metrics:
            if metric not in known:
                raise ValueError(
                    f"no table has the metric {metric!r}{nearest(metric, known, 3)} "
                    f"Known: {', '.join(known)}."
                )
        shown = [t for metric in self.metrics or known for t in tables if t.metric.name == metric]
        if not self.rows:
            return shown
        place = {id: i for i, id in enumerate(study.runs)}
        ordered = []
        for table in shown:
            rows = []
            for _, block in table.blocks:
                rows += sorted(block, key=lambda row: place.get(row.run, len(place)))
            ordered.append(replace(table, rows=tuple(rows)))
        return ordered

    def sheets(self, sheets: Iterable[Sheet]) -> list[Sheet]:
        """The sheets of scores with the chosen columns, and with notes if these are wanted."""
        return self.noted(sheet.only(self.columns) for sheet in sheets)

    def noted(self, sheets: Iterable[Sheet]) -> list[Sheet]:
        """The sheets, without their notes if these are not wanted."""
        return [sheet if self.notes else replace(sheet, notes=()) for sheet in sheets]
