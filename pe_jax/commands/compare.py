"""Two result folders side by side: values, differences with their intervals, what else changed.

    pe-jax compare A B [--out=DIR]

A and B are results folders (with runs.jsonl) or work directories (with */result.json). Prints the
first metric; --out writes compare.md and compare.csv with all of them.
"""

from __future__ import annotations

import sys
from pathlib import Path

from absl import flags

from pe_jax.commands import cli

OPERANDS = "A B"
OPTIONS = flags.FlagValues()
_OUT = flags.DEFINE_string(
    "out", None, "Folder for compare.md and compare.csv; default: none.", flag_values=OPTIONS
)


def main(a: str, b: str) -> int:
    from rich.console import Console

    from pe_jax.report import compare, side_by_side, study
    from pe_jax.storage import atomic

    try:
        comparison = compare.compare(study.load(a), study.load(b))
    except (ValueError, OSError) as error:
        return cli.fail(error)
    terminal = Console(width=None if sys.stdout.isatty() else 140, highlight=False, markup=False)
    terminal.print(side_by_side.terminal(comparison, comparison.metrics[0], a, b))
    for metric in comparison.metrics:
        terminal.print(side_by_side.verdict(comparison, metric))
    for note in side_by_side.notes(comparison):
        terminal.print(note)
    if not _OUT.value:
        return 0
    texts = {
        "compare.md": side_by_side.markdown(comparison, a, b),
        "compare.csv": side_by_side.csv(comparison),
    }
    try:
        for name, text in texts.items():
            atomic.write(Path(_OUT.value) / name, text)
            print(Path(_OUT.value) / name)
    except OSError as error:
        return cli.fail(error)
    return 0
