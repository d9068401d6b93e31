"""The figure of a study of several tasks: a panel for each task."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pe_jax.record import Result
from pe_jax.report import panels, plane, reference_rows
from pe_jax.report.cells import Table, cell, described
from pe_jax.report.overview import Overview, called
from pe_jax.report.plane import Plane
from pe_jax.report.style import STYLE, Line, Look, looks
from pe_jax.report.words import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 16  # encodings with lines of their own
COLUMNS = 3
LEAST = 5.5  # inches of the figure
LETTERS = 34  # of a name in the legend
HEIGHT = 1.35  # inches of a panel with its name
ROW, HANDLE, LETTER = 0.14, 0.5, 0.058  # inches of the legend: a row, a stroke and a letter
GREY = Look("#c8c8c8", "-", "")
PERCENT = (-4.0, 104.0)
CHANCE: dict[str, Any] = dict(color="#808080", linewidth=0.8, linestyle=(0, (1, 2)), zorder=0)


def tasks(results: Sequence[Result], overview: Overview, width: float) -> Figure | None:
    """A panel for each task of the study: the means of the first metric of its table against
    length with their 95 % bands, the training length as an upright line, and as a dotted one what
    the most frequent target of each place scores; of a task whose results lack that, a token
    guessed at random.

    The first 16 encodings of the overview have lines of their own, the others grey ones. `width` is
    in inches, 5.5 at least. None without at least two tasks.
    """
    import matplotlib
    from matplotlib.figure import Figure

    shown = overview.tasks
    if len(shown) < 2:
        return None
    look = colours(results, overview)
    by_id = {result.id: result for result in results}
    width = max(width, LEAST)
    with matplotlib.rc_context({**STYLE, "lines.linewidth": 1.1, "lines.markersize": 2}):
        columns = 2 if len(shown) in (2, 4) else COLUMNS
        rows = math.ceil(len(shown) / columns)
        figure = Figure((width, HEIGHT * rows + 0.25), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False, sharey=True).ravel().tolist()
        for axes, table, name in zip(grid, shown, called(results, shown), strict=False):
            _panel(axes, table, name, look, by_id)
        for i, axes in enumerate(grid):
            axes.set_visible(i < len(shown))
            axes.tick_params(labelsize=6.5, length=2, pad=2)
        units = sorted({described(table.metric).unit for table in shown})
        figure.supxlabel("evaluation length", fontsize=8)
        figure.supylabel("; ".join(units), fontsize=8)
        _legend(figure, look, chance=any(table.metric == "accuracy" for table in shown))
    return figure


def colours(results: Sequence[Result], overview: Overview) -> dict[str, Look]:
    """The look of each encoding that was trained on a task, by its label, in the order of the
    overview: the look of the first of its results, and GREY after the first 16 encodings.
    """
    by_id = {result.id: result for result in results}
    runs: dict[str, Result] = {}
    for table in overview.tasks:
        for row in table.rows:
            if row.trained:
                runs.setdefault(row.label, by_id[row.run])
    found = looks(list(runs.values()))
    order = [label for label, _ in overview.rows if label in runs]
    return {label: found[runs[label].id] if i < MOST else GREY for i, label in enumerate(order)}


def _panel(
    axes: Axes, table: Table, name: str, look: Mapping[str, Look], by_id: Mapping[str, Result]
) -> None:
    lines, train = [], table.train_length
    for row in reversed(table.rows):  # the best are drawn last, above the others
        if row.trained:
            found = [(n, cell(by_id[row.run], table.metric, n)) for n in table.evaluated]
            points = [(n, own.mean, own.half) for n, own in found if own.n]
            if points:
                line = Line.through(points, row.label, look[row.label])
                lines.append(replace(line, bounds=(0.0, 100.0)))
    lines.sort(key=lambda line: line.look is not GREY)
    first, last = table.evaluated[0], table.evaluated[-1]
    log = last >= 4 * first
    shown = Plane(
        x="",
        y="",
        unit="{}",
        base=2 if log else 0,
        ticks=plane.doublings(train, first, last) if log else None,
        trained=[train],
    )
    plane.fill(axes, lines, shown, PERCENT)
    axes.set_title(panels.wrapped(short(name)), fontsize=7.5, pad=3)
    axes.set_yticks([0, 25, 50, 75, 100])
    own = [by_id[row.run] for row in table.rows if row.trained]
    known = [n for result in own if (n := result.train.labels)]
    by_place = reference_rows.NAMES[reference_rows.MOST_FREQUENT]
    for line in reference_rows.task_lines(own, table.metric):
        if line.label == by_place:
            axes.plot(line.x, line.mean, **CHANCE)
            return
    if table.metric == "accuracy" and known:
        axes.axhline(100 / max(known), **CHANCE)


def _legend(figure: Figure, look: Mapping[str, Look], chance: bool) -> None:
    """A legend above the panels, in as many columns as fit; the figure becomes higher by it."""
    from matplotlib.lines import Line2D

    own = {short(name, LETTERS): one for name, one in look.items() if one is not GREY}
    styles: dict[str, dict[str, Any]] = {
        name: dict(color=one.colour, linestyle=one.dash) for name, one in own.items()
    }
    if len(own) < len(look):
        styles[f"{len(look) - len(own)} others"] = dict(color=GREY.colour)
    if chance:
        styles["no model"] = CHANCE
    handles = [Line2D([], [], label=name, **style) for name, style in styles.items()]
    longest = max(map(len, styles))
    columns = max(1, int(figure.get_figwidth() / (HANDLE + LETTER * longest)))
    rows = math.ceil(len(handles) / columns)
    figure.set_figheight(figure.get_figheight() + ROW * rows)
    figure.legend(
        handles=handles,
        loc="outside upper center",
        ncols=columns,
        frameon=False,
        fontsize=7,
        handlelength=2.4,
        columnspacing=1.2,
        labelspacing=0.25,
    )
