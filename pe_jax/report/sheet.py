"""A table as it prints: one value, and a writer for each format (terminal, Markdown, LaTeX, CSV;
templates write HTML). A kind of table is a function that builds a Sheet.

Text formats print rounded numbers, with a numbered footnote for each reason why a value is missing.
The CSV holds every number in full.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pe_jax.errors import nearest
from pe_jax.report.words import join

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

PACKAGES = "booktabs,adjustbox"
NEEDED = rf"% These tables need \usepackage{{{PACKAGES}}}." + "\n"
LINE = 84  # characters of a row that fit a line of LaTeX at a readable size
GAP = 2  # terminal: characters between columns
NARROW, WIDE = 80, 120  # terminal: least width of notes, width of general ones
PIECE = re.compile(r"[^\s+,]*[+,]*\s*")  # of a label, after which a line of it may end
FIRST = "Caution"  # the question whose notes a terminal with few lines prints first
TEX = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"±": r"$\pm$", "≥": r"$\geq$", "−": "$-$", "[": "{[}", "]": "{]}", "`": "", "|": r"$|$"}
    | {"<": "$<$", ">": "$>$", "↑": r"$\uparrow$", "↓": r"$\downarrow$"}
)


class Note(str):
    """A note below a table, and the question that it answers. A general one explains the form of a
    table, not its numbers: a document with several tables prints it once, at its end.
    """

    question: str
    general: bool

    def __new__(cls, question: str, text: str, general: bool = False) -> Note:
        note = super().__new__(cls, text)
        note.question, note.general = question, general
        return note


class Printed(NamedTuple):
    """A cell: its text, and how it sorts, prints and is explained."""

    text: str
    key: str | float = math.nan
    """What the cell sorts by: a label by itself, a number by its full precision, NaN for n/a."""
    reason: str = ""
    """Why the value is missing, for a footnote; "": it is not."""
    bold: bool = False
    run: str = ""
    """The id of the run that a label names."""


def number(value: float | None, form: str = "{:,}") -> Printed:
    """A number, or n/a for None."""
    return Printed("n/a") if value is None else Printed(form.format(value), value)


@dataclasses.dataclass(frozen=True)
class Sheet:
    """A table. A row is its label and one cell for each other column; blocks are rows that stand
    together, by their name.
    """

    title: str
    columns: tuple[str, ...]
    """Titles, which may have line ends."""
    blocks: tuple[tuple[str, tuple[tuple[Printed, ...], ...]], ...]
    notes: tuple[Note, ...] = ()
    numbers: tuple[Mapping[str, Any], ...] = ()
    """The rows of the CSV."""
    caption: str = ""
    """One sentence, for LaTeX; "": the title."""
    label: str = ""
    """For LaTeX, as in "tab:accuracy"."""
    spare: tuple[str, ...] = ()
    """Columns that are left out first, in this order, where a line has no room for all."""
    left: bool = False
    """Whether numbers are aligned to the left, so that their signs stand below each other."""

    @property
    def rows(self) -> list[tuple[Printed, ...]]:
        return [row for _, rows in self.blocks for row in rows]

    @functools.cached_property
    def footnotes(self) -> list[str]:
        """The distinct reasons why values are missing, in reading order; mark i is item i - 1."""
        return list(dict.fromkeys(c.reason for row in self.rows for c in row if c.reason))

    def mark(self, cell: Printed) -> int:
        """The number of a cell's footnote; 0: none."""
        return self.footnotes.index(cell.reason) + 1 if cell.reason else 0

    def marked(self, cell: Printed) -> str:
        """A cell's text in a terminal, with the number of its footnote."""
        return cell.text + (f" [{self.mark(cell)}]" if cell.reason else "")

    def only(self, columns: Sequence[str]) -> Sheet:
        """The sheet with the label and these columns, in this order; a title is named by all of it
        or by its first word. ValueError, with the nearest titles, for one that is not there.
        """
        if not columns:
            return self
        titles = list(self.columns)
        known = {title.split()[0]: i for i, title in enumerate(titles)}
        known |= {title: i for i, title in enumerate(titles)}
        for name in columns:
            if name not in known:
                raise ValueError(
                    f"no column is called {name!r}{nearest(name, known, 3)} "
                    f"Known: {', '.join(titles[1:])}."
                )
        chosen = self._kept([0, *(known[name] for name in columns if known[name])])
        return dataclasses.replace(chosen, spare=())

    def fitting(self, room: int) -> tuple[Sheet, list[str]]:
        """(the sheet with as many columns as fit a line of `room` characters, the titles of the
        other columns). `spare` columns are left out first, then the last ones. The label and one
        more column stay.
        """
        titles = [title.replace("\n", " ") for title in self.columns]
        texts = [titles, *([*map(self.marked, row)] for row in self.rows)]
        least = dict(enumerate(_least([*zip(*texts, strict=True)])))
        spare = [self.columns.index(title) for title in self.spare]
        last = [i for i in reversed(least) if i not in spare]
        for i in [*spare, *last][: len(titles) - 2]:
            if _total(least.values()) > room:
                del least[i]
        return self._kept(list(least)), [t for i, t in enumerate(titles) if i not in least]

    def _kept(self, columns: Sequence[int]) -> Sheet:
        blocks = tuple(
            (name, tuple(tuple(row[i] for i in columns) for row in rows))
            for name, rows in self.blocks
        )
        titles = tuple(self.columns[i] for i in columns)
        return dataclasses.replace(self, columns=titles, blocks=blocks)


def by_question(notes: Iterable[Note]) -> dict[str, list[str]]:
    """The notes by their questions, in order."""
    found: dict[str, list[str]] = {}
    for note in notes:
        found.setdefault(note.question, []).append(note)
    return found


def glossary(sheets: Iterable[Sheet]) -> dict[str, list[str]]:
    """The general notes of a document's sheets by their questions, each once."""
    return by_question(dict.fromkeys(n for s in sheets for n in s.notes if n.general))


def own_notes(sheet: Sheet) -> dict[str, list[str]]:
    """The notes on the numbers of a sheet by their questions."""
    return by_question(note for note in sheet.notes if not note.general)


# Markdown


def markdown(sheets: Sequence[Sheet], title: str = "") -> str:
    """The tables in GitHub's Markdown, each below a heading, with its notes and footnotes; then the
    general notes.
    """
    parts = [f"# {_md(title)}"] if title else []
    for sheet in sheets:
        parts += _markdown(sheet)
    parts += [_md_note(question, " ".join(told)) for question, told in glossary(sheets).items()]
    return "\n\n".join(parts) + "\n"


def _markdown(sheet: Sheet) -> Iterator[str]:
    import pandas

    def cell(cell: Printed) -> str:
        text, mark = _md(cell.text), sheet.mark(cell)
        return (f"**{text}**" if cell.bold else text) + (f" <sup>{mark}</sup>" if mark else "")

    align = ["left"] + ["left" if sheet.left else "right"] * (len(sheet.columns) - 1)
    frame = pandas.DataFrame(
        [[*map(cell, row)] for row in sheet.rows], columns=[*map(_md, sheet.columns)]
    )
    yield f"### {_md(sheet.title)}"
    yield frame.to_markdown(index=False, disable_numparse=True, colalign=align)
    yield from (_md_note(question, " ".join(told)) for question, told in own_notes(sheet).items())
    yield from (f"<sup>{i}</sup> {_md(why)}" for i, why in enumerate(sheet.footnotes, 1))


SPECIAL = re.compile(
    r"[\\|*<`~]|&(?=#?\w+;)|(?<![^\W_])_|_(?![^\W_])|(?<=\])[(\[:]|:(?=//)|(?<=www)\."
)
"""What would begin a cell, emphasis, HTML or a link."""


def _md(plain: str) -> str:
    """The text on one line, with a backslash before each character that Markdown would read."""
    return SPECIAL.sub(r"\\\g<0>", " ".join(plain.splitlines()))


def _md_note(question: str, plain: str) -> str:
    """A paragraph that begins with the question that it answers, in bold."""
    return f"**{_md(question)}.** {_md(plain)}"


# CSV


def csv(sheets: Iterable[Sheet]) -> str:
    """The numbers of the tables in full, below the names of their columns."""
    import pandas

    rows = [row for sheet in sheets for row in sheet.numbers]
    return pandas.DataFrame(rows, dtype=object).to_csv(index=False)


# HTML


def html(template: Path, **values: Any) -> str:
    """The page that a template, a .html.j2 file, makes of the values; text in them is escaped."""
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    return environment.from_string(template.read_text("utf-8")).render(values)


# LaTeX


def latex(sheets: Sequence[Sheet]) -> str:
    """The tables as floats for a paper, below a comment that names the packages they need. The
    caption is one sentence; the general notes are comments at the end.

    Columns that a line of text has no room for are left out, which a comment says. A table that is
    higher than a page is made smaller.
    """
    parts = [NEEDED]
    for sheet in sheets:
        fitted, left_out = sheet.fitting(LINE)
        if left_out:
            # --column chooses the columns of tables of scores, here the ones with spare columns.
            advice = "; --column=NAME chooses the columns" if sheet.spare else ""
            parts.append(f"% Left out: {join(left_out)}{advice}.")
        parts.append(_float(fitted))
    parts += [f"% {question}. {' '.join(told)}" for question, told in glossary(sheets).items()]
    return "\n".join(parts).rstrip("\n") + "\n"


def _float(sheet: Sheet) -> str:
    below = [_tex(" ".join(told)) for told in own_notes(sheet).values()]
    below += [f"{_superscript(i)} {_tex(why)}." for i, why in enumerate(sheet.footnotes, 1)]
    ending = rf"\par\smallskip\raggedright\footnotesize {' '.join(below)}"
    return "\n".join(
        [
            r"\begin{table}[tp]",
            r"\centering\small",
            rf"\caption{{{_tex(sheet.caption or f'{sheet.title}.')}}}",
            rf"\label{{{sheet.label}}}",
            r"\par\smallskip\setlength{\tabcolsep}{3pt}",
            r"\begin{adjustbox}{max width=\linewidth, max totalheight=0.8\textheight}",
            _tabular(sheet),
            r"\end{adjustbox}",
            *([ending] if below else []),
            r"\end{table}",
            "",
        ]
    )


def _tabular(sheet: Sheet) -> str:
    """The rows below the header, with a rule between two blocks."""
    import pandas

    def cell(cell: Printed) -> str:
        value, sign, half = cell.text.partition(" ± ")
        text = _tex(value) + (rf"\,{{\scriptsize$\pm$\,{half}}}" if sign else "")
        return (rf"\textbf{{{text}}}" if cell.bold else text) + _superscript(sheet.mark(cell))

    body = []
    for _, rows in sheet.blocks:
        lines = [[*map(cell, row)] for row in rows]
        if body and lines:
            lines[0][0] = rf"\midrule {lines[0][0]}"
        body += lines
    frame = pandas.DataFrame(body, columns=[*map(_title, sheet.columns)]).style.hide(axis="index")
    columns = "l" + "r" * (len(sheet.columns) - 1)
    return frame.to_latex(hrules=True, column_format=columns).strip()


def _title(title: str) -> str:
    """A column's title, on its own lines, or on two where it has several words."""
    lines = title.split("\n") if "\n" in title else title.rsplit(" ", 1)
    stacked = r"\\".join(map(_tex, lines))
    return rf"\shortstack[r]{{{stacked}}}" if len(lines) > 1 else stacked


def _tex(text: str) -> str:
    return text.translate(TEX)


def _superscript(mark: int) -> str:
    return rf"\textsuperscript{{{mark}}}" if mark else ""


# Terminal


def terminal(sheets: Sequence[Sheet], lines: int | None = None) -> list[RenderableType]:
    """What a rich console prints in its own width: the tables with their notes, then the general
    notes. With a number of `lines` each table has as many lines of notes at most, what is doubtful
    first, and there are no general notes.
    """
    if lines is not None:
        return [Fitted(sheet, lines) for sheet in sheets]
    told = [f"{question}: {' '.join(notes)}" for question, notes in glossary(sheets).items()]
    return [*(Fitted(sheet) for sheet in sheets), *([Dim(tuple(told), WIDE)] if told else [])]


@dataclasses.dataclass(frozen=True)
class Fitted:
    """A sheet with as many of its columns as fit with their values whole, and its notes. The last
    note says which columns are left out. A label equal to the one above is not repeated.
    """

    sheet: Sheet
    lines: int | None = None
    """Of notes at most; None: all."""

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        sheet, left_out = self.sheet.fitting(options.max_width)
        titles = [title.replace("\n", " ") for title in sheet.columns]
        blocks = [[[*map(sheet.marked, row)] for row in rows] for _, rows in sheet.blocks]
        widths = _widths([titles, *(row for rows in blocks for row in rows)], options.max_width)
        table = Table(
            title=Text(sheet.title),
            box=box.SIMPLE_HEAD,
            show_edge=False,
            pad_edge=False,
            collapse_padding=True,
        )
        for i, (title, width) in enumerate(zip(titles, widths, strict=True)):
            align = "right" if i and not sheet.left else "left"
            table.add_column(Text(title), justify=align, width=width, overflow="fold")
        for (_, rows), texts in zip(sheet.blocks, blocks, strict=True):
            above = ""
            for cells, row in zip(rows, texts, strict=True):
                label = "" if row[0] == above else _in_lines(row[0], widths[0])
                shown = [label, *row[1:]]
                styled = zip(shown, cells, strict=True)
                table.add_row(*(Text(text, "bold" if c.bold else "") for text, c in styled))
                above = row[0]
            table.add_section()
        yield table
        yield Text()
        notes = own_notes(self.sheet)
        told = [f"{asked}: {' '.join(parts)}" for asked, parts in notes.items()]
        below = [f"[{i}] {why}" for i, why in enumerate(sheet.footnotes, 1)]
        if self.lines:
            order = sorted(notes, key=lambda asked: asked != FIRST)
            told = [note for asked in order for note in notes[asked]]
            below = ["; ".join(below)] if below else []
        below += [f"Left out, too wide: {join(left_out)}."] if left_out else []
        yield Dim(tuple(told), _total(widths), self.lines)
        yield Dim(tuple(below), _total(widths))


class Dim(NamedTuple):
    """Notes below a table, at least as wide as it."""

    notes: tuple[str, ...]
    width: int
    lines: int | None = None
    """How many lines they have at most: a note that needs more is left out; None: any number."""

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        from rich.text import Text

        wide = min(options.max_width, max(NARROW, self.width))
        shown: list[Text] = []
        for note in self.notes:
            lines = Text(note, "dim").wrap(console, wide)
            if self.lines is None or len(shown) + len(lines) <= self.lines:
                shown += lines
        yield from shown


def _widths(rows: Sequence[Sequence[str]], room: int) -> list[int]:
    """The widths of columns. Where they do not fit as wide as they are, the widest one whose lines
    can be broken between words becomes narrower, again and again.
    """
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    least = _least(columns)
    while _total(least) > room and least[0] > 1:  # the label alone is too long
        least[0] -= 1
    while _total(widths) > room and (wide := [i for i, w in enumerate(widths) if w > least[i]]):
        widths[max(wide, key=lambda i: widths[i])] -= 1
    return widths


def _least(columns: Sequence[Sequence[str]]) -> list[int]:
    """The least widths of columns, of which the first has the labels."""
    labels, *others = columns
    return [max(map(_longest_piece, labels)), *(max(map(_longest_word, c)) for c in others)]


def _total(widths: Collection[int]) -> int:
    """The width of a table."""
    return sum(widths) + GAP * (len(widths) - 1)


def _longest_piece(label: str) -> int:
    """The width of the longest part of a label that is not broken."""
    return max(len(piece.rstrip()) for piece in PIECE.findall(label))


def _in_lines(label: str, width: int) -> str:
    """The label in lines of `width` characters, which end at a space, a + or a comma."""
    lines = [""]
    for piece in PIECE.findall(label):
        if len(lines[-1] + piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines if line)


def _longest_word(text: str) -> int:
    """The width of the longest part that is not broken: a word, or a mean with its half width."""
    return max(map(len, text.replace(" ± ", "_±_").split()), default=0)
