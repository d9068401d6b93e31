"""Lines against distance: what is added to the logits, how far the attention goes, classes of
distances, rotations, and moved positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Real

from pe_jax.atlas import by_distance
from pe_jax.atlas.maps import WIDTH, beyond
from pe_jax.atlas.numbers import Numbers
from pe_jax.report.style import COLOURS, STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DASHES = ("-", (0, (5, 1.5)), (0, (2, 1)), (0, (6, 1.5, 1, 1.5)))
EDGE = 0.14  # inches to the right of the last axes


def plane(width: float, height: float, count: int) -> tuple[Figure, list[Axes]]:
    """`count` axes side by side, with room for the labels of each."""
    from matplotlib.figure import Figure

    figure, left, below = Figure((width, height)), 0.58, 0.42
    each = (width - EDGE) / count
    boxes = [
        (
            (i * each + left) / width,
            below / height,
            (each - left) / width,
            (height - below - 0.22) / height,
        )
        for i in range(count)
    ]
    return figure, [figure.add_axes(box) for box in boxes]


def distance(numbers: Numbers) -> Figure:
    """Three panels: what is added to the logit against the distance; the share of the last query's
    attention within each distance; the effective window of each query.
    """
    import matplotlib

    subject = numbers.subject
    with matplotlib.rc_context({**STYLE, "font.size": 7, "lines.linewidth": 1.1}):
        figure, (left, middle, right) = plane(WIDTH, 1.85, 3)
        means = numbers.means
        _heads(left, numbers, means.mean, None if means.of_distance else (means.low, means.high))
        _heads(middle, numbers, 100 * by_distance.nearness(numbers.same.weights))
        windows = by_distance.window(numbers.same.weights)
        _heads(right, numbers, windows, first=1)
        for axes, y in (
            (left, numbers.unit),
            (middle, "attention within it (%)"),
            (right, "keys that hold 90 %"),
        ):
            axes.set_ylabel(y, labelpad=2)
            beyond(axes, subject.length, subject.asked)
        left.set_xlabel("distance (tokens)")
        middle.set_xlabel("distance (tokens)")
        right.set_xlabel("query position (tokens)")
        middle.set_ylim(0, 103)
        right.set_ylim(0, max(1.0, 1.05 * windows.max()))
        middle.axhline(100 * by_distance.SHARE, color="#808080", linewidth=0.6, zorder=0)
        name_lines(figure, left)
    return figure


def name_lines(figure: Figure, axes: Axes) -> None:
    """The legend of the axes, in one row at the top of the figure."""
    handles, names = axes.get_legend_handles_labels()
    figure.legend(
        handles, names, loc="upper center", ncols=5, frameon=False, fontsize=7, borderpad=0
    )


def _heads(
    axes: Axes,
    numbers: Numbers,
    values: Real[np.ndarray, "H T"],
    band: tuple[np.ndarray, np.ndarray] | None = None,
    first: int = 0,
) -> None:
    """A line for each head that is shown; one line where all of them have equal values."""
    x = first + np.arange(values.shape[1])
    level, span = float(np.nanmean(values)), np.ptp(values[np.isfinite(values)])
    if not band and span < 1e-3 * abs(level):  # else what is shown is rounding
        axes.set_ylim(level - 1, level + 1)
    for i, (head, label) in enumerate(told_apart(numbers.heads, values)):
        axes.plot(x, values[head], color=COLOURS[i], linestyle=DASHES[i], label=label)
        if band:
            low, high = band[0][head], band[1][head]
            axes.fill_between(x, low, high, color=COLOURS[i], alpha=0.15, linewidth=0)


def told_apart(heads: Sequence[int], values: np.ndarray) -> list[tuple[int, str]]:
    """(head, label) of each line to draw: one of "all heads" where they have equal values."""
    scale = max(1e-6, float(np.nanmax(np.abs(values), initial=0.0)))
    first = values[heads[0]]
    if all(np.allclose(values[h], first, atol=1e-3 * scale, equal_nan=True) for h in heads):
        return [(heads[0], "all heads")]
    return [(head, f"head {head + 1}") for head in heads]


def classes(numbers: Numbers) -> Figure:
    """The class of each distance, those never seen in training marked."""
    import matplotlib

    assert numbers.classes is not None
    length, found = numbers.subject.length, numbers.classes
    with matplotlib.rc_context({**STYLE, "font.size": 7}):
        figure, (axes,) = plane(WIDTH / 2 + 0.4, 1.9, 1)
        seen = np.isin(found, found[:length])
        for mask, colour, label in (
            (seen, COLOURS[0], "class seen in training"),
            (~seen, COLOURS[1], "class never seen in training"),
        ):
            if mask.any():
                line = np.where(mask, found, np.nan)
                axes.plot(line, color=colour, drawstyle="steps-mid", label=label)
        beyond(axes, length, numbers.subject.asked)
        axes.set_xlabel("distance (tokens)")
        axes.set_ylabel("class of distances (bucket)")
        name_lines(figure, axes)
    return figure


def rotary(numbers: Numbers) -> Figure:
    """Two panels: the wavelength of each pair against the training length; and the angles that a
    pair reaches within the training length and within the longest length.
    """
    import matplotlib
    from matplotlib.ticker import FuncFormatter

    assert numbers.angles is not None
    (near, far), length, most = numbers.angles, numbers.subject.length, numbers.subject.asked
    pairs = 1 + np.arange(len(near))
    with matplotlib.rc_context({**STYLE, "font.size": 7}):
        figure, (left, right) = plane(WIDTH, 2.0, 2)
        for angle, size, tokens, colour in (
            (near, 16.0, length, COLOURS[0]),
            (far, 5.0, most, COLOURS[1]),
        ):
            whole = angle * (length - 1) >= 2 * np.pi
            faces = [colour if turned else "none" for turned in whole]
            waves = 2 * np.pi / angle
            left.scatter(pairs, waves, size, edgecolors=colour, facecolors=faces, linewidths=0.8)
            left.scatter([], [], size, color=colour, label=f"evaluated at {tokens}")
        left.axhline(length, color="#808080", linewidth=0.6)
        style = {"color": "#505050", "fontsize": 6, "ha": "right", "va": "bottom"}
        left.text(len(near), length, "training length", **style)
        left.set(yscale="log", xlabel="pair of components", ylabel="wavelength (tokens)")
        left.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        seen, reached = turns(near, length), turns(far, most)
        right.bar(pairs, seen, 0.8, color=COLOURS[0], label=f"seen within {length}")
        new, label = np.maximum(reached - seen, 0), f"new within {most}"
        right.bar(pairs, new, 0.8, bottom=seen, color=COLOURS[1], label=label)
        right.set(xlabel="pair of components", ylabel="angles (part of a turn)", ylim=(0, 1.02))
        for axes in (left, right):
            axes.tick_params(length=2, pad=1.5)
            axes.legend(
                loc="lower center",
                bbox_to_anchor=(0.5, 1.0),
                ncols=2,
                frameon=False,
                handletextpad=0.3,
                columnspacing=1,
            )
    return figure


def turns(angles: Float[np.ndarray, "P"], length: int) -> Float[np.ndarray, "P"]:
    """The part of a full turn that each pair makes within `length` tokens; at most 1."""
    return np.minimum(1.0, angles * (length - 1) / (2 * np.pi))


def moved(numbers: Numbers) -> Figure:
    """Positions against the place in the sequence."""
    import matplotlib

    assert numbers.moved is not None
    *trained, evaluated = numbers.moved
    with matplotlib.rc_context({**STYLE, "font.size": 7, "lines.linewidth": 1.0}):
        figure, (axes,) = plane(WIDTH / 2 + 0.4, 1.9, 1)
        for i, draw in enumerate(trained):
            label = f"training, {len(trained)} draws" if i == 0 else None
            axes.plot(draw, color=COLOURS[0], alpha=1 - 0.25 * i, label=label)
        axes.plot(evaluated, color=COLOURS[1], linestyle=DASHES[1], label="evaluation")
        beyond(axes, numbers.subject.length, numbers.subject.asked)
        axes.set(xlabel="place in the sequence (tokens)", ylabel="position")
        name_lines(figure, axes)
    return figure
