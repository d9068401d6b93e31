"""Differences from a baseline as terminal output, Markdown and CSV, with their note."""

from __future__ import annotations

from collections.abc import Sequence

from pe_jax.report import markdown as md
from pe_jax.report import spreadsheet
from pe_jax.report.baseline import DIGITS, Against, Versus
from pe_jax.report.cells import described
from pe_jax.report.formats import header
from pe_jax.report.sentences import Note
from pe_jax.report.terminal import Fitted
from pe_jax.report.words import count, plusminus


def columns(versus: Versus) -> list[str]:
    """The column titles: the encoding, then the lengths as in the table itself."""
    return header(versus.table)[: 1 + len(versus.table.lengths)]


def texts(versus: Versus) -> list[list[str]]:
    """The rows as they print: the label, then the `text` of each length."""
    return [[row.label, *map(text, cells)] for row, cells in versus.rows]


def text(cell: Against) -> str:
    """A cell as it prints: "−0.120 ± 0.010 better", "equal", or the number alone."""
    if cell.verdict == "equal":
        return "equal"
    number = plusminus(cell.change.mean, cell.change.half, sign="+", digits=DIGITS)
    said = cell.verdict if cell.verdict in ("better", "worse") else ""
    return f"{number} {said}".rstrip()


def note(versus: Versus) -> Note:
    """How to read the differences."""
    return Note("How to read the differences", _note(versus))


def _note(versus: Versus) -> str:
    metric = described(versus.table.metric)
    shared = [cell.change.n for _, cells in versus.rows for cell in cells]
    missing = " n/a: one of the two has no value there." if 0 in shared else ""
    of, row = versus.table.replicate, "row" if versus.table.of_swaps else "model"
    if max(shared) < 2:
        return f"Each {row} minus {versus.baseline}; one shared {of} allows no tests.{missing}"
    side = "below" if metric.better == "lower" else "above"
    return (
        f"Each {row} minus {versus.baseline}, paired over {of}s, ± half of the 95 % interval by "
        f"Student's t: {side} 0 the {row} is better. Better and worse are said where a paired t "
        f"test tells it from {versus.baseline} at 5 %, two-sided, corrected by Holm's method for "
        f"the {count(len(versus.rows), row)} of a column; that is stricter than an interval "
        f"without 0. Equal: the difference rounds to 0.000.{missing}"
    )


def terminal(versus: Versus) -> Fitted:
    """The table for the terminal, its note below it."""
    from rich.text import Text

    return Fitted(
        title=versus.title,
        names=columns(versus),
        blocks=[[[*map(Text, row)] for row in texts(versus)]],
        notes=[note(versus)],
        numbers="left",  # the signs of the numbers stand below each other
    )


def markdown(found: Sequence[Versus]) -> str:
    """The tables in GitHub's Markdown, each with a heading and its note."""
    parts = []
    for versus in found:
        names, told = columns(versus), note(versus)
        parts += [md.heading(3, versus.title)]
        parts += [md.table(names, texts(versus), ["left"] * len(names))]
        parts += [md.note(told.question, told)]
    return "\n\n".join(parts) + "\n"


def csv(found: Sequence[Versus]) -> str:
    """Every number in full, a row a model and length; `p` is adjusted by Holm's method."""
    return spreadsheet.csv(
        {
            "metric": versus.table.metric,
            **{condition.name: condition.value for condition in versus.table.apart},
            "baseline": versus.baseline,
            "encoding": row.label,
            "run": row.run,
            "length": length,
            "difference": cell.change.mean,
            "half": cell.change.half,
            "n": cell.change.n,
            "p": cell.p,
            "verdict": cell.verdict,
        }
        for versus in found
        for row, cells in versus.rows
        for length, cell in zip(versus.table.lengths, cells, strict=True)
    )
