"""The folder that a study publishes: results, tables, figures, and one self-contained HTML page
with a summary of each table and a caption of each figure.

The same results give the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pe_jax.record import Result
from pe_jax.report import (
    figures,
    headroom,
    labels,
    plane,
    published,
    reference_rows,
    sheet,
    sheets,
    style,
    tables,
)
from pe_jax.report.baseline import Versus, versus
from pe_jax.report.cells import Table, TableRow, curve_metric, described, in_percent
from pe_jax.report.groups import draws
from pe_jax.report.overview import Overview, overview
from pe_jax.report.published import PublishedTable, PublishedTask
from pe_jax.report.selection import Selection
from pe_jax.report.words import capital, count, each, join, plain, plusminus
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


def write(
    results: Iterable[Result],
    out: str | Path,
    commands: Sequence[str] = (),
    choice: Selection = EVERYTHING,
    baseline: str | None = None,
    references: Sequence[PublishedTable] = (),
    missing: Sequence[str] = (),
    reported: Sequence[Table] | None = None,
    answer: sheet.Sheet | None = None,
) -> list[Path]:
    """Writes a study into the folder `out` and returns the paths. Only models of the `choice` are
    shown; runs.jsonl has all results.

    runs.jsonl, in the present version of the schema; table.md, table.tex, table.csv, report.html;
    of several groups of results overview.md, .tex and .csv (`overview.overview`), and orders.md and
    .csv where two of them have five encodings in common; baseline.md and .csv, every model against
    `baseline` (`baseline.versus`); published.md and .csv, scores and the published ones of the
    `references` (`published.hold`); and the figures as .png and .pdf (`drawn`); answer.md and .csv
    where there is an `answer` (pretrained/answer.py), with which the page begins. The tables
    `reported` are those of `tables.study` unless they are given. The page tells how to reproduce
    it: the commands of the runs, then `commands`. The sentences `missing`, on runs without a
    result, stand below the first table.
    ValueError where the results hold no numbers, where no model is called `baseline`, and where a
    reference has nothing of theirs.
    """
    out = Path(out)
    results = sorted(results, key=lambda result: result.id)
    shown = choice.results(headroom.added(results))
    reported = list(reported or choice.tables(tables.study(shown), shown))
    absent = [sheet.Note("What is not shown", told) for told in missing]
    reported[0] = replace(reported[0], notes=(*reported[0].notes, *absent))
    compared = versus(shown, reported, baseline)
    matrix = overview(shown, reported, ranked=not choice.rows)
    held = published.hold(shown, references)
    printed = _sheets(reported, compared, matrix, held, choice)
    title = out.parent.name if out.name == "report" else out.name  # runs/NAME/report
    texts = {"runs.jsonl": "".join(records.encode(result) + "\n" for result in results)}
    for name, found in {**printed, "answer": [answer] if answer else []}.items():
        texts |= _texts(name, found)
    texts["report.html"] = page(
        shown, reported, title, commands, compared, matrix, held, choice, answer
    )
    with atomic.together(out) as draft:
        written = [atomic.write(draft / name, text) for name, text in texts.items()]
        for one in drawn(shown, reported, compared, 5.5, matrix):
            written += style.save(one.figure, draft / one.name)
    return [out / path.name for path in written]


def page(
    results: Sequence[Result],
    reported: Sequence[Table],
    name: str,
    commands: Sequence[str] = (),
    compared: Sequence[Versus] = (),
    matrix: Overview | None = None,
    held: Sequence[PublishedTask] = (),
    choice: Selection = EVERYTHING,
    answer: sheet.Sheet | None = None,
) -> str:
    """The HTML page of a study called `name`: one file, inline figures, no outside resources.

    It opens with the `answer` or the overview `matrix`, where there is one. Below each table its
    models are compared with the baseline, where `compared` has that.
    """
    called = labels.names(results)
    printed = _sheets(reported, compared, matrix, held, choice)
    return sheet.html(
        Path(__file__).with_name("report.html.j2"),
        name=name,
        headlines=tables.headlines(reported),
        answer=answer,
        overview=[*printed["overview"], *printed["orders"]],
        tables=list(zip(reported, printed["table"], strict=True)),
        differences=[*zip((one.table for one in compared), printed["baseline"], strict=True)],
        published=printed["published"],
        glossary=sheet.glossary([*printed["overview"], *printed["table"], *printed["baseline"]]),
        own_notes=sheet.own_notes,
        by_question=sheet.by_question,
        gallery=drawn(results, reported, compared, 4.6, matrix),
        training=TRAINING,
        runs=[(called[result.id], result, list(_facts(result))) for result in results],
        commands=list(dict.fromkeys([*(r.command for r in results if r.command), *commands])),
        summary=summary,
        style=style,
        script=Path(__file__).with_name("report.js").read_text("utf-8"),
    )


def _sheets(
    reported: Sequence[Table],
    compared: Sequence[Versus],
    matrix: Overview | None,
    held: Sequence[PublishedTask],
    choice: Selection,
) -> dict[str, list[sheet.Sheet]]:
    """The tables of a study as they print, by the name of their files."""
    return {
        "table": choice.sheets(sheets.extrapolation(reported)),
        "overview": [choice.noted(sheets.overview(matrix))] if matrix else [],
        "orders": [choice.noted(sheets.orders(matrix.orders))] if matrix and matrix.orders else [],
        "baseline": [choice.noted(sheets.differences(one)) for one in compared],
        "published": [*map(choice.noted, published.sheets(held))] if held else [],
    }


def _texts(name: str, found: Sequence[sheet.Sheet]) -> dict[str, str]:
    """The text of each file of these sheets; none without sheets."""
    formats = {"md": sheet.markdown, "tex": sheet.latex, "csv": sheet.csv}
    if name not in ("table", "overview"):
        del formats["tex"]
    return {f"{name}.{ending}": text(found) for ending, text in formats.items() if found}


def _facts(result: Result) -> Iterator[tuple[str, str]]:
    """(name, text) of each fact that the page shows of a run."""
    for name in FACTS:
        value = records.plain(getattr(result, name))
        if value not in (None, "") and (result.train.steps or name != "seeds"):
            if isinstance(value, dict):
                value = {key: value[key] for key in sorted(value) if value[key] not in ({}, "")}
            yield name.replace("_", " "), plain(value)
    if result.train.loss:
        yield "final training loss, nats a token", plain(result.train.loss)


def summary(table: Table, headed: bool = False) -> str:
    """Who is best at the longest length and who uses the context: of the models as trained, or,
    where there is one model, of it and its swaps.

    It begins with what sets the table's group apart, unless it is `headed`, below a heading that
    says this.
    """
    metric, longest = described(table.metric), table.lengths[-1]
    called = _compared(table)
    train = table.train_length
    heading = "" if headed or not table.heading else f"{capital(table.heading)}: "
    unit = "" if table.tokens else " tokens"
    said = [f"{heading}{_setting(table, called, unit)}."]
    reached = sorted(
        (row for row in called if row.cells[-1].n and row.compared),
        key=lambda row: metric.sign * row.cells[-1].mean,
    )
    if not any(row.compared for row in called):
        return f"{said[0]} None solves length {train}, so none is compared beyond it."
    if not reached:
        them = f"None that solves length {train}" if any(r.cells[-1].n for r in called) else "None"
        return f"{said[0]} {them} has a value at {longest}."
    printed = {plusminus(row.cells[-1].mean, math.nan) for row in reached}
    if len(reached) > 1 and len(printed) == 1:
        said.append(f"All round to the same {metric.unit} at {longest}: {printed.pop()}.")
    else:
        means = ((called[row], row.cells[-1]) for row in reached[:3])
        best = ", then ".join(f"{name} ({plusminus(c.mean, c.half)})" for name, c in means)
        said.append(f"{metric.best.capitalize()} {metric.unit} at {longest}: {best}.")
    if longest == train:
        return " ".join(said)
    compared = {called[row]: row for row in reached if not math.isnan(row.gain.half)}
    if compared:
        said.append(_who_gains(compared, metric.sign, f"{longest} against {train}{unit}"))
    kept = [called[row] for row in reached if row.censored and row.effective == longest]
    if kept:
        kind = f"At most 1 % worse than at {train}"
        if in_percent(table.metric):
            kind = "At least 90 %" if metric is headroom.HEADROOM else "Solved"
        said.append(f"{kind} at every longer length: {join(kept)}.")
    return " ".join(said)


def _compared(table: Table) -> dict[TableRow, str]:
    """The rows that `summary` compares, and what it calls them."""
    trained = {row: row.label for row in table.rows if row.trained}
    if len(trained) != 1:
        return trained
    (model,) = trained
    swaps = [row for row in table.rows if row.together and row.way]
    return trained | {row: row.label.removeprefix(f"{model.label}, ") for row in swaps}


def _setting(table: Table, called: Mapping[TableRow, str], unit: str) -> str:
    """Which models the table has, the length of training and the longest of evaluation."""
    trained = [row for row in called if row.trained]
    swaps = len(called) - len(trained)
    what = f"{trained[0].label}," if swaps else count(len(trained), "encoding")
    seeds = each([row.replicas for row in trained], table.replicate) if trained else ""
    seeds = f" ({seeds}{'' if swaps else ' each'})" if seeds else ""
    at = "lengths up to " if table.tokens else ""
    ways = f", as it is and with {count(swaps, 'swap')}" if swaps else ""
    return (
        f"{what} trained at {at}{table.train_length}{unit}{seeds}, evaluated at up to "
        f"{table.lengths[-1]}{unit}{ways}"
    )


def _who_gains(rows: Mapping[str, TableRow], sign: int, lengths: str) -> str:
    """Which rows, by name, are better at the longest length than at the training length, which
    worse, and of which neither is shown.
    """
    better = [name for name, row in rows.items() if sign * row.gain.mean + row.gain.half < 0]
    worse = [name for name, row in rows.items() if sign * row.gain.mean - row.gain.half > 0]
    level = [name for name in rows if name not in better + worse]
    parts = [
        f"{verb}: {join(group)}"
        for verb, group in (("better", better), ("not distinguishable", level), ("worse", worse))
        if group
    ]
    return f"At {lengths} (95 % interval of the gain): {'; '.join(parts)}."


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


def drawn(
    results: Sequence[Result],
    reported: Sequence[Table],
    compared: Sequence[Versus],
    width: float,
    overview: Overview | None = None,
) -> list[StudyFigure]:
    """The figures of a study, as far as the results have something to draw: `figures.tasks` of an
    `overview`, and `_figures` of the first table of each group of results.

    Positions are compared with the baseline of the table in `compared`, where a user has named it.
    `width` is in inches.
    """
    by_id = {result.id: result for result in results}
    found = []
    if overview and (figure := figures.tasks(results, overview, width)):
        found.append(StudyFigure("tasks", "tasks", None, figure, _tasks_caption(overview)))
    for number, table in enumerate(tables.headlines(reported), 1):
        against = next((versus for versus in compared if versus.table is table), None)
        shown = tables.shortened(table, against.baseline if against else None)
        base = against.baseline if against and against.named else None
        own = [by_id[row.run] for row in shown.rows if row.trained]
        ending = f"-{number}" if number > 1 else ""
        heading = f"{capital(table.heading)}." if table.heading else ""
        for kind, figure, caption in _figures(own, shown, base, width):
            if figure:
                cut = CUT_SENTENCE if plane.is_cut(figure) else ""
                said = filter(None, [caption, cut, heading, tables.left_out(table, shown)])
                found.append(StudyFigure(kind + ending, kind, table, figure, " ".join(said)))
    return found


CUT_SENTENCE = (
    "An arrow head at the frame: the line of its colour, or its interval, goes on beyond the axes."
)


def _figures(
    results: Sequence[Result], table: Table, baseline: str | None, width: float
) -> Iterator[tuple[str, Figure | None, str]]:
    """(kind, figure, caption) of each figure of the results of a table; None for a figure: they
    have nothing to draw. `positions` are differences to `baseline` (`figures.against`).
    """
    metric, title = table.metric, described(table.metric).title
    paired = figures.is_paired(results, metric)
    if paired and len(results) == 1:
        yield (
            "differences",
            figures.bars(results[0], metric, width),
            f"{title}: by how much each swap differs from the model as it is at "
            f"{table.train_length} tokens, paired over places, with 95 % intervals. Grey: the "
            "interval holds 0; blue: better; orange: worse. The best at the longest length come "
            "first; a bar that leaves the axes has its number.",
        )
    else:
        minus = f", minus that of the model as it is at {table.train_length}, paired over places"
        oracles = reference_rows.oracle_lines(table)
        grey = " Grey diamonds: trained at the length E of each point." if oracles else ""
        said = (
            f"{title} against evaluation length{minus if paired else ''}: means over "
            f"{table.replicate}s with their 95 % intervals.{grey}"
        )
        if len(results) > figures.MOST:
            said = (
                f"{title}: means over {table.replicate}s, a row for each encoding, the best at the "
                "longest length first. The darker a dot, the longer the windows; a ring: the "
                "training length; a bar: the 95 % interval at the row's longest length."
            )
        yield "curves", figures.curves(results, metric, width, oracles), said
    by_position, base = figures.position_metric(results), figures.against(results, baseline)
    if by_position and base:
        yield (
            "positions",
            figures.positions(results, width, baseline),
            f"{capital(by_position.unit)} against the position in the longest window, minus those "
            f"of {labels.short(results)[base.id]} at the same tokens, paired over seeds: means "
            "with their 95 % intervals. Upright lines: training lengths.",
        )
    if of_depth := curve_metric(results, samples=True):
        right = "How often a model is right"
        yield (
            "depth",
            figures.heat(results, width),
            f"{right if in_percent(of_depth) else described(of_depth).title} at each evaluation "
            "length, by the depth in the sample of what is to be found (0: its first token): means "
            f"over {table.replicate}s. Right of the upright line: longer than in training. "
            "Hatched: no value.",
        )
    validation = capital(figures.validation(results))
    yield (
        "training",
        figures.training(results, width),
        f"{validation} at the training length while training: means over the seeds that have a "
        "finite value, with their 95 % intervals. A cross: a seed has none from there on. The axis "
        "ends at 8 bits or below"
        f"{'' if draws(results[0]) else ': a model that knows nothing has 8'}.",
    )
    tried = any(result.rates for result in results)
    ring = " (a ring: the rate that was chosen; a rate at which a seed diverged has no value)"
    yield (
        "rates",
        figures.rates(results, metric, width),
        f"{validation if tried else title} at the training length against the learning rate"
        f"{ring if tried else ''}: means over seeds with their 95 % intervals.",
    )


def _tasks_caption(overview: Overview) -> str:
    others = len(overview.rows) - figures.MOST
    grey = f" Grey: the {others} last of the overview." if others > 0 else ""
    return (
        "Every task, by the first metric of its table, against evaluation length: means over "
        f"seeds with their 95 % intervals. Upright line: the longest length of training.{grey}"
    )
