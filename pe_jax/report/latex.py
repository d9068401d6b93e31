"""Tables for papers: LaTeX floats that fit a page, each with a label of its own."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import TypeVar

from pe_jax.report.cells import Row, Table
from pe_jax.report.formats import Printed, footnotes, header, printed

Part = TypeVar("Part")
PACKAGES = "booktabs,adjustbox"
NEEDED = rf"% These tables need \usepackage{{{PACKAGES}}}." + "\n"
MOST = 40  # rows that fit a page
# What `str.translate` escapes.
ESCAPED = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"±": r"$\pm$", "≥": r"$\geq$", "−": "$-$", "[": "{[}", "]": "{]}", "`": "", "|": r"$|$"}
    | {"<": "$<$", ">": "$>$", "↑": r"$\uparrow$", "↓": r"$\downarrow$"}
)


def latex(tables: Iterable[Table]) -> str:
    """The tables as floats, below a comment that names the packages they need.

    The label of a metric's first table is tab:METRIC, of its second tab:METRIC-2. A table of more
    than 40 rows is split into several floats of one number; the first has the label. A float wider
    than the text is scaled down to its width.
    """
    numbers: Counter[str] = Counter()
    floats = [NEEDED]
    for table in tables:
        numbers[table.metric] += 1
        number = numbers[table.metric]
        floats += _floats(table, f"tab:{table.metric}" + (f"-{number}" if number > 1 else ""))
    return "\n".join(floats)


def _floats(table: Table, label: str) -> Iterator[str]:
    """The first two notes are the caption, the others stand below the last float."""
    parts = [_tabular(table, rows) for rows in _parts(table.rows)]
    caption = " ".join(table.notes[:2])
    return floats(parts, table.title, caption, label, table.notes[2:], footnotes(table))


def floats(
    parts: Sequence[str],
    title: str,
    caption: str,
    label: str,
    notes: Sequence[str],
    marked: Sequence[str],
) -> Iterator[str]:
    """A float for each of the `parts` of a table, of one number; `marked` are its footnotes."""
    below = [_text(note) for note in notes]
    below += [f"{_superscript(i)} {_text(note)}." for i, note in enumerate(marked, 1)]
    for i, tabular in enumerate(parts):
        again = [r"\addtocounter{table}{-1}", rf"\caption{{{_text(title)} (continued).}}"]
        first = [rf"\caption{{{_text(f'{title}. {caption}')}}}", rf"\label{{{label}}}"]
        ending = rf"\par\smallskip\raggedright\footnotesize {' '.join(below)}"
        yield "\n".join(
            [
                r"\begin{table}[tp]",
                r"\centering",
                *(again if i else first),
                r"\par\smallskip\setlength{\tabcolsep}{3pt}",
                r"\begin{adjustbox}{max width=\linewidth}",
                tabular,
                r"\end{adjustbox}",
                *([ending] if i == len(parts) - 1 else []),
                r"\end{table}",
                "",
            ]
        )


def _parts(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """All rows where they fit a page, else each block (`Row.block`) in equal parts."""
    if len(rows) <= MOST:
        yield rows
        return
    for _, block in groupby(rows, key=lambda row: row.block):
        yield from equal_parts(list(block))


def equal_parts(rows: Sequence[Part]) -> Iterator[Sequence[Part]]:
    """The rows in as few parts of at most MOST as there can be."""
    size = math.ceil(len(rows) / math.ceil(len(rows) / MOST))
    return (rows[i : i + size] for i in range(0, len(rows), size))


def _tabular(table: Table, rows: Sequence[Row]) -> str:
    new = {i for i, (a, b) in enumerate(pairwise(rows), 1) if a.block != b.block}
    return tabular(header(table), [printed(table, row) for row in rows], new)


def tabular(
    header: Sequence[str], rows: Iterable[Sequence[Printed]], ruled: Collection[int] = ()
) -> str:
    """The rows below their header, with a rule above those of the numbers in `ruled`."""
    import pandas

    body = [[_cell(cell) for cell in row] for row in rows]
    for i in ruled:
        body[i][0] = rf"\midrule {body[i][0]}"
    columns = [_title(name) for name in header]
    whole = pandas.DataFrame(body, columns=columns).style.hide(axis="index")
    return whole.to_latex(hrules=True, column_format="l" + "r" * (len(columns) - 1)).strip()


def _cell(cell: Printed) -> str:
    mean, plusminus, half = cell.text.partition(" ± ")
    text = _text(mean) + (rf"\,{{\scriptsize$\pm$\,{half}}}" if plusminus else "")
    return (rf"\textbf{{{text}}}" if cell.bold else text) + _superscript(cell.mark)


def _title(name: str) -> str:
    """A column's title, on its own lines, or on two where it has several words."""
    lines = name.split("\n") if "\n" in name else name.rsplit(" ", 1)
    stacked = r"\\".join(map(_text, lines))
    return rf"\shortstack[r]{{{stacked}}}" if len(lines) > 1 else stacked


def _text(text: str) -> str:
    return text.translate(ESCAPED)


def _superscript(mark: int) -> str:
    return rf"\textsuperscript{{{mark}}}" if mark else ""
