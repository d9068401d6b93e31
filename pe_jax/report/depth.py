"""Heat maps of samples: how often a model is right at each length and depth, or what it scores by
the first metric that is drawn by depth, a panel for each encoding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pe_jax.record import AS_TRAINED, Result, Way
from pe_jax.report import labels, panels
from pe_jax.report.cells import curve_metric, described, in_percent
from pe_jax.report.style import STYLE
from pe_jax.report.words import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 4
HEIGHT = 1.15  # inches of a panel with its name
FEW, MANY = 6, 14  # how many lengths have room below a panel: level, and turned upright
TRAINED, CMAP = "#d55e00", "viridis"

Grid = dict[int, tuple[np.ndarray, np.ndarray]]
"""By length, the edges of the bins of depth and the mean over replicas in each; NaN: no value."""


def heat(results: Sequence[Result], width: float) -> Figure | None:
    """The curves of samples of the models as trained, and of a single model with each swap, too: a
    column for each length, depth downwards, and the mean over replicas as colour. Cells without a
    value are hatched, and an upright line stands after the lengths of training.

    `width` is in inches. None where no result has such curves.
    """
    import matplotlib
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

    metric = curve_metric(results, samples=True) or ""
    grids = _grids(results, metric)
    if not grids:
        return None
    lengths = sorted({length for grid in grids.values() for length in grid})
    means = np.concatenate([means for grid in grids.values() for _, means in grid.values()])
    ends = (0, 100) if in_percent(metric) else (0, float(np.nanmax(means)))
    cmap = CMAP if described(metric).better == "higher" else f"{CMAP}_r"  # bright: found
    columns = min(COLUMNS, len(grids))
    rows = math.ceil(len(grids) / columns)
    with matplotlib.rc_context(STYLE):
        width = width if columns > 2 else width * (0.28 + 0.25 * columns)
        figure = Figure((width, HEIGHT * rows + 0.4), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        for i, (axes, (name, own)) in enumerate(zip(grid.ravel(), grids.items(), strict=False)):
            _panel(axes, own, lengths, ends, cmap)
            axes.tick_params(labelbottom=i + columns >= len(grids))  # no panel stands below it
            _mark_training(axes, lengths, results[0].train.length)
            axes.set_title(panels.wrapped(short(name)), fontsize=5.5, pad=3)
        for axes in grid.ravel()[len(grids) :]:
            axes.set_visible(False)
        colours = ScalarMappable(Normalize(*ends), cmap)
        bar = figure.colorbar(colours, ax=grid, shrink=0.9, aspect=25 * rows / 2, pad=0.015)
        bar.set_label("right (in %)" if in_percent(metric) else described(metric).unit)
        bar.outline.set_linewidth(0.6)
        bar.ax.tick_params(labelsize=6.5, length=2)
        figure.supxlabel("evaluation length", fontsize=8)
        figure.supylabel("depth (in %)", fontsize=8)
    return figure


def _grids(results: Sequence[Result], metric: str) -> dict[str, Grid]:
    """The grid of each panel by its name, which of a single model's swap is the swap."""
    names, found = labels.names(results), {}
    for result in results:
        by_sample = any(replica.kind == "sample" for replica in result.replicas(metric))
        ways = dict.fromkeys(curve.way for curve in result.curves if curve.metric == metric)
        for way in ways if by_sample else [AS_TRAINED]:
            if grid := _grid(result, metric, way):
                name = "" if way and len(results) == 1 else names[result.id]
                found[labels.in_way(name, way, result.train)] = grid
    return found


def _grid(result: Result, metric: str, way: Way) -> Grid:
    values: dict[int, dict[float, list[float]]] = {}
    for curve in result.curves:
        if curve.metric == metric and curve.way == way:
            own = values.setdefault(curve.length, {})
            for depth, value in zip(curve.position, curve.value, strict=True):
                kept = own.setdefault(depth, [])
                if value is not None and math.isfinite(value):
                    kept.append(value)
    return {length: _column(own) for length, own in values.items() if any(own.values())}


def _column(values: Mapping[float, Sequence[float]]) -> tuple[np.ndarray, np.ndarray]:
    depths = sorted(values)
    middles = [(a + b) / 2 for a, b in zip(depths, depths[1:], strict=False)]
    means = [np.mean(values[depth]) if values[depth] else math.nan for depth in depths]
    return 100 * np.array([0, *middles, 1]), np.array(means)


def _panel(
    axes: Axes, grid: Grid, lengths: Sequence[int], ends: tuple[float, float], cmap: str
) -> None:
    from matplotlib.colors import Normalize
    from matplotlib.patches import Rectangle

    axes.add_patch(
        Rectangle(
            (0, 0),
            1,
            1,
            transform=axes.transAxes,
            facecolor="#efefef",
            edgecolor="#b0b0b0",
            hatch="/////",
            linewidth=0,
            zorder=0,
        )
    )
    for i, length in enumerate(lengths):
        if length in grid:
            edges, means = grid[length]
            cells = np.ma.masked_invalid(means[:, None])
            norm = Normalize(*ends)
            axes.pcolormesh([i - 0.5, i + 0.5], edges, cells, norm=norm, cmap=cmap, zorder=1)
    ticks = range(0, len(lengths), math.ceil(len(lengths) / MANY))
    turn = 90 if len(lengths) > FEW else 0
    axes.set_xticks(list(ticks), [f"{lengths[i]}" for i in ticks], rotation=turn)
    axes.set(xlim=(-0.5, len(lengths) - 0.5), ylim=(100, 0), yticks=[0, 50, 100])
    axes.tick_params(labelsize=5.5, length=2, pad=2)


def _mark_training(axes: Axes, lengths: Sequence[int], train: int) -> None:
    after = sum(length <= train for length in lengths)
    if 0 < after < len(lengths):
        axes.axvline(after - 0.5, color=TRAINED, linewidth=1.2, zorder=2)
