"""The folder that a study publishes: results, tables, figures, and one self-contained HTML page.

The same results give the same bytes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pe_jax.record import Result
from pe_jax.report import differences, figures, labels, published, sheet, sheets, style
from pe_jax.report.differences import Versus
from pe_jax.report.phrases import capital, plain
from pe_jax.report.published import PublishedNumber, PublishedScore
from pe_jax.report.selection import Selection
from pe_jax.report.sheet import Note, Sheet
from pe_jax.report.study import Study
from pe_jax.report.style import Drawn
from pe_jax.report.table import SHOWN, Table, headlines, left_out, shortened, tables
from pe_jax.storage import atomic, records

EVERYTHING = Selection()
TRAINING = ("training", "rates")
"""The kinds of figures that show how the models were trained."""
FACTS = "started commit seconds peak_memory_mib parameters seeds device versions corpus tokenizer"
"""The fields of a record that the page shows of each run, besides its config and its loss."""


@dataclass(frozen=True)
class Report:
    """What a study publishes, before it is printed."""

    results: tuple[Result, ...]
    """All of them, by their id: the `choice` shows some."""
    study: Study
    """Of the chosen results."""
    tables: tuple[Table, ...]
    compared: tuple[Versus, ...]
    overview: Sheet | None
    published: tuple[PublishedScore, ...]
    choice: Selection = EVERYTHING
    answer: Sheet | None = None
    """Of a pretrained model (pretrained/recommend.py); the page begins with it."""

    @classmethod
    def of(
        cls,
        results: Sequence[Result],
        choice: Selection = EVERYTHING,
        baseline: str | None = None,
        references: Sequence[Sequence[PublishedNumber]] = (),
        missing: Sequence[str] = (),
        answer: Sheet | None = None,
    ) -> Report:
        """The report of results, every model against `baseline` (`differences.versus`), with scores
        next to the `references`. The sentences `missing`, on runs without a result, stand
        below the first table.

        ValueError where the results hold no numbers, where no model is called `baseline`, and where
        a reference has nothing of theirs.
        """
        results = tuple(sorted(results, key=lambda result: result.id))
        study = choice.study(results)
        first, *others = choice.tables(tables(study), study)
        first = replace(first, notes=tuple(Note("Not shown", text) for text in missing))
        shown = (first, *others)
        return cls(
            results,
            study,
            shown,
            tuple(differences.versus(shown, baseline)),
            sheets.overview(study, shown, ranked=not choice.rows),
            tuple(published.matched(study, references)),
            choice,
            answer,
        )

    @functools.cached_property
    def sheets(self) -> dict[str, list[Sheet]]:
        """The tables as they print, by the name of their files."""
        by_name = {
            "answer": [self.answer] if self.answer else [],
            "table": self.choice.sheets(sheets.extrapolation(self.tables)),
            "overview": [self.overview] if self.overview else [],
            "baseline": map(sheets.differences, self.compared),
            "published": published.sheets(self.published),
            "seeds": [
                sheets.seeds(metric, scatter)
                for name, metric in self.study.metrics.items()
                if (scatter := differences.scatter(self.study, self.compared, name))
                and "bits" in metric.unit
            ],
        }
        return {name: self.choice.noted(own) for name, own in by_name.items()}

    @functools.cached_property
    def figures(self) -> list[tuple[Table | None, Drawn]]:
        """The figures, each with the table of its models, as far as there is something to draw:
        `figures.tasks`, of the whole study, and the figures of the first table of each group
        (`figures.of_table`), with its best models and the baseline. A name is numbered from the
        second table on, as in "curves-2".
        """
        first = headlines(self.tables)
        labels = [row[0].text for row in self.overview.rows] if self.overview else []
        tasks = figures.tasks(self.study, first, labels)
        drawn: list[tuple[Table | None, Drawn]] = [(None, tasks)] if tasks else []
        for number, table in enumerate(first, 1):
            against = next((one for one in self.compared if one.table is table), None)
            shown = shortened(table, against.baseline if against else None, SHOWN)
            base = against.base.run if against and against.named and against.base.trained else None
            about = [capital(f"{table.heading}.") * bool(table.heading), left_out(table, shown)]
            for one in figures.of_table(self.study, shown, base):
                name = f"{one.name}-{number}" if number > 1 else one.name
                caption = " ".join(filter(None, [one.caption, *about]))
                drawn.append((table, Drawn(name, caption, one.figure)))
        return drawn


def write(report: Report, out: str | Path, commands: Sequence[str] = ()) -> list[Path]:
    """Writes a report into the folder `out` and returns the paths.

    runs.jsonl, in the present version of the schema; table.md, .tex and .csv; of several groups of
    runs overview.md, .tex and .csv; .md and .csv of baseline and seeds, with references of
    published, and of an answer; report.html; and the figures as .png and .pdf. The page tells
    how to reproduce it: the commands of the runs, then `commands`.
    """
    out = Path(out)
    title = out.parent.name if out.name == "report" else out.name  # runs/NAME/report
    texts = {"runs.jsonl": "".join(records.encode(result) + "\n" for result in report.results)}
    for name, printed in report.sheets.items():
        if printed:
            texts |= {f"{name}.md": sheet.markdown(printed), f"{name}.csv": sheet.csv(printed)}
        if printed and name in ("table", "overview"):
            texts[f"{name}.tex"] = sheet.latex(printed)
    texts["report.html"] = page(report, title, commands)
    with atomic.together(out) as draft:
        written = [atomic.write(draft / name, text) for name, text in texts.items()]
        for _, one in report.figures:
            written += style.save(one.figure, draft / one.name)
    return [out / path.name for path in written]


def page(report: Report, name: str, commands: Sequence[str] = ()) -> str:
    """The HTML page of a study called `name`: one file, inline figures, no outside resources.

    It opens with the answer or the overview, where there is one. Below each table its models are
    compared with the baseline.
    """
    runs = [*report.study.runs.values()]
    called, printed = labels.names(runs), report.sheets
    return sheet.html(
        Path(__file__).with_name("report.html.j2"),
        name=name,
        answer=report.answer,
        overview=printed["overview"],
        tables=list(zip(report.tables, printed["table"], strict=True)),
        differences=[
            *zip((one.table for one in report.compared), printed["baseline"], strict=True)
        ],
        published=[*printed["published"], *printed["seeds"]],
        glossary=sheet.glossary([*printed["overview"], *printed["table"], *printed["baseline"]]),
        own_notes=sheet.own_notes,
        by_question=sheet.by_question,
        evaluated=[one for one in report.figures if not one[1].name.startswith(TRAINING)],
        trained=[one for one in report.figures if one[1].name.startswith(TRAINING)],
        runs=[(called[run.id], run, list(_facts(run))) for run in runs],
        commands=list(dict.fromkeys([*(run.command for run in runs if run.command), *commands])),
        style=style,
        script=Path(__file__).with_name("report.js").read_text("utf-8"),
    )


def _facts(result: Result) -> Iterator[tuple[str, str]]:
    for name in FACTS.split():
        value = records.plain(getattr(result, name))
        if value not in (None, "") and (result.train.steps or name != "seeds"):
            if isinstance(value, dict):
                value = {key: value[key] for key in sorted(value) if value[key] not in ({}, "")}
            yield name.replace("_", " "), plain(value)
    if result.train.loss:
        yield "final training loss, nats a token", plain(result.train.loss)
