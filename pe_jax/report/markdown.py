"""GitHub's Markdown: text of any kind that shows as it is, and tables of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

SPECIAL = re.compile(r"[\\|*<]|(?<=\])[(\[:]|:(?=//)|(?<=www)\.")
"""What would begin a cell, emphasis, HTML or a link."""


def text(plain: str) -> str:
    """The text on one line, with a backslash before each character that means something else."""
    return SPECIAL.sub(r"\\\g<0>", " ".join(plain.splitlines()))


def heading(level: int, plain: str) -> str:
    """A heading of that level, 1 being the highest."""
    return f"{'#' * level} {text(plain)}"


def note(question: str, plain: str) -> str:
    """A paragraph that begins with the question that it answers, in bold."""
    return f"**{text(question)}.** {text(plain)}"


def table(
    names: Sequence[str],
    rows: Iterable[Sequence[Any]],
    align: Sequence[str],
    cell: Callable[[Any], str] = text,
) -> str:
    """A table of the columns `names`, each aligned "left" or "right"; `cell` prints a cell."""
    import pandas

    body = [[cell(one) for one in row] for row in rows]
    return pandas.DataFrame(body, columns=list(map(text, names))).to_markdown(
        index=False, disable_numparse=True, colalign=align
    )
