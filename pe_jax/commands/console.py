"""What several commands share: bars of runs that go on, tables of results, and checks of flags."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from pe_jax.commands import cli
from pe_jax.report.words import count
from pe_jax.runs import progress

NAMED = 8  # runs that a sentence names
NOTES = 3  # lines of notes below a table

if TYPE_CHECKING:
    from pe_jax.record import Result
    from pe_jax.report.published import PublishedTable
    from pe_jax.report.selection import Selection
    from pe_jax.report.sheet import Sheet
    from pe_jax.runs.folder import Folder
    from pe_jax.sweep.status import Standing


class RunView(progress.RunBar):
    """The view of one run and its folder, with its parameters above the bar."""

    def __init__(self, run: Any, folder: Folder):
        super().__init__(run.label, run.run.seeds, progress.evaluation_share(run), folder.metrics)
        self.run = run

    def begin(self) -> None:
        """Shows the run, once nothing stands in its way."""
        if self.run.train.steps:
            self.console.print(parameter_table(self.run))
            for line in natures(self.run):
                self.say(line)
        super().begin()


def stdout() -> Console:
    """What prints tables, as wide as the terminal, and plain text."""
    return Console(width=cli.columns(), highlight=False, markup=False)


def folder(out: str | None) -> Path | None:
    """The folder that --out names, None where it names none. OSError, before the work and not
    after it, if nothing can be written there.
    """
    if not out:
        return None
    place = next(p for p in (Path(out), *Path(out).parents) if p.exists())
    if not (place.is_dir() and os.access(place, os.W_OK)):
        number = errno.EACCES if place.is_dir() else errno.ENOTDIR
        raise OSError(number, os.strerror(number), str(place))
    return Path(out)


def finished(workdir: Path) -> list[Path]:
    """The folder itself if it is a run's, else the folders of all runs in it that have finished.
    ValueError without any.
    """
    from pe_jax.storage import atomic

    if (workdir / "config.json").exists() or (workdir / "result.json").exists():
        return [workdir]
    found = [path for path in atomic.entries(workdir) if (path / "result.json").exists()]
    if not found:
        raise ValueError(f"no finished run in {str(workdir)!r}: it needs result.json")
    return found


def integer(flag: str, given: object) -> int:
    """One of the integers of a flag that takes several; ValueError for what is none."""
    if not re.fullmatch(r"\s*\d+\s*", str(given)):
        raise ValueError(f"{flag} must be integers with commas between them, got {given!r}")
    return int(str(given))


def show(result: Result) -> None:
    """Prints the extrapolation table of one run by each of its metrics."""
    from pe_jax.report import sheet, sheets
    from pe_jax.report.study import Study
    from pe_jax.report.table import tables

    every = tables(Study.of([result]))
    stdout().print(*sheet.terminal(sheets.extrapolation(every), NOTES))


def publish(
    results: list[Result],
    out: Path | None,
    choice: Selection | None = None,
    baseline: str | None = None,
    published: Sequence[PublishedTable] = (),
    missing: Sequence[str] = (),
    again: str = "",
    answer: Sheet | None = None,
) -> None:
    """Prints the first table of each group of comparable runs, and how much of their headroom the
    models use where that is known; or an `answer` (pretrained/answer.py) alone. With `out`, writes
    the report there (`page.Report.of`), and prints its paths.

    `again` is the command that makes the report, this one by default.
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
        console.print(*sheet.terminal(shown, NOTES))
        for left in filter(None, dict.fromkeys(map(table.left_out, wholes, first))):
            console.print(left)
    if not out:
        console.print("All notes and figures: give --out=DIR, and open DIR/report.html.")
    for path in written:
        print(path)


def missing(standings: Iterable[Standing], results: Iterable[Result]) -> dict[str, str]:
    """Which runs have none of these results, as in "1 of 3 runs has failed and is not shown: rope:
    out of memory.": a sentence for each state, by its name.
    """
    standings, shown = list(standings), {result.id for result in results}
    absent: dict[str, list[str]] = {}
    for run in standings:
        if run.state != "finished" and run.id not in shown:
            name = ": ".join(filter(None, [run.label, run.reason]))
            absent.setdefault(run.state, []).append(name)
    return {state: _missing(state, names, len(standings)) for state, names in absent.items()}


def _missing(state: str, names: list[str], runs: int) -> str:
    are, have = ("is", "has") if len(names) == 1 else ("are", "have")
    verb = have if state in ("failed", "stopped", "not begun") else are
    named = names[:NAMED] + [f"{len(names) - NAMED} more"] * (len(names) > NAMED)
    return (
        f"{len(names)} of {count(runs, 'run')} {verb} {state} and {are} not shown: "
        f"{'; '.join(named)}."
    )


def left_out(damages: Sequence[str]) -> int:
    """Prints what a command has left out because it is damaged, and gives its exit code."""
    for damage in damages:
        print(f"{sys.argv[0]}: {damage}", file=sys.stderr)
    return 1 if damages else 0


def natures(run: Any) -> Iterator[str]:
    """What each encoding of the user's own in a run reads, and what it does not learn."""
    from pe_jax.atlas.facts import kind
    from pe_jax.model.probe import without_gradient
    from pe_jax.runs.config import members_of
    from pe_jax.specs.parse import parse

    spec, fields = members_of(run.config["pe"])
    words = {"both": "absolute and relative", "order": "no", "moved": "and moves"}
    for i, member in enumerate(parse(spec).with_fields(fields)):
        if ":" in member.name:
            dims = run.encodings[i].dims
            said = ["reads no later tokens"] * dims.causal  # else it was refused
            with contextlib.suppress(Exception):  # of the user's code, with models of other sizes
                if dead := without_gradient(run.encodings[: i + 1]):
                    said += [f"gets no gradient for its {', '.join(dead)}"]
                reads = kind(str(member), dims.head).reads
                said = [f"reads {words.get(reads, reads)} positions", *said]
            if said:
                yield f"{member.name} {', '.join(said)}"


def parameter_table(run: Any) -> Table:
    """What one seed learns: name, shape, number."""
    from pe_jax.storage.checkpoints import flat
    from pe_jax.training.step import structure

    table = Table(title=f"{run.label}: parameters of one seed", title_justify="left")
    table.add_column("name")
    table.add_column("shape")
    table.add_column("number", justify="right")
    shapes = flat(structure(run.lm, run.encodings)[1])
    for name, leaf in shapes.items():
        table.add_row(name, " x ".join(map(str, leaf.shape)), f"{leaf.size:,}")
    table.add_section()
    table.add_row("total", "", f"{sum(leaf.size for leaf in shapes.values()):,}")
    return table
