"""Two result folders side by side, or the models of one folder against one of them.

    pe-jax compare A B [--out=DIR]
    pe-jax compare A --baseline=rope [--margin=0.01] [--out=DIR]

A and B are results folders (with runs.jsonl) or work directories (with */result.json). Prints the
values, the differences with their intervals and other changes; with a baseline, each model's paired
difference from it, and with a margin which models are equivalent to it. The terminal shows the
first metric, compare.md and compare.csv in --out have all.
"""

from __future__ import annotations

from pe_jax.commands import cli

OPTIONS = cli.Options()
_OUT = OPTIONS.string("out", None, "Folder for compare.md and compare.csv; default: none.")
_BASELINE = OPTIONS.string("baseline", None, "Model of A, or swap, that others are compared with.")
_MARGIN = OPTIONS.number(
    "margin", None, "Difference that does not matter, in the metric's unit.", lower_bound=0
)


def main(a: str, b: str | None = None) -> int:
    from pe_jax.commands import console
    from pe_jax.report import differences, sheet, sheets
    from pe_jax.report.study import Study, load
    from pe_jax.report.table import tables
    from pe_jax.storage import atomic

    baseline, out, margin = _BASELINE.value, console.folder(_OUT.value), _MARGIN.value
    if bool(b) == bool(baseline) or (b and margin is not None):
        raise ValueError(
            "give two folders, A B; or one and --baseline=MODEL, with a --margin or not"
        )
    damages, title = [], ""
    study = Study.of(load(a, warn=damages.append))
    if b:
        other = Study.of(load(b, warn=damages.append))
        every = sheets.comparison(differences.compare(study, other), a, b)
        first, title = every[:1], f"A: {a}, B: {b}"
    else:
        versus = differences.versus(tables(study), baseline, margin)
        every = [*map(sheets.differences, versus)]
        metrics = [each.table.metric for each in versus]
        first = every[: metrics.count(metrics[0])]
    console.stdout().print(*sheet.terminal(first))
    if out:
        texts = {"md": sheet.markdown(every, title), "csv": sheet.csv(every)}
        with atomic.together(out) as draft:
            for kind, text in texts.items():
                atomic.write(draft / f"compare.{kind}", text)
        for kind in texts:
            print(out / f"compare.{kind}")
    return console.left_out(damages)
