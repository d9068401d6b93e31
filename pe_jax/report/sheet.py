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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pe_jax.errors import nearest
from pe_jax.report.phrases import join

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

PACKAGES = "booktabs,adjustbox"
NEEDED = rf"% These tables need \usepackage{{{PACKAGES}}}." + "\n"
GAP = 2  # terminal: characters between columns
LABEL = 20  # terminal: characters to which a label may be folded
WIDE = 120  # terminal: width of notes
FIRST = "Caution"
"""The question of the notes on what is doubtful."""
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
    """Columns that a terminal leaves out first, in this order, where it has no room for all."""
    left: bool = False
    """Whether numbers are aligned to the left, so that their signs stand below each other."""
    lead: str = ""
    """What follows from the table, which stands above it, in LaTeX below; "": nothing."""

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
        kept = [0, *(known[name] for name in columns if known[name])]
        blocks = tuple(
            (name, tuple(tuple(row[i] for i in kept) for row in rows)) for name, rows in self.blocks
        )
        chosen = tuple(titles[i] for i in kept)
        return dataclasses.replace(self, columns=chosen, blocks=blocks, spare=())


def by_question(notes: Iterable[Note]) -> dict[str, str]:
    """The notes by their questions, in order; those on one question are one text."""
    grouped: dict[str, list[str]] = {}
    for note in notes:
        grouped.setdefault(note.question, []).append(note)
    return {question: " ".join(texts) for question, texts in grouped.items()}


def glossary(sheets: Iterable[Sheet]) -> dict[str, str]:
    """The general notes of a document's sheets by their questions, each once."""
    return by_question(dict.fromkeys(n for s in sheets for n in s.notes if n.general))


def own_notes(sheet: Sheet) -> dict[str, str]:
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
    parts += [_md_note(*note) for note in glossary(sheets).items()]
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
    if sheet.lead:
        yield f"**{_md(sheet.lead)}**"
    yield frame.to_markdown(index=False, disable_numparse=True, colalign=align)
    yield from (_md_note(*note) for note in own_notes(sheet).items())
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
    """The page that a template, a .html.j2 file, makes of the values and of `css`, the style of
    all pages; text in values is escaped.
    """
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    css = Path(__file__).with_name("page.css").read_text("utf-8")
    return environment.from_string(template.read_text("utf-8")).render(values, css=css)


# LaTeX


def latex(sheets: Sequence[Sheet]) -> str:
    """The tables as floats for a paper, below a comment that names the packages they need. The
    caption is one sentence; the general notes are comments at the end. A table that is wider than a
    line or higher than a page is made smaller.
    """
    parts = [NEEDED, *map(_float, sheets)]
    parts += [f"% {question}. {text}" for question, text in glossary(sheets).items()]
    return "\n".join(parts).rstrip("\n") + "\n"


def _float(sheet: Sheet) -> str:
    below = [_tex(text) for text in (sheet.lead, *own_notes(sheet).values()) if text]
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
        text = _tex(value) + (rf"\,{{\scriptsize$\pm$\,{_tex(half)}}}" if sign else "")
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


def terminal(sheets: Sequence[Sheet], brief: bool = False) -> list[RenderableType]:
    """What a rich console prints in its own width: the tables with their notes, then the general
    notes; `brief`, of the notes only what is doubtful.
    """
    general = {} if brief else glossary(sheets)
    return [*(Fitted(sheet, brief) for sheet in sheets), *_notes(general)]


def _notes(notes: Mapping[str, str], *more: str) -> Iterator[RenderableType]:
    from rich.constrain import Constrain
    from rich.text import Text

    for text in (*(f"{question}: {answer}" for question, answer in notes.items()), *more):
        yield Constrain(Text(text, "dim"), WIDE)


@dataclasses.dataclass(frozen=True)
class Fitted:
    """A sheet with as many of its columns as fit with their values whole, and its notes. The last
    note says which columns are left out. A label equal to the one above is not repeated.
    """

    sheet: Sheet
    brief: bool = False
    """Whether of the notes only what is doubtful is printed."""

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        from rich import box
        from rich.constrain import Constrain
        from rich.table import Table
        from rich.text import Text

        sheet, titles = self.sheet, [title.replace("\n", " ") for title in self.sheet.columns]
        widths = _widths(sheet, titles, options.max_width)
        table = Table(
            title=None if sheet.lead else Text(sheet.title),
            box=box.SIMPLE_HEAD,
            show_edge=False,
            pad_edge=False,
            collapse_padding=True,
        )
        for i, width in widths.items():
            align = "right" if i and not sheet.left else "left"
            table.add_column(Text(titles[i]), justify=align, width=width, overflow="fold")
        for _, rows in sheet.blocks:
            above = ""
            for row in rows:
                texts = ["" if row[0].text == above else row[0].text, *map(sheet.marked, row[1:])]
                table.add_row(*(Text(texts[i], "bold" if row[i].bold else "") for i in widths))
                above = row[0].text
            table.add_section()
        if sheet.lead:
            yield Text(sheet.title)
            yield Constrain(Text(sheet.lead, "bold"), WIDE)
            yield Text()
        yield table
        yield Text()
        notes = own_notes(sheet)
        if self.brief:
            notes = {FIRST: notes[FIRST]} if FIRST in notes else {}
        shown = {row[i].reason for row in sheet.rows for i in widths}
        below = [f"[{i}] {why}" for i, why in enumerate(sheet.footnotes, 1) if why in shown]
        left_out = [title for i, title in enumerate(titles) if i not in widths]
        below += [f"Left out, too wide: {join(left_out)}."] if left_out else []
        yield from _notes(notes, *below)


def _widths(sheet: Sheet, titles: Sequence[str], room: int) -> dict[int, int]:
    # The widths of the columns that fit a line of `room` characters. Those that have no room with
    # their words whole are left out, `spare` ones first, then the last; the label and one more
    # stay.
    rows = [titles, *([row[0].text, *map(sheet.marked, row[1:])] for row in sheet.rows)]
    columns = [re.sub(" (?=±)|(?<=±) ", "_", " ".join(c)).split() for c in zip(*rows, strict=True)]
    least = {i: max(map(len, words), default=1) for i, words in enumerate(columns)}
    most = [max(map(len, column)) for column in zip(*rows, strict=True)]
    least[0] = min(most[0], LABEL)
    spare = [sheet.columns.index(title) for title in sheet.spare]
    for i in [*spare, *(i for i in reversed(least) if i not in spare)][: len(least) - 2]:
        if _total(least) > room:
            del least[i]
    least[0] = 1  # in the narrowest terminal
    widths = {i: most[i] for i in least}
    while _total(widths) > room and (wide := [i for i in widths if widths[i] > least[i]]):
        widths[max(wide, key=lambda i: widths[i])] -= 1
    return widths


def _total(widths: Mapping[int, int]) -> int:
    return sum(widths.values()) + GAP * (len(widths) - 1)
