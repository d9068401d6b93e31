"""How the runs of a work directory stand: finished, running, queued, stopped, failed.

    pe-jax status --workdir=DIR

Reads the folder alone, so that it can be asked while a sweep goes on, and after it was killed.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from absl import flags

from pe_jax.commands import cli
from pe_jax.engines import status
from pe_jax.report.words import count
from pe_jax.runs import progress

OPTIONS = flags.FlagValues()
_WORKDIR = flags.DEFINE_string("workdir", "runs", "Folder of the runs.", flag_values=OPTIONS)


def main() -> int:
    return show(Path(_WORKDIR.value))


def show(workdir: Path) -> int:
    """Prints the table of a work directory's runs; a folder without runs is a user's mistake."""
    from rich.console import Console

    standings = status.standings(workdir)
    if not standings:
        missing = "" if workdir.is_dir() else ": there is no such folder"
        return cli.fail(
            f"no runs in {str(workdir)!r}{missing}; --workdir=DIR names the folder of a sweep"
        )
    out = Console(width=None if sys.stdout.isatty() else 140, highlight=False, markup=False)
    out.print(_table(standings, wide=out.width > 110))
    numbers = Counter(run.state for run in standings)
    states = ", ".join(f"{n} {state}" for state, n in numbers.items())
    out.print(f"{count(len(standings), 'run')}: {states}", soft_wrap=True)
    for run in standings:
        if run.reason:
            out.print(f"{run.state}: {run.label}: {run.reason}", soft_wrap=True)
    return 0


def _table(standings: list[status.Standing], wide: bool):
    """The runs; where there is little room, the id, which begins as the label does, names them."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for name in (*(["run"] if wide else []), "id", "state", "done"):
        table.add_column(name, overflow="fold")
    for name in ("seeds", "loss", "valid", "time"):
        table.add_column(name, justify="right", no_wrap=True)
    for run in standings:
        row = (
            *([run.label] if wide else []),
            run.id,
            run.state,
            run.done,
            "" if run.seeds is None else str(run.seeds),
            "" if run.loss is None else f"{run.loss:.3f}",
            "" if run.valid is None else f"{run.valid:.3f}",
            "" if run.seconds is None else progress.duration(run.seconds),
        )
        table.add_row(*map(Text, row))
    return table
