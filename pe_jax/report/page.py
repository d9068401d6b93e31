"""The folder that a study publishes: results, tables, figures, the summary of what came out, and
one self-contained HTML page.

The same results give the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pe_jax.record import Result
from pe_jax.report import figures, headroom, labels, plane, published, sheet, sheets, style, tables
from pe_jax.report.baseline import Versus, versus
from pe_jax.report.cells import Table, TableRow, curve_metric, described, in_percent
from pe_jax.report.groups import draws
from pe_jax.report.overview import Overview, overview
from pe_jax.report.published import PublishedTable, PublishedTask, hold
from pe_jax.report.selection import Selection
from pe_jax.report.words import count, each, join, plain, plusminus
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
    of several groups of results overview.md, .tex and .csv (`overview.overview`); baseline.md and
    .csv, every model against `baseline` (`baseline.versus`); published.md and .csv, scores beside
    those of the `references` (`published.hold`); and the figures as .png and .pdf
    (`drawn`); answer.md and .csv where there is an `answer` (pretrained/answer.py), with
    which the page begins. The page tells how to reproduce it: the commands of the runs, then
    `commands`. The sentences `missing`, on runs without a result, stand below the first table.
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
    held = hold(shown, references)
    printed = choice.sheets(sheets.extrapolation(reported))
    title = out.parent.name if out.name == "report" else out.name  # runs/NAME/report
    texts = {
        "runs.jsonl": "".join(records.encode(result) + "\n" for result in results),
        "table.md": sheet.markdown(printed),
        "table.tex": sheet.latex(printed),
        "table.csv": sheet.csv(printed),
        "report.html": page(
            shown, reported, title, commands, compared, matrix, held, choice, answer
        ),
    }
    if answer:
        texts["answer.md"], texts["answer.csv"] = sheet.markdown([answer]), sheet.csv([answer])
    if matrix:
        whole = [choice.noted(sheets.overview(matrix))]
        texts["overview.md"] = sheet.markdown(whole)
        texts["overview.tex"] = sheet.latex(whole)
        texts["overview.csv"] = sheet.csv(whole)
    if compared:
        against_baseline = [choice.noted(sheets.differences(versus)) for versus in compared]
        texts["baseline.md"] = sheet.markdown(against_baseline)
        texts["baseline.csv"] = sheet.csv(against_baseline)
    if held:
        beside = [*map(choice.noted, published.sheets(held))]
        texts["published.md"], texts["published.csv"] = sheet.markdown(beside), sheet.csv(beside)
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

    It opens with the `answer` or the overview `matrix`, where there is one. Below each table stand
    its models against the baseline, where `compared` has them.
    """
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    source, script = (
        Path(__file__).with_name(f"report.{kind}").read_text("utf-8") for kind in ("html.j2", "js")
    )
    called = labels.names(results)
    printed = choice.sheets(sheets.extrapolation(reported))
    by_table = [(v.table, choice.noted(sheets.differences(v))) for v in compared]
    whole = choice.noted(sheets.overview(matrix)) if matrix else None
    every = [*([whole] if whole else []), *printed, *(one for _, one in by_table)]
    return environment.from_string(source).render(
        name=name,
        headlines=tables.headlines(reported),
        answer=answer,
        overview=whole,
        tables=list(zip(reported, printed, strict=True)),
        differences=by_table,
        published=[*map(choice.noted, published.sheets(held))] if held else [],
        glossary=sheet.glossary(every),
        own_notes=sheet.own_notes,
        by_question=sheet.by_question,
        gallery=drawn(results, reported, compared, 4.6, matrix),
        training=TRAINING,
        runs=[(called[result.id], result, list(_facts(result))) for result in results],
        commands=list(dict.fromkeys([*(r.command for r in results if r.command), *commands])),
        summary=summary,
        style=style,
        script=script,
    )


def _facts(result: Result) -> Iterator[tuple[str, str]]:
    """(name, text) of each fact that the page shows of a run."""
    for name in FACTS:
        value = records.plain(getattr(result, name))
        if value not in (None, "") and (result.train.steps or name != "seeds"):
            if isinstance(value, dict):
                value = {key: value[key] for key in sorted(value) if value[key] != {}}
            yield name.replace("_", " "), plain(value)
    if result.train.loss:
        yield "final training loss, nats a token", plain(result.train.loss)


def summary(table: Table, headed: bool = False) -> str:
    """Who is best at the longest length and who uses the context: of the models as trained, or,
    where there is one model, of it and its swaps.

    It begins with what sets the table's group apart, unless it is `headed`: stands below a heading
    that says so.
    """
    metric, longest = described(table.metric), table.lengths[-1]
    called = _names(table)
    train = table.train_length
    told = "" if headed else table.heading
    heading = f"{told[:1].upper()}{told[1:]}: " if told else ""
    unit = "" if table.tokens else " tokens"
    said = [f"{heading}{_setting(table, called, unit)}."]
    reached = sorted(
        (row for row in called if row.cells[-1].n and row.compared),
        key=lambda row: metric.sign * row.cells[-1].mean,
    )
    if not any(row.compared for row in called):
        return f"{said[0]} None solves length {train}, so none is compared beyond it."
    if not reached:
        return f"{said[0]} None has a value at {longest}."
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
        said.append(_gains(compared, metric.sign, f"{longest} against {train}{unit}"))
    kept = [called[row] for row in reached if row.censored and row.effective == longest]
    if kept:
        solved = in_percent(table.metric)
        kind = "Solved" if solved else f"Within 1 % of their value at {train}"
        said.append(f"{kind} at every longer length: {join(kept)}.")
    return " ".join(said)


def _names(table: Table) -> dict[TableRow, str]:
    """The rows that `summary` compares, and what it calls them."""
    trained = {row: row.label for row in table.rows if row.trained}
    if len(trained) != 1:
        return trained
    (model,) = trained
    swaps = [row for row in table.rows if row.together and row.way]
    return trained | {row: row.label.removeprefix(f"{model.label}, ") for row in swaps}


def _setting(table: Table, called: Mapping[TableRow, str], unit: str) -> str:
    """What was trained at which length and evaluated up to which."""
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


def _gains(rows: Mapping[str, TableRow], sign: int, lengths: str) -> str:
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
    """None: it is of the whole study."""
    figure: Figure
    caption: str


def drawn(
    results: Sequence[Result],
    reported: Sequence[Table],
    compared: Sequence[Versus],
    width: float,
    overview: Overview | None = None,
) -> list[StudyFigure]:
    """The figures of the tables `reported` of the results, as far as the results have what they
    show: tasks of an `overview`, and those of `_figures` of each group of results.

    Each group, whose models may be ranked, has figures of its own. Positions are compared with the
    baseline of the table in `compared`, where a user has named it. `width` is in inches.
    """
    by_id = {result.id: result for result in results}
    found = []
    if overview and (figure := figures.tasks(results, overview, width)):
        found.append(StudyFigure("tasks", "tasks", None, figure, of_tasks(overview)))
    for number, table in enumerate(tables.headlines(reported), 1):
        against = next((versus for versus in compared if versus.table is table), None)
        shown = tables.shortened(table, against.baseline if against else None)
        base = against.baseline if against and against.named else None
        own = [by_id[row.run] for row in shown.rows if row.trained]
        made = {kind: figure for kind, figure in _figures(own, shown, base, width) if figure}
        said = captions(own, shown, made, base)
        ending = f"-{number}" if number > 1 else ""
        for kind, figure in made.items():
            caption = " ".join(filter(None, [said[kind], tables.left_out(table, shown)]))
            found.append(StudyFigure(kind + ending, kind, table, figure, caption))
    return found


def _figures(
    results: Sequence[Result], table: Table, baseline: str | None, width: float
) -> Iterator[tuple[str, Figure | None]]:
    if len(results) == 1 and figures.is_paired(results, table.metric):
        yield "differences", figures.bars(results[0], table.metric, width)
    else:
        yield "curves", figures.curves(results, table.metric, width)
    yield "positions", figures.positions(results, width, baseline)
    yield "depth", figures.heat(results, width)
    yield "training", figures.training(results, width)
    yield "rates", figures.rates(results, table.metric, width)


# Captions


CUT = (
    "An arrow head at the frame: the line of its colour, or its interval, goes on beyond the axes."
)


def captions(
    results: Sequence[Result],
    table: Table,
    drawn: Mapping[str, Figure],
    baseline: str | None = None,
) -> dict[str, str]:
    """A caption for each of the figures `drawn` of the results, by kind, with what sets their table
    apart from others; `positions` are differences to `baseline` (`figures.against`).
    """
    said = {
        "curves": f"{described(table.metric).title} against evaluation length"
        f"{_minus(results, table)}: means over {table.replicate}s with their 95 % "
        "intervals.",
        "differences": f"{described(table.metric).title}: by how much each swap differs from the "
        f"model as it is at {table.train_length} tokens, paired over places, with 95 % intervals. "
        "Grey: the interval holds 0; blue: better; orange: worse. The best at the longest length "
        "come first; a bar that leaves the axes has its number.",
        "positions": " ".join(_positions(results, baseline)),
        "depth": f"{_by_depth(results)} at each evaluation length, by the depth in the sample "
        f"of what is to be found (0: its first token): means over {table.replicate}s. Right of the "
        "upright line: longer than in training. Hatched: no value.",
        "training": f"{_validation(results)} at the training length while training: means over "
        "the seeds that have a finite value, with their 95 % intervals. A cross: a seed has none "
        "from there on. The axis ends at 8 bits or below"
        f"{'' if draws(results[0]) else ': a model that knows nothing has 8'}.",
        "rates": " ".join(_rates(results, table.metric)),
    }
    heading = f" {table.heading[:1].upper()}{table.heading[1:]}." if table.heading else ""
    return {
        name: said[name] + (f" {CUT}" if plane.is_cut(figure) else "") + heading
        for name, figure in drawn.items()
    }


def _by_depth(results: Sequence[Result]) -> str:
    metric = curve_metric(results, samples=True)
    if metric is None or in_percent(metric):
        return "How often a model is right"
    return described(metric).title


def _minus(results: Sequence[Result], table: Table) -> str:
    if not figures.is_paired(results, table.metric):
        return ""
    return f", minus that of the model as it is at {table.train_length}, paired over places"


def of_tasks(overview: Overview) -> str:
    """The caption of the figure of several tasks."""
    others = len(overview.rows) - figures.MOST
    grey = f" Grey: the {others} last of the overview." if others > 0 else ""
    return (
        "Every task, by the first metric of its table, against evaluation length: means over "
        f"seeds with their 95 % intervals. Upright line: the longest length of training.{grey}"
    )


def _positions(results: Sequence[Result], baseline: str | None) -> Iterator[str]:
    metric, base = figures.position_metric(results), figures.against(results, baseline)
    if metric and base:
        name = labels.short(results)[base.id]
        unit = metric.unit[:1].upper() + metric.unit[1:]
        yield (
            f"{unit} against the position in the longest window, minus those of {name} at the same "
            "tokens, paired over seeds: means with their 95 % intervals. Upright lines: training "
            "lengths."
        )


def _validation(results: Sequence[Result]) -> str:
    return figures.validation(results).capitalize()


def _rates(results: Sequence[Result], metric: str) -> Iterator[str]:
    what = described(metric).title
    if any(result.rates for result in results):
        yield f"{_validation(results)} at the training length against the learning rate"
        yield "(a ring: the rate that was chosen; a rate at which a seed diverged has no value):"
    else:
        yield f"{what} at the training length against the learning rate:"
    yield "means over seeds with their 95 % intervals."
