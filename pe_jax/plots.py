"""Figures for a paper and for the report: loss against evaluation length, loss against position.

Made with matplotlib's object interface (no pyplot, no global state). A file has the same bytes
each time it is written from the same records.
"""

from __future__ import annotations

import io
import logging
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pe_jax import labels, tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

Record = dict[str, Any]

# Okabe and Ito's colours without yellow, which is too faint for lines and labels on white.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
DASHES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)))
STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.4,
    "lines.markersize": 3,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "pe_jax",
}
LABEL = 0.15  # inches from one label to the next
INDENT = 0.15  # inches from the axes to the labels
MOST = 16  # curves in one plane


@dataclass(frozen=True)
class Line:
    """One encoding's means over seeds, the half widths of their intervals, and its style."""

    label: str
    x: np.ndarray
    mean: np.ndarray
    half: np.ndarray
    colour: str
    dash: Any


def curves(
    records: Sequence[Record], metric: str = "same_targets", width: float = 5.5
) -> Figure | None:
    """Bits per byte against evaluation length: a line an encoding with its 95 % band over seeds.

    `width` in inches: 5.5 is the text width of most single-column papers. The label of an encoding
    that cannot be evaluated further says where it ends. More than 16 encodings are a row each
    (dots.py). None when no value was computed.
    """
    lengths = sorted({r["length"] for rec in records for r in rec["rows"] if r["metric"] == metric})
    points = []
    for record in records:
        cells = [(length, tables.cell(record, metric, length)) for length in lengths]
        points.append([(length, c.mean, c.half) for length, c in cells if c.n])
    axes_labels = ("evaluation length (tokens)", f"bits per byte, {metric.replace('_', ' ')}")
    lines = _lines(records, points)
    if len(lines) > MOST:
        return _dots(lines, records, axes_labels[1], width)
    return _draw(lines, records, lengths, axes_labels, width, marker="o")


def positions(records: Sequence[Record], width: float = 5.5) -> Figure | None:
    """Bits per byte against the position in a window of the longest length, mean over seeds.

    Encodings without a curve at that length are left out, and of more than 16 those that end
    highest; None when no record has one.
    """
    found = [[c for c in r.get("curves", ()) if not c.get("swap")] for r in records]
    longest = max((curve["length"] for curves in found for curve in curves), default=1)
    points = [_mean_curve([c for c in curves if c["length"] == longest]) for curves in found]
    ticks = [4**power for power in range(int(np.log2(longest)) // 2 + 1)]
    drawn = [i for i, found in enumerate(points) if found]
    lowest = sorted(sorted(drawn, key=lambda i: points[i][-1][1])[:MOST])
    lines = _lines([records[i] for i in lowest], [points[i] for i in lowest])
    which = f"; the {MOST} that end lowest of {len(drawn)}" if len(drawn) > MOST else ""
    axes_labels = (f"position in a window of {longest} tokens{which}", "bits per byte")
    return _draw(lines, records, ticks, axes_labels, width)


def _dots(lines: Sequence[Line], records: Sequence[Record], name: str, width: float) -> Figure:
    import matplotlib

    from pe_jax.dots import dots

    with matplotlib.rc_context(STYLE):
        return dots(lines, {record["train"]["length"] for record in records}, name, width)


def _mean_curve(curves: Sequence[Record]) -> list[tuple[float, float, float]]:
    if not curves:
        return []
    mean = np.ma.masked_invalid([np.array(c["value"], float) for c in curves]).mean(axis=0)
    pairs = zip(curves[0]["position"], mean.filled(np.nan).tolist(), strict=True)
    return [(float(x), y, 0.0) for x, y in pairs if not math.isnan(y)]


def _lines(records: Sequence[Record], points: Sequence[list]) -> list[Line]:
    names = labels.names(records)
    lines = []
    for i, (record, found) in enumerate(zip(records, points, strict=True)):
        if found:
            x, mean, half = np.array(found, float).T
            style = COLOURS[i % len(COLOURS)], DASHES[i // len(COLOURS) % len(DASHES)]
            lines.append(Line(names[record["id"]], x, mean, half, *style))
    return lines


def _draw(
    lines: Sequence[Line],
    records: Sequence[Record],
    ticks: Sequence[int],
    axes_labels: tuple[str, str],
    width: float,
    marker: str = "",
) -> Figure | None:
    import matplotlib
    from matplotlib.figure import Figure

    if not lines:
        return None
    with matplotlib.rc_context(STYLE):
        height = max(0.58 * width, 0.8 + LABEL * len(lines))
        figure = Figure((width, height))
        axes = figure.add_subplot()
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, [f"{tick}" for tick in ticks])
        axes.set_xticks([], minor=True)
        axes.set(xlabel=axes_labels[0], ylabel=axes_labels[1])
        for line in lines:
            axes.plot(line.x, line.mean, color=line.colour, linestyle=line.dash, marker=marker)
        # The means set the scale: an interval of two seeds may be huge.
        axes.set(xlim=axes.get_xlim(), ylim=axes.get_ylim())
        for line in lines:
            low, high = line.mean - line.half, line.mean + line.half
            axes.fill_between(line.x, low, high, color=line.colour, alpha=0.15, linewidth=0)
        for length in {record["train"]["length"] for record in records}:
            _mark_training(axes, length)
        _label_ends(figure, axes, lines)
    return figure


def _mark_training(axes: Axes, length: int) -> None:
    axes.axvline(length, color="#808080", linewidth=0.6, zorder=0)
    axes.annotate(
        f"trained at {length}",
        (length, 1),
        xycoords=("data", "axes fraction"),
        xytext=(0, 2),
        textcoords="offset points",
        color="#606060",
        fontsize=7,
    )


def _label_ends(figure: Figure, axes: Axes, lines: Sequence[Line]) -> None:
    """Write each line's name right of the axes, as near to its end as the other names allow."""
    from scipy.optimize import isotonic_regression

    right = max(line.x[-1] for line in lines)
    order = sorted(lines, key=lambda line: line.mean[-1])
    labels = [_label(axes, line, right) for line in order]
    room = max(label.get_window_extent().width for label in labels) / figure.bbox.width
    room += INDENT / figure.get_figwidth()
    figure.set_layout_engine("constrained", rect=(0, 0, 1 - room, 1))
    figure.draw_without_rendering()
    ends = axes.transData.transform([(line.x[-1], line.mean[-1]) for line in order])
    wanted = axes.transAxes.inverted().transform(ends)[:, 1]
    box = axes.get_window_extent()
    steps = LABEL * figure.dpi / box.height * np.arange(len(order))
    placed = np.clip(isotonic_regression(wanted - steps).x, 0, max(0, 1 - steps[-1])) + steps
    for label, height in zip(labels, placed, strict=True):
        label.set_position((1 + INDENT * figure.dpi / box.width, height))
    figure.patch.set_in_layout(True)  # a tight box, such as Jupyter's, is the whole figure


def _label(axes: Axes, line: Line, right: float) -> Text:
    """A line's name, with a stroke from the line's end when that is at the right of the axes."""
    reaches = line.x[-1] == right
    from matplotlib.colors import to_rgb

    stroke = dict(arrowstyle="-", color=line.colour, linewidth=0.6, relpos=(0, 0.5), patchA=None)
    label = axes.annotate(
        line.label + ("" if reaches else f" (to {line.x[-1]:g})"),
        (line.x[-1], line.mean[-1]),
        xytext=(1, 0),
        textcoords="axes fraction",
        va="center",
        color=[0.75 * channel for channel in to_rgb(line.colour)],
        annotation_clip=False,
        arrowprops=stroke if reaches else None,
    )
    label.set_in_layout(False)
    return label


def save(figure: Figure, path: Path) -> list[Path]:
    """Write `path` with the suffixes .png (200 dots an inch) and .pdf, each in one step."""
    import matplotlib

    logging.getLogger("fontTools").setLevel(logging.WARNING)  # it tells of every glyph at INFO
    written = []
    metadata = {"png": {"Software": None}, "pdf": {"CreationDate": None, "ModDate": None}}
    for kind, facts in metadata.items():
        target = Path(f"{path}.{kind}")
        part = target.with_name(f".{target.name}.{os.getpid()}")
        with matplotlib.rc_context(STYLE):
            figure.savefig(part, format=kind, dpi=200, metadata=facts)
        os.replace(part, target)
        written.append(target)
    return written


def svg(figure: Figure) -> str:
    """The figure as an <svg> element for an HTML page, without outside references."""
    import matplotlib

    text = io.StringIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(text, format="svg", metadata={"Date": None})
    element = text.getvalue()[text.getvalue().index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>| xmlns(:\w+)?=\"[^\"]*\"", "", element, flags=re.S)
    element = re.sub(r'<g id="[\w.]+_\d+">', "<g>", element).replace("xlink:href", "href")
    return element.replace("'DejaVu Sans'", "'DejaVu Sans', system-ui, sans-serif")
