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

from absl import flags

from pe_jax.commands import cli

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
    from pe_jax.report import differences, sheet, sheets
    from pe_jax.report.study import Study, load
    from pe_jax.report.table import tables
    from pe_jax.storage import atomic

    baseline, out, margin = _BASELINE.value, console.folder(_OUT.value), _MARGIN.value
    damages, written, title = [], [], ""
    try:
        if margin is not None and not (baseline and 0 < margin < math.inf):
            raise ValueError(
                f"--margin must be a finite number above 0, beside a --baseline, got {margin:g}: "
                f"as in {sys.argv[0]} A --baseline=rope --margin=0.01"
            )
        if b and not baseline:
            studies = [Study.of(load(folder, warn=damages.append)) for folder in (a, b)]
            every = sheets.comparison(differences.compare(*studies), a, b)
            first, title = every[:1], f"A: {a}, B: {b}"
        elif baseline and not b:
            study = Study.of(load(a, warn=damages.append))
            found = differences.versus(tables(study), baseline, margin)
            every = [*map(sheets.differences, found)]
            first = every[: sum(one.table.metric == found[0].table.metric for one in found)]
        else:
            raise ValueError(
                f"give two folders, {sys.argv[0]} A B, or one and a baseline, "
                f"{sys.argv[0]} A --baseline=rope"
            )
        console.stdout().print(*sheet.terminal(first))
        if out:
            texts = {"md": sheet.markdown(every, title), "csv": sheet.csv(every)}
            with atomic.together(out) as draft:
                for kind, text in texts.items():
                    written.append(out / atomic.write(draft / f"compare.{kind}", text).name)
    except (ValueError, OSError) as error:
        return cli.fail(error)
    for path in written:
        print(path)
    return console.left_out(damages)
