"""Two result folders side by side, or every model of one folder, or swap of its single model,
against one of them.

    pe-jax compare A B [--out=DIR]
    pe-jax compare A --baseline=rope [--margin=0.01] [--out=DIR]

A and B are results folders (with runs.jsonl) or work directories (with */result.json). Prints the
values, the differences with their intervals and what else changed; or, with a baseline, the paired
difference of each model from it at each length, and with a margin which models are equivalent to
it. Prints the first metric; --out writes compare.md and compare.csv with all of them.
"""

from __future__ import annotations

import functools
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from absl import flags

from pe_jax.commands import cli

if TYPE_CHECKING:
    from rich.console import Console

    from pe_jax.record import Result
    from pe_jax.report.compare import Comparison

OPERANDS = "A [B]"
OPTIONS = flags.FlagValues()
string = functools.partial(flags.DEFINE_string, flag_values=OPTIONS)
_OUT = string("out", None, "Folder for compare.md and compare.csv; default: none.")
_BASELINE = string(
    "baseline", None, "Model of A that its others are compared with, or swap of its single model."
)
_MARGIN = flags.DEFINE_float(
    "margin",
    None,
    "Differences from the baseline within it do not matter, in the unit of the metric: a model "
    "that two one-sided tests show to be so close is said to be equivalent.",
    flag_values=OPTIONS,
)


def main(a: str, b: str | None = None) -> int:
    from pe_jax.commands import console
    from pe_jax.report import compare, study

    baseline, out = _BASELINE.value, console.folder(_OUT.value)
    terminal = console.stdout()
    damages, margin = [], _MARGIN.value
    try:
        if margin is not None and not (baseline and 0 < margin < math.inf):
            raise ValueError(
                f"--margin must be a finite number above 0, beside a --baseline, got {margin:g}: "
                f"as in {sys.argv[0]} A --baseline=rope --margin=0.01"
            )
        if b and not baseline:
            results, others = (study.load(folder, warn=damages.append) for folder in (a, b))
            comparison = compare.compare(results, others)
            texts = _side_by_side(terminal, comparison, a, b)
        elif baseline and not b:
            texts = _against(terminal, study.load(a, warn=damages.append), baseline, margin)
        else:
            raise ValueError(
                f"give two folders, {sys.argv[0]} A B, or one and a baseline, "
                f"{sys.argv[0]} A --baseline=rope"
            )
        if out:
            _write(out, texts)
    except (ValueError, OSError) as error:
        return cli.fail(error)
    return console.left_out(damages)


def _side_by_side(terminal: Console, comparison: Comparison, a: str, b: str) -> dict[str, str]:
    """Prints the comparison of two folders by the first metric, and gives the text of the files by
    their suffix.
    """
    from pe_jax.report import compare, sheet

    printed = compare.sheets(comparison, a, b)
    terminal.print(*sheet.terminal(printed[:1]))
    return {"md": sheet.markdown(printed, f"A: {a}, B: {b}"), "csv": sheet.csv(printed)}


def _against(
    terminal: Console, results: list[Result], baseline: str, margin: float | None
) -> dict[str, str]:
    """Prints the models of one folder against its baseline by the first metric, and gives the text
    of the files by their suffix.
    """
    from pe_jax.report import sheet, sheets, tables
    from pe_jax.report.baseline import versus

    comparisons = versus(results, tables.study(results), baseline, margin)
    first = [one for one in comparisons if one.table.metric == comparisons[0].table.metric]
    terminal.print(*sheet.terminal([sheets.differences(one) for one in first]))
    every = [sheets.differences(one) for one in comparisons]
    return {"md": sheet.markdown(every), "csv": sheet.csv(every)}


def _write(out: Path, texts: dict[str, str]) -> None:
    from pe_jax.storage import atomic

    with atomic.together(out) as draft:
        written = [atomic.write(draft / f"compare.{kind}", text) for kind, text in texts.items()]
    for path in written:
        print(out / path.name)
