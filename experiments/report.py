"""Tables, figures and an HTML page from the finished runs of a work directory.

    python -m experiments.report --workdir=DIR [--out=results/NAME]

Reads DIR/*/result.json (or DIR/runs.jsonl), prints the headline table and writes runs.jsonl,
table.md, table.tex, table.csv, curves and positions (.png, .pdf) and report.html.
"""

from __future__ import annotations

from pathlib import Path

from absl import flags

from experiments import cli

_WORKDIR = flags.DEFINE_string("workdir", None, "Folder of the runs, or a results folder.")
_OUT = flags.DEFINE_string("out", None, "Folder to write; default: results/<name of workdir>.")


def main() -> int:
    if not _WORKDIR.value:
        return cli.fail("report", "--workdir=DIR is required: the folder that holds the runs")
    from experiments import console
    from pe_jax import study

    workdir = Path(_WORKDIR.value)
    out = Path(_OUT.value or Path("results", workdir.resolve().name))
    remedy = (
        "make some with `python -m experiments.sweep --config=configs/quickstart.py "
        f"--workdir={workdir}`"
    )
    try:
        console.publish(study.load(workdir, remedy), out)
    except (ValueError, OSError) as error:
        return cli.fail("report", error)
    return 0


if __name__ == "__main__":
    cli.start("report", main)
