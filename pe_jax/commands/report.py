"""Tables, figures and an HTML page from the finished runs of a work directory.

    pe-jax report --workdir=DIR [--workdir=DIR2 ...] [--out=results/NAME]
                  [--baseline=rope] [--row=LABEL | --row="LABEL as NAME" ...]
                  [--column=1024 ...] [--metric=NAME ...] [--no_notes]
                  [--reference=FILE.csv ...]

Reads DIR/*/result.json (or DIR/runs.jsonl), of several folders as one study. Prints the headline
tables, names runs that have failed or not finished, and writes runs.jsonl, tables, figures and
report.html; docs/runs.md describes each file.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pe_jax.commands import cli

OPTIONS = cli.Options()
_WORKDIR = OPTIONS.strings(
    "workdir", None, "Folder of the runs, or a results folder.", required=True
)
_OUT = OPTIONS.string("out", None, "Folder to write; default: results/<name of workdir>.")
_BASELINE = OPTIONS.string(
    "baseline", None, "Model or swap that others are compared with; default: rope, nope, the first."
)
_ROW = OPTIONS.strings("row", [], 'Models to show, in this order, as LABEL or "LABEL as NAME".')
_COLUMN = OPTIONS.strings(
    "column", [], "Columns to show, by their first word, as in --column=1024."
)
_METRIC = OPTIONS.strings("metric", [], "A metric to show; default: all.")
_NO_NOTES = OPTIONS.boolean("no_notes", False, "Leave out the notes below the tables.")
_REFERENCE = OPTIONS.strings("reference", [], "CSV file of published numbers to show.")


def main() -> int:
    from pe_jax.commands import console
    from pe_jax.report import published, study
    from pe_jax.report.selection import Selection
    from pe_jax.sweep import status

    workdirs = [Path(folder) for folder in _WORKDIR.value]
    out = console.folder(_OUT.value) or Path("results", workdirs[0].resolve().name)
    damages = []
    references = [published.read(path) for path in _REFERENCE.value]
    remedy = "make some with `pe-jax sweep --config=FILE --workdir={}`"
    results = study.load(*workdirs, remedy=remedy, warn=damages.append)
    of_runs = [folder for folder in workdirs if any(folder.glob("*/result.json"))]
    if (damages or of_runs or workdirs[1:]) and out.resolve() in map(Path.resolve, workdirs):
        raise ValueError(f"--out={out} has the records that are read: name another folder")
    standings = [run for folder in of_runs for run in status.standings(folder)]
    missing = console.missing(standings, results)
    choice = Selection.of(_ROW.value, _METRIC.value, _COLUMN.value, not _NO_NOTES.value)
    console.publish(results, out, choice, _BASELINE.value, references, [*missing.values()])
    for state, sentence in missing.items():
        if state != "damaged":  # each damaged run has a line of its own
            print(f"{sys.argv[0]}: {sentence}", file=sys.stderr)
    return console.left_out(damages)
