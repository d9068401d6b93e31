"""A table on a terminal of any width: as many of its columns as there is room for, and notes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from pe_jax.report.words import join

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.text import Text

GAP = 2  # between columns
NAME = 24  # characters of a label that are not broken
NARROW = 80  # notes are at least so wide, where the terminal is


@dataclasses.dataclass(frozen=True)
class Fitted:
    """What a rich console prints in its own width. The last columns are left out where not all of
    them fit with their words whole, which the last note then says.
    """

    title: str
    names: Sequence[str]
    """The titles of the columns."""
    blocks: Sequence[Sequence[Sequence[Text]]]
    """Rows of cells, in blocks with a blank line between them."""
    notes: Sequence[str]
    numbers: Literal["left", "right"] = "right"
    """Where the columns after the first are aligned."""

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        widths = self._widths(options.max_width)
        shown, left_out = self.names[: len(widths)], self.names[len(widths) :]
        table = Table(
            title=Text(self.title),
            box=box.SIMPLE_HEAD,
            show_edge=False,
            pad_edge=False,
            collapse_padding=True,
        )
        for i, (name, width) in enumerate(zip(shown, widths, strict=True)):
            align = self.numbers if i else "left"
            table.add_column(Text(name), justify=align, width=width, overflow="fold")
        for block in self.blocks:
            for row in block:
                table.add_row(*row[: len(widths)])
            table.add_section()
        yield table
        notes = list(self.notes)
        if left_out:
            notes.append(f"Left out, since the terminal is too narrow: {join(left_out)}.")
        wide = min(options.max_width, max(NARROW, _total(widths)))
        yield Text()
        yield from Text("\n".join(notes), "dim").wrap(console, wide)

    def _widths(self, room: int) -> list[int]:
        """The widths of the columns that fit. Where they do not fit as wide as they are, the widest
        one whose lines can be broken between words becomes narrower, again and again.
        """
        columns = [
            [name, *(row[i].plain for block in self.blocks for row in block)]
            for i, name in enumerate(self.names)
        ]
        widths = [max(map(len, column)) for column in columns]
        least = [max(map(_longest_word, column)) for column in columns]
        if _total(least) > room:
            least[0] = min(NAME, least[0])
        while len(least) > 2 and _total(least) > room:
            least.pop()
        widths = widths[: len(least)]
        while _total(widths) > room:
            wide = [i for i, width in enumerate(widths) if width > least[i]]
            if not wide:
                break
            widths[max(wide, key=lambda i: widths[i])] -= 1
        return widths


def _total(widths: Sequence[int]) -> int:
    """The width of a table."""
    return sum(widths) + GAP * (len(widths) - 1)


def _longest_word(text: str) -> int:
    """Of "2.08 ± 0.03" the width of "2.08 ±": a number keeps its sign."""
    return max(map(len, text.replace(" ±", "_±").split()), default=0)
