"""The figure of README.md. Left: seven encodings on text, where a flat line keeps its score. Right:
in-context Markov chains, where each further token is worth bits and a falling line uses it.

scripts/readme writes it, docs/extrapolation.png, from results/quickstart and results/markov.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pe_jax.report import drawing, figures, style
from pe_jax.report.study import Study, load
from pe_jax.report.table import tables

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs/extrapolation.png"
PANELS = (
    ("quickstart", "same_targets", "Text: who keeps the value of the training length?"),
    ("markov", "last_bits", "Markov chains: who uses a longer context?"),
)
AXES = {
    "same_targets": ("bits per byte (lower is better)", (1.8, 5.6)),
    "last_bits": ("bits per token (lower is better)", (2.45, 3.02)),
}
"""The title and the limits of the y axis."""
LENGTH = 64


def draw() -> Any:
    """The figure: a panel for each study, means over seeds with their 95 % intervals, and one
    legend.
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(style.STYLE):
        figure = Figure((8.0, 3.3), layout="constrained")
        grid = figure.subplots(1, 2)
        for axes, (name, metric, title) in zip(grid, PANELS, strict=True):
            drawn, (y, ends) = lines(name, metric), AXES[metric]
            shown = drawing.Plane(
                x=f"evaluation length in tokens; trained at {LENGTH}",
                y=y,
                unit="{} tokens",
                ticks=drawing.doublings(LENGTH, drawn[0].x[0], drawn[0].x[-1]),
                trained=[LENGTH],
            )
            axes.set(xlabel=shown.x, ylabel=shown.y)
            axes.set_title(title, fontsize=9, loc="left")
            drawing.fill(axes, drawn, shown, ends)
        named = [zip(*axes.get_legend_handles_labels(), strict=True) for axes in grid]
        handles = {name.split("\n")[0]: handle for pairs in named for handle, name in pairs}
        place: dict[str, Any] = dict(loc="outside lower center", ncols=6, frameon=False)
        figure.legend(handles.values(), handles.keys(), **place)
    return figure


def lines(name: str, metric: str) -> list[style.Line]:
    """The lines of the single encodings of a study that were trained at 64 tokens, and of methods
    without a model. Shares of the headroom are those of models that have solved this length.
    """
    study = Study.of(load(ROOT / "results" / name))
    (table,) = (
        one for one in tables(study) if one.metric.name == metric and one.train_length == LENGTH
    )
    rows = [row for row in table.rows if row.trained and "+" not in row.label]
    rows = [row for row in rows if row.compared or metric != "headroom"]
    points = [
        [(float(n), cell.mean, cell.half) for n, cell in zip(table.lengths, row.cells, strict=True)]
        for row in rows
    ]
    drawn = figures.lines([study.runs[row.run] for row in rows], points)
    methods = [one for one in figures.reference_lines(table) if one.label.startswith("no model")]
    return [*drawn.values(), *methods]


def write() -> None:
    """Writes the figure."""
    draw().savefig(PICTURE, dpi=150, metadata={"Software": None})
