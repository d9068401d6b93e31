"""The figures of an atlas: lines against distance (what is added to the logits, how far the
attention goes, classes of distances, rotations, moved positions), heat maps of queries and keys,
and an overview of a dozen encodings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int, Real

from pe_jax.atlas import by_distance
from pe_jax.atlas.numbers import Numbers
from pe_jax.atlas.subject import Subject
from pe_jax.report.plane import align_ends
from pe_jax.report.style import COLOURS, STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 5.5
"""Inches of a figure: the text width of most single-column papers."""
DASHES = ("-", (0, (5, 1.5)), (0, (2, 1)), (0, (6, 1.5, 1, 1.5)))
UNSEEN = "#ececec"  # the shade of what training never shows
GUIDE: dict[str, Any] = {"color": "#808080", "linewidth": 0.6}
LEGEND: dict[str, Any] = {"loc": "upper center", "frameon": False, "fontsize": 7}
QUERY, KEY = "query position (tokens)", "key position (tokens)"


# Lines against distance or position


def distance(numbers: Numbers) -> Figure:
    """Three panels: what is added to the logit against the distance; the share of the last query's
    attention within each distance; the effective window of each query.
    """
    with styled(line=1.1):
        figure, (left, middle, right) = plane(WIDTH, 1.85, 3)
        _draw_added(left, numbers)
        means = numbers.means
        level, span = float(np.nanmean(means.mean)), np.ptp(means.mean[np.isfinite(means.mean)])
        if means.of_distance and span < 1e-3 * abs(level):  # else rounding is shown
            left.set_ylim(level - 1, level + 1)
        _draw_heads(middle, numbers, 100 * by_distance.nearness(numbers.same.weights))
        windows = by_distance.window(numbers.same.weights)
        _draw_heads(right, numbers, windows, first=1)
        for axes, x, y in (
            (left, "distance (tokens)", numbers.same.unit),
            (middle, "distance (tokens)", "attention within it (%)"),
            (right, QUERY, "keys that hold 90 %"),
        ):
            axes.set_xlabel(x)
            axes.set_ylabel(y, labelpad=2)
            _shade_beyond(axes, numbers.subject)
        middle.set_ylim(0, 103)
        right.set_ylim(0, max(1.0, 1.05 * windows.max()))
        middle.axhline(100 * by_distance.SHARE, zorder=0, **GUIDE)
        name_lines(figure, left)
    return figure


def classes(subject: Subject, found: Int[np.ndarray, "N"]) -> Figure:
    """The class of each distance, those never seen in training marked."""
    with styled():
        figure, (axes,) = plane(WIDTH / 2 + 0.4, 1.9, 1)
        seen = np.isin(found, found[: subject.length])
        for mask, colour, label in (
            (seen, COLOURS[0], "class seen in training"),
            (~seen, COLOURS[1], "class never seen in training"),
        ):
            if mask.any():
                line = np.where(mask, found, np.nan)
                axes.plot(line, color=colour, drawstyle="steps-mid", label=label)
        _shade_beyond(axes, subject)
        axes.set(xlabel="distance (tokens)", ylabel="class of distances (bucket)")
        name_lines(figure, axes)
    return figure


def rotary(subject: Subject, near: Float[np.ndarray, "P"], far: Float[np.ndarray, "P"]) -> Figure:
    """Two panels: the wavelength of each pair against the training length; and the angles that a
    pair reaches within the training length and within the longest length. `near` and `far` are
    the angles from one position to the next at these two lengths.
    """
    from matplotlib.ticker import FuncFormatter

    length, most, pairs = subject.length, subject.asked, 1 + np.arange(len(near))
    with styled():
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
        left.axhline(length, **GUIDE)
        style = {"color": "#505050", "fontsize": 6, "ha": "right", "va": "bottom"}
        left.text(len(near), length, "training length", **style)
        left.set(yscale="log", xlabel="pair of components", ylabel="wavelength (tokens)")
        left.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        seen, reached = _turns(near, length), _turns(far, most)
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


def _turns(angles: Float[np.ndarray, "P"], length: int) -> Float[np.ndarray, "P"]:
    """The part of a full turn that each pair makes within `length` tokens; at most 1."""
    return np.minimum(1.0, angles * (length - 1) / (2 * np.pi))


def moved(subject: Subject, positions: Sequence[Float[np.ndarray, "_"]]) -> Figure:
    """Positions against the place in the sequence: the draws of training, last those of
    evaluation.
    """
    *trained, evaluated = positions
    with styled(line=1.0):
        figure, (axes,) = plane(WIDTH / 2 + 0.4, 1.9, 1)
        for i, draw in enumerate(trained):
            label = f"training, {len(trained)} draws" if i == 0 else None
            axes.plot(draw, color=COLOURS[0], alpha=1 - 0.25 * i, label=label)
        axes.plot(evaluated, color=COLOURS[1], linestyle=DASHES[1], label="evaluation")
        _shade_beyond(axes, subject)
        axes.set(xlabel="place in the sequence (tokens)", ylabel="position")
        name_lines(figure, axes)
    return figure


# Heat maps: a value of each query and key


def logits(numbers: Numbers) -> Figure:
    """What is added to the logits of each query and key: a row of panels for constant content,
    where it shows anything, and one for random content, where the numbers have it.
    """
    rows = [("every token alike", numbers.same.effect)] if numbers.same.acts else []
    if numbers.random is not None:
        rows.append(("random content", numbers.random.effect))
    return _rows_of_maps(numbers, rows, numbers.same.unit)


def vectors(subject: Subject, found: Float[np.ndarray, "T D"]) -> Figure:
    """The dot products of the position vectors: of every two positions, and against distance."""
    from matplotlib.figure import Figure

    dots = found @ found.T
    width, high = 0.78 * WIDTH, 2.15
    earlier = np.where(np.tri(len(dots), dtype=bool), dots, np.nan)[None]
    mean, lowest, highest = (rows[0] for rows in by_distance.means(earlier))
    with styled(line=1.1):
        figure = Figure((width, high))
        left = figure.add_axes((0.6 / width, 0.66 / high, 1.4 / width, 1.4 / high))
        right = figure.add_axes((2.65 / width, 0.66 / high, 1.4 / width, 1.4 / high))
        bar = (0.6 / width, 0.27 / high, 1.4 / width, 0.06 / high)
        _draw_map(figure, left, dots, subject, bar)
        left.set_ylabel("position (tokens)")
        figure.text(1.3 / width, 0.42 / high, "position (tokens)", ha="center", va="center")
        figure.text(1.3 / width, 0.06 / high, "dot product", ha="center", va="center")
        draw_line(right, 0, np.arange(len(mean)), mean, (lowest, highest))
        right.set(xlabel="distance of two positions", ylabel="dot product")
        _shade_beyond(right, subject)
    return figure


def _rows_of_maps(
    numbers: Numbers, rows: Sequence[tuple[str, Float[np.ndarray, "H T T"]]], what: str
) -> Figure:
    """A row of maps, one a head, for each (name, values). `what` names the values."""
    from matplotlib.figure import Figure

    heads = numbers.heads
    left, gap, below, above = 0.62, 0.16, 0.66, 0.22
    size = (WIDTH - left - 0.08) / max(len(heads), 4) - gap
    tall = size + below + above
    high = tall * len(rows)
    with styled():
        figure = Figure((WIDTH, high))
        for r, (name, values) in enumerate(rows):
            y = tall * (len(rows) - 1 - r) + below
            for c, head in enumerate(heads):
                x = left + c * (size + gap)
                axes = figure.add_axes((x / WIDTH, y / high, size / WIDTH, size / high))
                bar = (x / WIDTH, (y - 0.4) / high, size / WIDTH, 0.06 / high)
                _draw_map(figure, axes, values[head], numbers.subject, bar, left=c == 0)
                axes.set_title(f"head {head + 1}", fontsize=7, pad=3)
                if c == 0:
                    axes.set_ylabel(f"query position\n({name if len(rows) > 1 else 'tokens'})")
            middle = (left + 0.5 * (len(heads) * (size + gap) - gap)) / WIDTH
            for text, down in ((KEY, 0.25), (what, 0.6)):
                figure.text(middle, (y - down) / high, text, ha="center", va="center")
    return figure


# Overview: what a dozen encodings add to the logits, against distance and as maps


DOZEN = "learned sinusoidal rope pi yarn rerope xpos alibi kerple_log sandwich fire t5".split()
COLUMNS = 4
HEAD = 1
"""The head of the maps, counted from 0, where the model has so many."""


def dozen(of_all: Sequence[Numbers]) -> list[Numbers]:
    """At most twelve that change the logits: those of DOZEN first."""
    named = {numbers.subject.name: numbers for numbers in of_all if numbers.same.acts}
    first = [named.pop(name) for name in DOZEN if name in named]
    return (first + list(named.values()))[: len(DOZEN)]


def distances(of_all: Sequence[Numbers]) -> Figure:
    """A panel an encoding: what is added to the logit against the distance, a line a head."""
    with styled(line=1.0):
        figure, every = _axes_of_encodings(len(of_all), 0.48, 1.06, 0.34, 0.26, 0.42)
        for i, (axes, numbers) in enumerate(zip(every, of_all, strict=True)):
            drawn = _draw_added(axes, numbers)
            _shade_beyond(axes, numbers.subject)
            axes.set_xticks([0, numbers.subject.length, numbers.subject.asked])
            axes.locator_params(axis="y", nbins=4)
            lowest = i + COLUMNS >= len(of_all)
            axes.tick_params(labelsize=6, labelbottom=lowest)
            if lowest:
                align_ends(axes)
            _name_encoding(axes, numbers, " (all heads)" if drawn == 1 else "")
        _name_heads(figure, max(len(numbers.heads) for numbers in of_all))
        _name_axes(figure, "distance of the key from its query (tokens)", "added to the logit")
    return figure


def maps(of_all: Sequence[Numbers]) -> Figure:
    """A panel an encoding: what is added to the logit of each query and key, in one head."""
    with styled():
        figure, every = _axes_of_encodings(len(of_all), 0.46, 1.06, 0.16, 0.44, 0.22)
        height = figure.get_figheight()
        for i, (axes, numbers) in enumerate(zip(every, of_all, strict=True)):
            head, box = min(HEAD, numbers.subject.dims.heads - 1), axes.get_position()
            bar = (box.x0, box.y0 - 0.13 / height, box.width, 0.05 / height)
            effect, left = numbers.same.effect[head], i % COLUMNS == 0
            _draw_map(figure, axes, effect, numbers.subject, bar, left)
            axes.set_xticklabels([])
            _name_encoding(axes, numbers)
        _name_axes(figure, KEY, QUERY)
    return figure


def _axes_of_encodings(
    count: int, left: float, tall: float, gap: float, between: float, above: float
) -> tuple[Figure, list[Axes]]:
    """`count` axes in rows of COLUMNS. In inches: left of them, the height of each, between two of
    a row, between two rows, above them.
    """
    from matplotlib.figure import Figure

    rows, below = math.ceil(count / COLUMNS), 0.44
    height = above + rows * (tall + between) - between + below
    figure = Figure((WIDTH, height))
    wide = (WIDTH - left - 0.08 + gap) / COLUMNS - gap
    every = []
    for i in range(count):
        row, column = divmod(i, COLUMNS)
        x, y = left + column * (wide + gap), height - above - tall - row * (tall + between)
        every.append(figure.add_axes((x / WIDTH, y / height, wide / WIDTH, tall / height)))
    return figure, every


def _name_encoding(axes: Axes, numbers: Numbers, more: str = "") -> None:
    title = numbers.subject.name + more
    axes.set_title(title, fontsize=min(7, 7 * 24 / len(title)), pad=3)


def _name_heads(figure: Figure, heads: int) -> None:
    """The lines of the heads, and the shade of what training never shows, above all panels."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    lines = [Line2D([], [], color=COLOURS[i], linestyle=DASHES[i]) for i in range(heads)]
    names = [f"head {i + 1}" for i in range(heads)]
    figure.legend(
        [*lines, Patch(color=UNSEEN)],
        [*names, "distances never seen in training"],
        ncols=heads + 1,
        handlelength=2.4,
        columnspacing=1.2,
        borderpad=0.1,
        **LEGEND,
    )


def _name_axes(figure: Figure, x: str, y: str) -> None:
    height = figure.get_figheight()
    figure.text(0.54, 0.05 / height, x, ha="center", va="bottom")
    figure.text(0.03 / WIDTH, 0.53, y, rotation=90, ha="left", va="center")


# Lines, and what stands around them


def plane(width: float, height: float, count: int) -> tuple[Figure, list[Axes]]:
    """`count` axes side by side, with room for the labels of each."""
    from matplotlib.figure import Figure

    figure, left, below, right = Figure((width, height)), 0.58, 0.42, 0.14
    each = (width - right) / count
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


def name_lines(figure: Figure, axes: Axes) -> None:
    """The legend of the axes, in one row at the top of the figure."""
    figure.legend(*axes.get_legend_handles_labels(), ncols=5, borderpad=0, **LEGEND)


def styled(line: float = STYLE["lines.linewidth"]) -> AbstractContextManager[None]:
    """The style of all figures of an atlas, with lines of this width."""
    import matplotlib

    return matplotlib.rc_context({**STYLE, "font.size": 7, "lines.linewidth": line})


def _draw_added(axes: Axes, numbers: Numbers) -> int:
    """What is added to the logit against the distance; how many lines that are."""
    means = numbers.means
    return _draw_heads(
        axes, numbers, means.mean, None if means.of_distance else (means.low, means.high)
    )


def _draw_heads(
    axes: Axes,
    numbers: Numbers,
    values: Real[np.ndarray, "H T"],
    band: tuple[np.ndarray, np.ndarray] | None = None,
    first: int = 0,
) -> int:
    """A line for each head that is shown, from x = `first` on; one line where all of them have
    equal values. Returns how many lines there are.
    """
    x = first + np.arange(values.shape[1])
    found = _told_apart(numbers.heads, values)
    for i, (head, label) in enumerate(found):
        own = (band[0][head], band[1][head]) if band else None
        draw_line(axes, i, x, values[head], own, label)
    return len(found)


def _told_apart(heads: Sequence[int], values: np.ndarray) -> list[tuple[int, str]]:
    """(head, label) of each line to draw: one of "all heads" where they have equal values."""
    scale = max(1e-6, float(np.nanmax(np.abs(values), initial=0.0)))
    first = values[heads[0]]
    if all(np.allclose(values[h], first, atol=1e-3 * scale, equal_nan=True) for h in heads):
        return [(heads[0], "all heads")]
    return [(head, f"head {head + 1}") for head in heads]


def draw_line(
    axes: Axes,
    i: int,
    x: np.ndarray,
    y: np.ndarray,
    band: tuple[np.ndarray, np.ndarray] | None = None,
    label: str | None = None,
    marker: str = "",
) -> None:
    """A line in the look number i, with its band from the lowest to the highest values."""
    axes.plot(x, y, color=COLOURS[i], linestyle=DASHES[i], marker=marker, label=label)
    if band:
        axes.fill_between(x, *band, color=COLOURS[i], alpha=0.15, linewidth=0)


def _shade_beyond(axes: Axes, subject: Subject) -> None:
    """The x axis to the longest length, with what training never shows shaded."""
    length, most = subject.length, subject.asked
    axes.set_xlim(0, most)
    axes.axvspan(length, most, color=UNSEEN, zorder=-1, linewidth=0)
    axes.axvline(length, zorder=0, **GUIDE)
    axes.set_xticks([0, length, 2 * length, most])
    axes.tick_params(length=2, pad=1.5)


# One heat map


def _draw_map(
    figure: Figure,
    axes: Axes,
    values: Float[np.ndarray, "T T"],
    subject: Subject,
    bar: tuple[float, float, float, float],
    left: bool = True,
) -> None:
    """The values of every query and key as colours, queries downwards, with a colour bar in the box
    `bar` of the figure. The training length is drawn as lines; what no position serves is grey, and
    what a query does not see is white. Queries have numbers if the map stands at the `left`.
    """
    from matplotlib.patches import Polygon

    length, served, most = subject.length, len(values), subject.asked
    colours, low, high = _palette(values)
    axes.set_facecolor("#ffffff")
    image = axes.imshow(
        np.ma.masked_invalid(values),
        cmap=colours,
        vmin=low,
        vmax=high,
        extent=(0, served, served, 0),
        interpolation="none",
        aspect="auto",
    )
    axes.set(xlim=(0, most), ylim=(most, 0))
    if served < most:
        corners = [(0, served), (served, served), (most, most), (0, most)]
        if np.isfinite(values[0, -1]):  # later keys are seen, too
            corners[2:2] = [(served, 0), (most, 0)]
        axes.add_patch(Polygon(corners, facecolor="#e3e3e3", linewidth=0))
    for line in (axes.axvline, axes.axhline):
        line(length, color="#ffffff", linewidth=1.0, alpha=0.6)
        line(length, color="#202020", linewidth=0.6, linestyle=(0, (4, 2)))
    places = [0, length, most]
    axes.set_xticks(places, map(str, places))
    axes.set_yticks(places, map(str, places) if left else [""] * 3)
    axes.tick_params(length=2, pad=1.5, labelsize=6)
    align_ends(axes)
    axes.spines[["top", "right"]].set_visible(True)
    _add_colour_bar(figure, image, figure.add_axes(bar))


def _palette(values: np.ndarray) -> tuple[str, float, float]:
    """A map of colours and its ends, between which all values lie but half a per cent at each end:
    dark for what is far from 0 where nearly all values have one sign, else to both sides of 0. Both
    are told apart by the colour-blind.
    """
    finite = values[np.isfinite(values)]
    low, high = map(float, np.percentile(finite, [0.5, 99.5])) if finite.size else (0.0, 0.0)
    most = max(abs(low), abs(high), 1e-6)
    flat = high - low < 0.02 * most
    if high <= 0.02 * most:
        return "cividis", min(low, -1e-6), 0.0 if flat else high
    if low >= -0.02 * most:
        return "cividis_r", 0.0 if flat else low, most
    return "RdBu_r", -most, most


def _add_colour_bar(figure: Figure, image: Any, axes: Axes) -> None:
    """The colour bar of an image, in `axes`, with ticks at its ends, and at 0 if well between."""
    figure.colorbar(image, cax=axes, orientation="horizontal")
    low, high = image.norm.vmin, image.norm.vmax
    middle = 0.2 * (high - low) < -low < 0.8 * (high - low)
    places = [low, 0.0, high] if middle else [low, high]
    axes.set_xticks(places, [_two_digits(place, high - low) for place in places])
    axes.tick_params(length=1.5, pad=1, labelsize=6)
    align_ends(axes)
    axes.minorticks_off()


def _two_digits(value: float, span: float) -> str:
    """A number with two digits; 0 where it is below a thousandth of the span."""
    if abs(value) < 1e-3 * span:
        return "0"
    text = f"{value:.0f}" if abs(value) >= 100 else f"{value:.2g}"
    return text.replace("-", "−")
