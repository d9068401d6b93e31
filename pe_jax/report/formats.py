"""A table as terminal output (rich), Markdown and CSV; `latex` makes tables for papers.

The text formats print rounded numbers with numbered footnotes for what was not computed; the CSV
holds every number in full. Several tables go into one file, one after another.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from pe_jax.report import markdown as md
from pe_jax.report import spreadsheet
from pe_jax.report.cells import Row, Table
from pe_jax.report.sentences import by_question
from pe_jax.report.terminal import Fitted
from pe_jax.report.words import plusminus


def header(table: Table) -> list[str]:
    """The column titles; a length carries its multiple of the training length."""
    lengths = [f"{n} ({n / table.train_length:.3g}x)" for n in table.lengths]
    told = ["gain", "effective length"]
    if any(row.beyond for row in table.rows):
        told = [f"mean beyond {table.train_length}", "solved length"]
    cost = "seconds a window" if table.replicate != "seed" else "ms a step"
    return ["encoding", *lengths, *told, *["parameters"] * _counted(table), cost]


def _counted(table: Table) -> bool:
    """Whether it has the parameters of encodings; records of pretrained models have none."""
    return any(row.parameters is not None for row in table.rows)


def texts(row: Row, counted: bool = True) -> list[str]:
    """The cells of a row as they print, without footnote marks; its parameters if `counted`."""
    effective = "n/a" if row.effective is None else f"{row.effective or 'none'}"
    return [
        row.label,
        *(plusminus(cell.mean, cell.half) for cell in row.cells),
        plusminus(row.summary.mean, row.summary.half, sign="" if row.beyond else "+"),
        f"≥ {effective}" if row.censored else effective,
        *["n/a" if row.parameters is None else f"{row.parameters:,}"] * counted,
        "n/a" if row.cost is None else f"{row.cost:.1f}",
    ]


def footnotes(table: Table) -> list[str]:
    """The distinct reasons why values are missing, in reading order; mark i is item i - 1."""
    reasons = (
        cell.reason for row in table.rows for cell in (*row.cells, row.summary) if cell.reason
    )
    return list(dict.fromkeys(reasons))


class Printed(NamedTuple):
    """A cell as the text formats print it."""

    text: str
    key: str | float
    """What it sorts by: a label by itself, a number by its full precision, NaN for n/a."""
    mark: int
    """The number of its footnote; 0: none."""
    bold: bool


def printed(table: Table, row: Row) -> list[Printed]:
    """The cells of a row of the table, from left to right as in `header`."""
    cells = (*row.cells, row.summary)
    known, counted = footnotes(table), _counted(table)
    numbers = (row.effective, *[row.parameters] * counted, row.cost)
    keys = [cell.mean for cell in cells] + [math.nan if n is None else n for n in numbers]
    marks = [known.index(cell.reason) + 1 if cell.reason else 0 for cell in cells]
    bold = [cell.best for cell in cells]
    columns = zip(
        texts(row, counted),
        [row.label, *keys],
        [0, *marks, *[0] * len(numbers)],
        [False, *bold, *[False] * len(numbers)],
        strict=True,
    )
    return [Printed(*column) for column in columns]


def terminal(table: Table) -> Fitted:
    """The table for the terminal, notes and footnotes below it."""
    from rich.text import Text

    def cell(cell: Printed) -> Text:
        mark = f" [{cell.mark}]" if cell.mark else ""
        return Text(cell.text + mark, "bold" if cell.bold else "")

    marked = [f"[{i}] {note}" for i, note in enumerate(footnotes(table), 1)]
    return Fitted(
        title=table.title,
        names=header(table),
        blocks=[
            [[*map(cell, printed(table, row))] for row in rows]
            for _, rows in groupby(table.rows, key=lambda row: row.block)
        ],
        notes=[*table.notes, *marked],
        spare=_spare(table),
    )


def _spare(table: Table) -> list[int]:
    """The columns that a narrow terminal lacks first: from the last one to the gain, then the
    lengths from the shortest on, but for the training length and the longest.
    """
    columns, lengths = len(header(table)), len(table.lengths)
    kept = {table.train_length, table.lengths[-1]}
    short = [i for i, length in enumerate(table.lengths, 1) if length not in kept]
    return [*range(columns - 1, lengths, -1), *short]


def markdown(tables: Iterable[Table]) -> str:
    """The tables in GitHub's Markdown, each with a heading, notes and footnotes."""
    parts = []
    for table in tables:
        rows = [printed(table, row) for row in table.rows]
        parts += markdown_parts(table.title, header(table), rows, table.notes, footnotes(table))
    return "\n\n".join(parts) + "\n"


def markdown_parts(
    title: str,
    header: list[str],
    rows: Iterable[Sequence[Printed]],
    notes: Iterable[str],
    marked: Iterable[str],
) -> Iterator[str]:
    """The heading, the rows, the notes and the footnotes of a table."""
    align = ["left"] + ["right"] * (len(header) - 1)
    yield md.heading(3, title)
    yield md.table(header, rows, align, _marked)
    for question, answers in by_question(notes).items():
        yield md.note(question, " ".join(answers))
    yield from (f"<sup>{i}</sup> {md.text(note)}" for i, note in enumerate(marked, 1))


def _marked(cell: Printed) -> str:
    text = md.text(cell.text)
    text = f"**{text}**" if cell.bold else text
    return text + (f" <sup>{cell.mark}</sup>" if cell.mark else "")


def csv(tables: Iterable[Table]) -> str:
    """Every number of the tables in full, a row a model: mean_E, half_E and n_E for a length E."""
    return spreadsheet.csv(_numbers(table, row) for table in tables for row in table.rows)


def _numbers(table: Table, row: Row) -> dict[str, object]:
    numbers: dict[str, object] = {
        "metric": table.metric,
        **{condition.name: condition.value for condition in table.apart},
        "encoding": row.label,
        "run": row.run,
        "swap": row.swap,
        "rate": row.rate,
    }
    for length, cell in zip(table.lengths, row.cells, strict=True):
        numbers |= {f"mean_{length}": cell.mean, f"half_{length}": cell.half, f"n_{length}": cell.n}
    rank, beyond = row.rank or (math.nan,) * 3, row.beyond
    if beyond:
        numbers |= {"beyond_mean": beyond.mean, "beyond_half": beyond.half, "beyond_n": beyond.n}
    return numbers | {
        "gain_mean": row.gain.mean,
        "gain_half": row.gain.half,
        "gain_n": row.gain.n,
        "effective_length": row.effective,
        "censored": row.censored,
        "reciprocal_rank": rank[0],
        "reciprocal_rank_low": rank[1],
        "reciprocal_rank_high": rank[2],
        "encoding_parameters": row.parameters,
        "ms_per_step": row.ms_per_step,
        **({} if row.seconds is None else {"seconds": row.seconds}),
        "not_computed": "; ".join(dict.fromkeys(c.reason for c in row.cells if c.reason)),
    }
