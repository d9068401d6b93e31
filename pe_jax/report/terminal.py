"""A table on a terminal of any width: as many of its columns as there is room for, and notes."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence
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
    """What a rich console prints in its own width. Columns are left out where not all of them fit
    with their values whole, which the last note then says.
    """

    title: str
    names: Sequence[str]
    """The titles of the columns."""
    blocks: Sequence[Sequence[Sequence[Text]]]
    """Rows of cells, in blocks with a blank line between them."""
    notes: Sequence[str]
    numbers: Literal["left", "right"] = "right"
    """Where the columns after the first are aligned."""
    spare: Sequence[int] = ()
    """The numbers of columns that are left out first, in this order, before the last ones."""

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        widths = self._widths(options.max_width)
        left_out = [name for i, name in enumerate(self.names) if i not in widths]
        table = Table(
            title=Text(self.title),
            box=box.SIMPLE_HEAD,
            show_edge=False,
            pad_edge=False,
            collapse_padding=True,
        )
        for i, width in widths.items():
            align = self.numbers if i else "left"
            table.add_column(Text(self.names[i]), justify=align, width=width, overflow="fold")
        for block in self.blocks:
            for row in block:
                table.add_row(*(row[i] for i in widths))
            table.add_section()
        yield table
        notes = list(self.notes)
        if left_out:
            notes.append(f"Left out, since the terminal is too narrow: {join(left_out)}.")
        wide = min(options.max_width, max(NARROW, _total(widths.values())))
        yield Text()
        yield from Text("\n".join(notes), "dim").wrap(console, wide)

    def _widths(self, room: int) -> dict[int, int]:
        """The widths of the columns that fit, by number. Where they do not fit as wide as they are,
        the widest one whose lines can be broken between words becomes narrower, again and again.
        """
        columns = [
            [name, *(row[i].plain for block in self.blocks for row in block)]
            for i, name in enumerate(self.names)
        ]
        least = {i: max(map(_longest_word, column)) for i, column in enumerate(columns)}
        if _total(least.values()) > room:
            least[0] = min(NAME, least[0])
        last = [i for i in reversed(least) if i not in self.spare]
        for i in [*self.spare, *last][: len(columns) - 2]:
            if _total(least.values()) > room:
                del least[i]
        widths = {i: max(map(len, columns[i])) for i in least}
        while _total(widths.values()) > room:
            wide = [i for i, width in widths.items() if width > least[i]]
            if not wide:
                break
            widths[max(wide, key=lambda i: widths[i])] -= 1
        return widths


def _total(widths: Collection[int]) -> int:
    """The width of a table."""
    return sum(widths) + GAP * (len(widths) - 1)


def _longest_word(text: str) -> int:
    """The width of the longest part that is not broken: a word, or a mean with its half width."""
    return max(map(len, text.replace(" ± ", "_±_").split()), default=0)
