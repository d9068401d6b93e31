"""How the runs of a work directory stand: finished, running, stopped, failed.

    pe-jax status --workdir=DIR

Reads the folder alone, so that it can be asked while a sweep goes on, and after it was killed.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from pe_jax.commands import cli
from pe_jax.report.phrases import count
from pe_jax.runs import progress
from pe_jax.sweep import status

if TYPE_CHECKING:
    from pe_jax.report.sheet import Sheet

LOSS, VALID = "loss (bits)", "valid (bits)"  # per token; per byte of text or token of a task
OPTIONS = cli.Options()
_WORKDIR = OPTIONS.string("workdir", "runs", "Folder of the runs.")


def main() -> int:
    return show(Path(_WORKDIR.value))


def show(workdir: Path) -> int:
    """Prints the table of a work directory's runs; a folder without runs is a user's mistake."""
    from pe_jax.commands.console import stdout
    from pe_jax.report import sheet

    standings = status.standings(workdir)
    if not standings:
        missing = "" if workdir.is_dir() else ": there is no such folder"
        return cli.fail(f"no runs in {str(workdir)!r}{missing}; --workdir=DIR is that of a sweep")
    out = stdout()
    out.print(*sheet.terminal([_table(standings)]))
    numbers = Counter(run.state for run in standings)
    states = ", ".join(f"{n:,} {state}" for state, n in numbers.items())
    out.print(f"{count(len(standings), 'run')}: {states}")
    for run in standings:
        if run.reason:
            out.print(f"{run.state}: {run.label}: {run.reason}")
    return 0


def _table(standings: list[status.Standing]) -> Sheet:
    # A row for each run; its id is the name of its folder
    from pe_jax.report.sheet import Printed, Sheet

    columns = ("id", "run", "state", "done", "seeds", LOSS, VALID, "time")
    rows = []
    for run in standings:
        row = (
            run.id,
            run.label,
            run.state,
            run.done,
            "" if run.seeds is None else str(run.seeds),
            "" if run.loss is None else f"{progress.NAT * run.loss:.3f}",
            "" if run.valid is None else f"{run.valid:.3f}",
            "" if run.seconds is None else progress.duration(run.seconds),
        )
        rows.append(tuple(map(Printed, row)))
    return Sheet("", columns, (("", tuple(rows)),), spare=("run", "seeds", VALID, LOSS))
