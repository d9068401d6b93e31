"""Small multiples: a panel for each of many encodings, all with the same axes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pe_jax.report.plane import Plane, fill, limits, mark_cuts
from pe_jax.report.style import STYLE, Line
from pe_jax.report.words import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 0.81, 0.8  # inches of a panel with its name
LEAST = 5.5  # inches of the figure
NAME, GAP = 0.24, 0.08  # inches of the name, and between two panels
LEFT, BELOW = 0.6, 0.42  # inches of the labels of the axes with their ticks
LETTERS, FITTING = 21, 18  # of a name on one line, and how many fit in the usual size
SHOWN = 0.9  # the share of the lines whose means set the ends of y


def draw(lines: Sequence[Line], plane: Plane, width: float) -> Figure:
    """A panel for each line, in the order of the lines, and the same axes in all.

    The ends of y are such that the means of nine in ten lines lie within, so that one encoding that
    fails does not flatten the others; what leaves the axes is marked. `width` is in inches,
    5.5 at least.
    """
    import matplotlib
    from matplotlib.figure import Figure

    width = max(width, LEAST)
    columns = int((width - LEFT) / WIDTH)
    rows = -(-len(lines) // columns)
    with matplotlib.rc_context({**STYLE, "lines.linewidth": 1.0, "lines.markersize": 2}):
        figure = Figure((width, BELOW + HEIGHT * rows))
        panels = _grid(figure, rows, columns)
        ends = limits(_usual(lines), plane)
        if plane.ticks is not None:
            plane = replace(plane, ticks=plane.ticks[::-2][::-1])
        for i, (axes, line) in enumerate(zip(panels, lines, strict=False)):
            fill(axes, [line], plane, ends)
            mark_cuts(figure, axes, [line])
            _set_panel(axes, line, below=i + columns >= len(lines))
        for axes in panels[len(lines) :]:
            axes.set_visible(False)
        middle = (1 + LEFT / width) / 2
        figure.supxlabel(
            plane.x, fontsize=8, x=middle, y=0.05 / figure.get_figheight(), va="bottom"
        )
        figure.supylabel(plane.y, fontsize=8, x=0.05 / width, ha="left", ma="center")
    return figure


def _grid(figure: Figure, rows: int, columns: int) -> list[Axes]:
    """Axes that share both scales, with room of their own inches for names, ticks and labels."""
    width, height = figure.get_size_inches()
    figure.subplots_adjust(
        left=LEFT / width,
        right=1 - 0.08 / width,
        bottom=BELOW / height,
        top=1 - NAME / height,
        wspace=GAP / (WIDTH - GAP),
        hspace=NAME / (HEIGHT - NAME),
    )
    return figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).ravel().tolist()


def _usual(lines: Sequence[Line]) -> list[Line]:
    """The lines without the tenth that goes highest."""
    highest = sorted(lines, key=lambda line: line.mean.max())
    return highest[: int(np.ceil(SHOWN * len(lines)))]


def _set_panel(axes: Axes, line: Line, below: bool) -> None:
    name = wrapped(short(line.label))
    size = min(5.2, 5.2 * FITTING / max(map(len, name.split("\n"))))
    axes.set_title(name, fontsize=size, color=line.look.ink, pad=3.5)
    axes.tick_params(labelsize=5.5, length=2, pad=1.5, labelbottom=below)
    axes.locator_params(axis="y", nbins=4)
    if below and len(ticks := axes.get_xticklabels()) > 1:  # else they run into the next panel's
        ticks[0].set(ha="left")
        ticks[-1].set(ha="right")


def wrapped(name: str) -> str:
    """The name on lines of at most LETTERS letters where it has places to break."""
    lines = [""]
    for part in re.split(r"(?<=[+,(\]])", name):
        if lines[-1] and len(lines[-1] + part) > LETTERS:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)
