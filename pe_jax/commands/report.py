"""Tables, figures and an HTML page from the finished runs of a work directory.

    pe-jax report --workdir=DIR [--workdir=DIR2 ...] [--out=results/NAME]
                  [--baseline=rope] [--row=LABEL | --row="LABEL as NAME" ...]
                  [--column=1024 ...] [--metric=NAME ...] [--no_notes]
                  [--reference=FILE.csv ...]

Reads DIR/*/result.json (or DIR/runs.jsonl), of several folders as one study, prints the headline
tables and writes runs.jsonl, table.md, table.tex, table.csv, baseline.md, baseline.csv, report.html
and the figures curves, positions, depth, differences, training and rates (.png, .pdf), as far as
the results have what they show. Runs that have failed, or have not finished, are named. A study
of several texts, tasks or trainings has overview.md, overview.tex and overview.csv, and orders.md
and orders.csv where two tables of text share encodings; one of several tasks has the figure tasks.
With published numbers, as in results/reference/, there are published.md and published.csv, too.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from absl import flags

from pe_jax.commands import cli

if TYPE_CHECKING:
    from pe_jax.sweep.status import Standing

OPTIONS = flags.FlagValues()
strings = functools.partial(flags.DEFINE_multi_string, flag_values=OPTIONS)
string = functools.partial(flags.DEFINE_string, flag_values=OPTIONS)
_WORKDIR = strings(
    "workdir",
    [],
    "Folder of the runs, or a results folder; given several times, all make one study.",
)
_OUT = string(
    "out", None, "Folder to write; default: results/<name of workdir>, of the first of several."
)
_BASELINE = string(
    "baseline",
    None,
    "Model that the others are compared with, or swap of a single one; default: rope, else nope, "
    "else the first model.",
)
_ROW = strings(
    "row",
    [],
    'A model to show, as LABEL or "LABEL as NAME"; given several times, in this order. Default: '
    "all models, the best first. runs.jsonl keeps all.",
)
_COLUMN = strings(
    "column",
    [],
    "A column of the tables to show, by its title or the first word of it, as in --column=1024 "
    "--column=gain; may be given several times. Default: all.",
)
_METRIC = strings("metric", [], "A metric to show; may be given several times. Default: all.")
_NO_NOTES = flags.DEFINE_bool(
    "no_notes", False, "Leave out the notes below the tables.", flag_values=OPTIONS
)
_REFERENCE = strings(
    "reference",
    [],
    "A CSV file of published numbers to show beside the scores; may be given several times.",
)


def main() -> int:
    if not _WORKDIR.value:
        return cli.fail("--workdir=DIR is required: the folder that holds the runs")
    from pe_jax.commands import console
    from pe_jax.report import published, study
    from pe_jax.report.selection import Selection

    workdirs = [Path(folder) for folder in _WORKDIR.value]
    out = console.folder(_OUT.value) or Path("results", workdirs[0].resolve().name)
    damages = []
    try:
        references = [published.read(path) for path in _REFERENCE.value]
        remedy = "make some with `pe-jax sweep --config=FILE --workdir={}`"
        results = study.together(workdirs, remedy, damages.append)
        missing = console.missing(_standings(workdirs), results)
        choice = Selection.of(_ROW.value, _METRIC.value, _COLUMN.value, not _NO_NOTES.value)
        sentences = [*missing.values()]
        console.publish(results, out, choice, _BASELINE.value, references, sentences)
    except (ValueError, OSError) as error:
        return cli.fail(error)
    for state, sentence in missing.items():
        if state != "damaged":  # each damaged run has a line of its own
            print(f"{sys.argv[0]}: {sentence}", file=sys.stderr)
    return console.left_out(damages)


def _standings(workdirs: Iterable[Path]) -> Iterator[Standing]:
    """The standing of each run in the folders that hold runs, not a study's results."""
    from pe_jax.sweep import status

    for workdir in workdirs:
        if not (workdir / "runs.jsonl").is_file():
            yield from status.standings(workdir)
