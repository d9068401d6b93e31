"""Output of commands: the progress of a run, and tables of results."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from pe_jax.commands import cli
from pe_jax.report.phrases import count

NAMED = 8  # runs that a sentence names

if TYPE_CHECKING:
    from pe_jax.record import Result
    from pe_jax.report.published import PublishedNumber
    from pe_jax.report.selection import Selection
    from pe_jax.report.sheet import Sheet
    from pe_jax.sweep.status import Standing


def stdout() -> Console:
    """A console for tables and plain text, as wide as the terminal."""
    return Console(width=shutil.get_terminal_size((160, 24)).columns, highlight=False, markup=False)


def folder(out: str | None) -> Path | None:
    """The folder of --out, None without one. OSError, before the work, if it cannot be written."""
    if not out:
        return None
    parent = next(path for path in (Path(out), *Path(out).parents) if path.exists())
    if not (parent.is_dir() and os.access(parent, os.W_OK)):
        number = errno.EACCES if parent.is_dir() else errno.ENOTDIR
        raise OSError(number, os.strerror(number), str(parent))
    return Path(out)


def finished(workdir: Path) -> list[Path]:
    """The folder of a run itself, or of each finished run in a work directory. ValueError without
    any.
    """
    from pe_jax.report import study

    if (workdir / "config.json").exists() or (workdir / "result.json").exists():
        return [workdir]
    if not any(workdir.glob("*/result.json")):
        raise ValueError(f"no finished run in {str(workdir)!r}: it needs result.json")
    return [workdir / run.id for run in study.load(workdir)]


def show(result: Result) -> None:
    """Prints the extrapolation tables of one run."""
    from pe_jax.report import sheet, sheets
    from pe_jax.report.study import Study
    from pe_jax.report.table import tables

    every = tables(Study.of([result]))
    stdout().print(*sheet.terminal(sheets.extrapolation(every), brief=True))


def publish(
    results: list[Result],
    out: Path | None,
    choice: Selection | None = None,
    baseline: str | None = None,
    published: Sequence[Sequence[PublishedNumber]] = (),
    missing: Sequence[str] = (),
    again: str = "",
    answer: Sheet | None = None,
) -> None:
    """Prints the first table of each group of comparable runs and, where it is known, their use of
    the headroom; or the `answer` of a pretrained model alone. Writes the report to `out`, with
    sentences on `missing` runs and the command that makes it `again`, and prints the paths.
    """
    from pe_jax.report import page, sheet, sheets, table
    from pe_jax.report.study import HEADROOM

    choice = choice or page.EVERYTHING
    report = page.Report.of(results, choice, baseline, published, missing, answer)
    written = page.write(report, out, [again or cli.command_line()]) if out else []
    console = stdout()
    if answer:
        console.print(*sheet.terminal([answer]))
    else:
        wholes = table.headlines(report.tables)
        wholes += [t for t in report.tables if t.metric == HEADROOM and t not in wholes]
        first = [table.shortened(whole, baseline) for whole in wholes]
        shown = choice.sheets(sheets.extrapolation(first))
        console.print(*sheet.terminal(shown, brief=True))
        for left in filter(None, dict.fromkeys(map(table.left_out, wholes, first))):
            console.print(left)
    if not out:
        console.print("All notes and figures: give --out=DIR, and open DIR/report.html.")
    for path in written:
        print(path)


def missing(standings: Iterable[Standing], results: Iterable[Result]) -> dict[str, str]:
    """Sentences by state, as in "1 of 3 runs not shown, failed: rope: out of memory."."""
    standings = [*standings]
    shown = {result.id for result in results}
    absent: dict[str, list[str]] = {}
    for run in standings:
        if run.state != "finished" and run.id not in shown:
            name = ": ".join(filter(None, [run.label, run.reason]))
            absent.setdefault(run.state, []).append(name)
    sentences = {}
    for state, names in absent.items():
        more = [f"{len(names) - NAMED} more"] * (len(names) > NAMED)
        number = f"{len(names)} of {count(len(standings), 'run')} not shown"
        sentences[state] = f"{number}, {state}: {'; '.join(names[:NAMED] + more)}."
    return sentences


def left_out(damages: Sequence[str]) -> int:
    """Prints the damaged files that a command has left out, and gives its exit code."""
    for damage in damages:
        print(f"{sys.argv[0]}: {damage}", file=sys.stderr)
    return 1 if damages else 0


def natures(run: Any) -> Iterator[str]:
    """A line on each encoding of the user's: the positions that it reads, and the parameters that
    get no gradient.
    """
    from pe_jax.atlas.properties import kind
    from pe_jax.runs.config import members_of
    from pe_jax.specs.parse import parse
    from pe_jax.testing.encodings import without_gradient

    spec, fields = members_of(run.config["pe"])
    words = {"both": "absolute and relative", "order": "no", "moved": "and moves"}
    for i, member in enumerate(parse(spec).with_fields(fields)):
        if ":" in member.name:
            with contextlib.suppress(Exception):  # of the user's code, with models of other sizes
                reads = kind(str(member), run.encodings[i].dims.head).reads
                said = f"{member.name} reads {words.get(reads, reads)} positions"
                if dead := without_gradient(run.encodings[: i + 1]):
                    said += f", gets no gradient for its {', '.join(dead)}"
                yield said
