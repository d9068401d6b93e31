"""The folder that a study publishes: results, tables, figures, and one self-contained HTML page.

The same results give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pe_jax.record import Result
from pe_jax.report import differences, figures, labels, published, sheet, sheets, style
from pe_jax.report import overview as overviews
from pe_jax.report.differences import Versus
from pe_jax.report.published import PublishedNumber, PublishedScore
from pe_jax.report.selection import Selection
from pe_jax.report.sheet import Note, Sheet
from pe_jax.report.study import Study
from pe_jax.report.table import Table, headlines, in_percent, left_out, shortened, tables
from pe_jax.report.words import capital, plain
from pe_jax.storage import atomic, records

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EVERYTHING = Selection()
FACTS = (
    "started",
    "commit",
    "seconds",
    "peak_memory_mib",
    "parameters",
    "seeds",
    "device",
    "versions",
    "corpus",
    "tokenizer",
)
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
    overview: overviews.Overview | None
    published: tuple[PublishedScore, ...]
    choice: Selection = EVERYTHING
    answer: Sheet | None = None
    """Of a pretrained model (pretrained/answer.py); the page begins with it."""

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
        beside those of the `references`. The sentences `missing`, on runs without a result, stand
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
            overviews.overview(study, shown, ranked=not choice.rows),
            tuple(published.matched(study, references)),
            choice,
            answer,
        )

    @property
    def sheets(self) -> dict[str, list[Sheet]]:
        """The tables as they print, by the name of their files."""
        found = {
            "answer": [self.answer] if self.answer else [],
            "table": self.choice.sheets(sheets.extrapolation(self.tables)),
            "overview": [overviews.sheet(self.overview)] if self.overview else [],
            "baseline": map(sheets.differences, self.compared),
            "published": published.sheets(self.published),
        }
        return {name: self.choice.noted(own) for name, own in found.items()}


def write(report: Report, out: str | Path, commands: Sequence[str] = ()) -> list[Path]:
    """Writes a report into the folder `out` and returns the paths.

    runs.jsonl, in the present version of the schema; table.md, .tex and .csv; of several groups of
    runs overview.md, .tex and .csv; baseline.md and .csv; published.md and .csv beside references;
    answer.md and .csv of an answer; report.html; and the figures as .png and .pdf (`drawn`). The
    page tells how to reproduce it: the commands of the runs, then `commands`.
    """
    out = Path(out)
    title = out.parent.name if out.name == "report" else out.name  # runs/NAME/report
    texts = {"runs.jsonl": "".join(records.encode(result) + "\n" for result in report.results)}
    for name, found in report.sheets.items():
        if found:
            texts |= {f"{name}.md": sheet.markdown(found), f"{name}.csv": sheet.csv(found)}
        if found and name in ("table", "overview"):
            texts[f"{name}.tex"] = sheet.latex(found)
    texts["report.html"] = page(report, title, commands)
    with atomic.together(out) as draft:
        written = [atomic.write(draft / name, text) for name, text in texts.items()]
        for one in drawn(report, 5.5):
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
        published=printed["published"],
        glossary=sheet.glossary([*printed["overview"], *printed["table"], *printed["baseline"]]),
        own_notes=sheet.own_notes,
        by_question=sheet.by_question,
        gallery=drawn(report, 4.6),
        training=TRAINING,
        runs=[(called[run.id], run, list(_facts(run))) for run in runs],
        commands=list(dict.fromkeys([*(run.command for run in runs if run.command), *commands])),
        style=style,
        script=Path(__file__).with_name("report.js").read_text("utf-8"),
    )


def _facts(result: Result) -> Iterator[tuple[str, str]]:
    for name in FACTS:
        value = records.plain(getattr(result, name))
        if value not in (None, "") and (result.train.steps or name != "seeds"):
            if isinstance(value, dict):
                value = {key: value[key] for key in sorted(value) if value[key] not in ({}, "")}
            yield name.replace("_", " "), plain(value)
    if result.train.loss:
        yield "final training loss, nats a token", plain(result.train.loss)


# The figures of a study, with their captions: of all its groups of results together, and of the
# first table of each group


TRAINING = ("training", "rates")
"""The kinds of figures that show how the models were trained."""


@dataclass(frozen=True)
class StudyFigure:
    """A figure of a table's models, or of a whole study."""

    name: str
    """The name of its files: its kind, numbered from the second table on, as in "curves-2"."""
    kind: str
    table: Table | None
    """None: the figure is of the whole study."""
    figure: Figure
    caption: str


def drawn(report: Report, width: float) -> list[StudyFigure]:
    """The figures of a study, as far as the runs have something to draw: `figures.tasks` of an
    overview, and `_figures` of the first table of each group of runs. `width` is in inches.
    """
    study, overview, found = report.study, report.overview, []
    if overview and (figure := figures.tasks(study, overview, width)):
        found.append(StudyFigure("tasks", "tasks", None, figure, _tasks_caption(overview)))
    for number, table in enumerate(headlines(report.tables), 1):
        against = next((one for one in report.compared if one.table is table), None)
        shown = shortened(table, against.baseline if against else None)
        ending = f"-{number}" if number > 1 else ""
        heading = f"{capital(table.heading)}." if table.heading else ""
        base = against.base.run if against and against.named and against.base.trained else None
        for kind, figure, caption in _figures(study, shown, base, width):
            if figure:
                said = filter(None, [caption, heading, left_out(table, shown)])
                found.append(StudyFigure(kind + ending, kind, table, figure, " ".join(said)))
    return found


def _figures(
    study: Study, table: Table, baseline: str | None, width: float
) -> Iterator[tuple[str, Figure | None, str]]:
    # (kind, figure, caption); None for a figure: the runs have nothing to draw. `positions` are
    # differences to the run with the id `baseline` (`figures.against`).
    runs = [study.runs[row.run] for row in table.rows if row.trained]
    metric, title = table.metric, table.metric.title
    paired = figures.is_paired(study, runs, metric)
    if paired and len(runs) == 1:
        yield (
            "differences",
            figures.bars(study, runs[0], metric, width),
            f"{title}: difference of each swap from the model as it is at {table.train_length} "
            "tokens, paired over places, with 95 % intervals. Grey: the interval holds 0; blue: "
            "better; orange: worse. Rows by the value at the longest length; a bar may leave the "
            "axes.",
        )
    else:
        minus = f", minus that of the model as it is at {table.train_length}, paired over places"
        oracles = figures.oracle_lines(table)
        grey = " Grey diamonds: trained at the length E of each point." if oracles else ""
        said = (
            f"{title} against evaluation length{minus if paired else ''}: means over "
            f"{table.replicate}s with their 95 % intervals.{grey}"
        )
        if len(runs) > figures.MOST:
            said = (
                f"{title}: means over {table.replicate}s, a row for each encoding, by the value at "
                "the longest length. Dots are darker at longer lengths; ring: training length; "
                "bar: 95 % interval at the longest length."
            )
        references = [*oracles, *figures.method_lines(table.group, metric)]
        yield "curves", figures.curves(study, runs, metric, width, references), said
    by_position = study.curve_metric(runs, samples=False)
    if by_position and (base := figures.against(study, runs, baseline)):
        yield (
            "positions",
            figures.positions(study, runs, width, baseline),
            f"{capital(by_position.unit)} against the position in the longest window, minus those "
            f"of {labels.short(runs)[base.id]} at the same tokens, paired over seeds: means with "
            "their 95 % intervals. Vertical lines: training lengths.",
        )
    if by_depth := study.curve_metric(runs, samples=True):
        yield (
            "depth",
            figures.heat(study, runs, width),
            f"{'Share of right answers' if in_percent(by_depth) else by_depth.title} at each "
            "evaluation length, by the depth in the sample of what is to be found (0: its first "
            f"token): means over {table.replicate}s. Right of the vertical line: longer than in "
            "training. Hatched: no value.",
        )
    validation = capital(figures.validation(runs))
    yield (
        "training",
        figures.training(runs, width),
        f"{validation} at the training length during training: means over the seeds that have a "
        "finite value, with their 95 % intervals. Cross: a seed has none from there on.",
    )
    tried = any(run.rates for run in runs)
    ring = " (ring: the chosen rate; a rate at which a seed diverged has no value)"
    yield (
        "rates",
        figures.rates(study, runs, metric, width),
        f"{validation if tried else title} at the training length against the learning rate"
        f"{ring if tried else ''}: means over seeds with their 95 % intervals.",
    )


def _tasks_caption(overview: overviews.Overview) -> str:
    others = len(overview.labels) - figures.MOST
    grey = f" Grey: the {others} last of the overview." if others > 0 else ""
    return (
        "Each task, by the first metric of its table, against evaluation length: means over seeds "
        f"with their 95 % intervals. Vertical line: the longest length of training.{grey}"
    )
