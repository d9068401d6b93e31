"""Tables for papers: LaTeX floats that fit a page, each with a label of its own."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise

from pe_jax.report.cells import Row, Table
from pe_jax.report.formats import Printed, footnotes, header, printed

PACKAGES = "booktabs,adjustbox"
MOST = 40  # rows that fit a page
# What `str.translate` escapes.
ESCAPED = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"±": r"$\pm$", "≥": r"$\geq$", "−": "$-$", "[": "{[}", "]": "{]}", "`": "", "|": r"$|$"}
    | {"<": "$<$", ">": "$>$"}
)


def latex(tables: Iterable[Table]) -> str:
    """The tables as floats, below a comment that names the packages they need.

    The label of a metric's first table is tab:METRIC, of its second tab:METRIC-2. A table of more
    than 40 rows is split into several floats of one number; the first has the label. A float wider
    than the text is scaled down to its width.
    """
    numbers: Counter[str] = Counter()
    floats = [rf"% These tables need \usepackage{{{PACKAGES}}}." + "\n"]
    for table in tables:
        numbers[table.metric] += 1
        number = numbers[table.metric]
        floats += _floats(table, f"tab:{table.metric}" + (f"-{number}" if number > 1 else ""))
    return "\n".join(floats)


def _floats(table: Table, label: str) -> Iterator[str]:
    """The first two notes are the caption, the others stand below the last float."""
    parts = list(_parts(table.rows))
    caption = " ".join([f"{table.title}.", *table.notes[:2]])
    below = [_text(note) for note in table.notes[2:]]
    below += [f"{_superscript(i)} {_text(note)}." for i, note in enumerate(footnotes(table), 1)]
    for i, rows in enumerate(parts):
        again = [r"\addtocounter{table}{-1}", rf"\caption{{{_text(table.title)} (continued).}}"]
        notes = rf"\par\smallskip\raggedright\footnotesize {' '.join(below)}"
        yield "\n".join(
            [
                r"\begin{table}[tp]",
                r"\centering",
                *(again if i else [rf"\caption{{{_text(caption)}}}", rf"\label{{{label}}}"]),
                r"\par\smallskip\setlength{\tabcolsep}{3pt}",
                r"\begin{adjustbox}{max width=\linewidth}",
                _tabular(table, rows),
                r"\end{adjustbox}",
                *([notes] if rows is parts[-1] else []),
                r"\end{table}",
                "",
            ]
        )


def _parts(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """All rows where they fit a page, else each block (as trained, each swap, no model) in equal parts."""
    if len(rows) <= MOST:
        yield rows
        return
    for _, block in groupby(rows, key=lambda row: row.block):
        own = list(block)
        size = math.ceil(len(own) / math.ceil(len(own) / MOST))
        yield from (own[i : i + size] for i in range(0, len(own), size))


def _tabular(table: Table, rows: Sequence[Row]) -> str:
    import pandas

    body = [[_cell(cell) for cell in printed(table, row)] for row in rows]
    for i, (row, following) in enumerate(pairwise(rows), 1):
        if row.block != following.block:
            body[i][0] = rf"\midrule {body[i][0]}"
    columns = [_title(name) for name in header(table)]
    whole = pandas.DataFrame(body, columns=columns).style.hide(axis="index")
    return whole.to_latex(hrules=True, column_format="l" + "r" * (len(columns) - 1)).strip()


def _cell(cell: Printed) -> str:
    mean, plusminus, half = cell.text.partition(" ± ")
    text = _text(mean) + (rf"\,{{\scriptsize$\pm$\,{half}}}" if plusminus else "")
    return (rf"\textbf{{{text}}}" if cell.bold else text) + _superscript(cell.mark)


def _title(name: str) -> str:
    """A column's title, on two lines where it has several words."""
    first, _, last = name.rpartition(" ")
    return rf"\shortstack[r]{{{_text(first)}\\{_text(last)}}}" if first else _text(name)


def _text(text: str) -> str:
    return text.translate(ESCAPED)


def _superscript(mark: int) -> str:
    return rf"\textsuperscript{{{mark}}}" if mark else ""
