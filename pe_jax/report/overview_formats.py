"""An overview as Markdown, LaTeX and CSV, and its printed cells for the page."""

from __future__ import annotations

from pe_jax.report import latex, spreadsheet
from pe_jax.report.cells import Cell
from pe_jax.report.formats import Printed, markdown_parts
from pe_jax.report.overview import Column, Overview
from pe_jax.report.words import plusminus


def header(overview: Overview) -> list[str]:
    """The titles of the columns."""
    return ["encoding", *(column.title for column in overview.columns)]


def printed(overview: Overview) -> list[list[Printed]]:
    """The cells of all rows, from left to right as in `header`."""
    known = overview.footnotes
    return [
        [
            Printed(label, label, 0, False),
            *(
                _printed(column, cell, known)
                for column, cell in zip(overview.columns, cells, strict=True)
            ),
        ]
        for label, cells in overview.rows
    ]


def markdown(overview: Overview) -> str:
    """The overview in GitHub's Markdown, with its notes and footnotes."""
    rows = printed(overview)
    parts = markdown_parts(
        overview.title, header(overview), rows, overview.notes, overview.footnotes
    )
    return "\n\n".join(parts) + "\n"


def tex(overview: Overview) -> str:
    """The overview as floats, below a comment that names the packages they need."""
    rows = printed(overview)
    titles = ["encoding", *("\n".join(column.lines) for column in overview.columns)]
    parts = [latex.tabular(titles, part) for part in latex.equal_parts(rows)]
    first, *rest = overview.notes
    floats = latex.floats(parts, overview.title, first, "tab:overview", rest, overview.footnotes)
    return "\n".join([latex.NEEDED, *floats])


def csv(overview: Overview) -> str:
    """Every number in full, a row an encoding: of each column mean, half width and n."""
    return spreadsheet.csv(
        {"encoding": label}
        | {
            f"{column.title}, {name}": number
            for column, cell in zip(overview.columns, cells, strict=True)
            for name, number in (("mean", cell.mean), ("half", cell.half), ("n", cell.n))
        }
        | {"not_computed": "; ".join(dict.fromkeys(c.reason for c in cells if c.reason))}
        for label, cells in overview.rows
    )


def _printed(column: Column, cell: Cell, known: list[str]) -> Printed:
    text = plusminus(cell.mean, cell.half, sign="+" if column.difference else "")
    return Printed(text, cell.mean, known.index(cell.reason) + 1 if cell.reason else 0, cell.best)
