"""The figure of README.md. Left: seven encodings on text, where a flat line keeps its score. Right:
a task whose answer may be anywhere in the window, where a high line uses all of it.

scripts/readme writes it, docs/extrapolation.png, from results/quickstart and results/retrieval.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pe_jax.record import AS_TRAINED
from pe_jax.report import figures, plane, stats, style
from pe_jax.report.study import Study, load

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs/extrapolation.png"
PANELS = (
    ("quickstart", "same_targets", "Text: who keeps the value of the training length?"),
    ("retrieval", "accuracy", "Retrieval: who uses a longer context?"),
)
AXES = {
    "same_targets": ("bits per byte (lower is better)", (1.8, 5.6)),
    "accuracy": ("tokens found, in % (higher is better)", (-2.0, 102.0)),
}
"""The title and the limits of the y axis."""
LENGTH, TASKS = 64, {"text", "induction"}


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
            shown = plane.Plane(
                x=f"evaluation length in tokens; trained at {LENGTH}",
                y=y,
                unit="{} tokens",
                ticks=plane.doublings(LENGTH, drawn[0].x[0], drawn[0].x[-1]),
                trained=[LENGTH],
            )
            axes.set(xlabel=shown.x, ylabel=shown.y)
            axes.set_title(title, fontsize=9, loc="left")
            plane.fill(axes, drawn, shown, ends)
        handles, names = grid[0].get_legend_handles_labels()
        names = [name.split("\n")[0] for name in names]
        figure.legend(handles, names, loc="outside lower center", ncols=len(names), frameon=False)
    return figure


def lines(name: str, metric: str) -> list[style.Line]:
    """The line of each encoding of a study that is trained at 64 tokens and has the metric."""
    study = Study.of(load(ROOT / "results" / name))
    runs = [
        run
        for run in study.runs.values()
        if run.train.length == LENGTH
        and run.config["task"]["name"] in TASKS
        and (run.id, metric) in study.evaluated
    ]
    points = []
    for run in runs:
        lengths = study.evaluated[run.id, metric].lengths
        scores = [(n, study.scores[run.id, AS_TRAINED, metric, n].values) for n in lengths]
        points.append([(n, *stats.interval([*own.values()])[:2]) for n, own in scores if own])
    return [*figures.lines(runs, points).values()]


def write() -> None:
    """Writes the figure."""
    draw().savefig(PICTURE, dpi=150, metadata={"Software": None})
