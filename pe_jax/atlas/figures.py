"""The figures of an atlas: lines against distance (what is added to the logits, how far the
attention goes, classes of distances, rotations, moved positions), heat maps, and an overview of a
dozen encodings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Real

from pe_jax.atlas import by_distance
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


# Heat maps: a value of each query and key, a panel a head


WIDTH = 5.5
"""Inches of a figure: the text width of most single-column papers."""
HIDDEN = "#ffffff"
UNSERVED = "#e3e3e3"
LINE = "#202020"
UNSEEN = "#ececec"
QUERY = "query position (tokens)"
KEY = "key position (tokens)"


def logits(numbers: Numbers) -> Figure:
    """What is added to the logits of each query and key: a row of panels for constant content,
    where it shows anything, and one for random content, where the numbers have it.
    """
    rows = [("every token alike", numbers.same.effect)] if numbers.same.acts else []
    if numbers.random is not None:
        rows.append(("random content", numbers.random.effect))
    return panels(numbers, rows, numbers.unit)


def panels(
    numbers: Numbers, rows: Sequence[tuple[str, Float[np.ndarray, "H T T"]]], what: str
) -> Figure:
    """A row of panels, one a head, for each (name, values)."""
    import matplotlib
    from matplotlib.figure import Figure

    subject, heads = numbers.subject, numbers.heads
    left, gap, below, above = 0.62, 0.16, 0.66, 0.22
    size = (WIDTH - left - 0.08) / max(len(heads), 4) - gap
    tall = size + below + above
    high = tall * len(rows)
    with matplotlib.rc_context({**STYLE, "font.size": 7}):
        figure = Figure((WIDTH, high))
        for r, (name, values) in enumerate(rows):
            y = tall * (len(rows) - 1 - r) + below
            for c, head in enumerate(heads):
                x = left + c * (size + gap)
                axes = figure.add_axes((x / WIDTH, y / high, size / WIDTH, size / high))
                image = draw(axes, values[head], subject.length, subject.asked)
                axes.set_title(f"head {head + 1}", fontsize=7, pad=3)
                ticks(axes, subject.length, subject.asked, left=c == 0)
                if c == 0:
                    axes.set_ylabel(f"query position\n({name if len(rows) > 1 else 'tokens'})")
                bar = (x / WIDTH, (y - 0.4) / high, size / WIDTH, 0.06 / high)
                scale(figure, image, figure.add_axes(bar))
            middle = (left + 0.5 * (len(heads) * (size + gap) - gap)) / WIDTH
            for text, down in ((KEY, 0.25), (what, 0.6)):
                figure.text(middle, (y - down) / high, text, ha="center", va="center")
    return figure


def vectors(numbers: Numbers) -> Figure:
    """The dot products of the position vectors: of every two positions, and against distance."""
    import matplotlib
    from matplotlib.figure import Figure

    assert numbers.vectors is not None
    dots = numbers.vectors @ numbers.vectors.T
    subject, (width, high) = numbers.subject, (0.78 * WIDTH, 2.15)
    earlier = np.where(np.tri(len(dots), dtype=bool), dots, np.nan)[None]
    mean, lowest, highest = (rows[0] for rows in by_distance.means(earlier))
    with matplotlib.rc_context({**STYLE, "font.size": 7, "lines.linewidth": 1.1}):
        figure = Figure((width, high))
        left = figure.add_axes((0.6 / width, 0.66 / high, 1.4 / width, 1.4 / high))
        right = figure.add_axes((2.65 / width, 0.66 / high, 1.4 / width, 1.4 / high))
        image = draw(left, dots, subject.length, subject.asked)
        ticks(left, subject.length, subject.asked, left=True)
        left.set_ylabel("position (tokens)")
        figure.text(1.3 / width, 0.42 / high, "position (tokens)", ha="center", va="center")
        figure.text(1.3 / width, 0.06 / high, "dot product", ha="center", va="center")
        bar = figure.add_axes((0.6 / width, 0.27 / high, 1.4 / width, 0.06 / high))
        scale(figure, image, bar)
        right.plot(mean, color=COLOURS[0])
        band = {"color": COLOURS[0], "alpha": 0.15, "linewidth": 0}
        right.fill_between(range(len(mean)), lowest, highest, **band)
        right.set(xlabel="distance of two positions", ylabel="dot product")
        beyond(right, subject.length, subject.asked)
    return figure


def draw(axes: Axes, values: Float[np.ndarray, "T T"], length: int, most: int) -> Any:
    """The values of every query and key as an image, queries downwards. The training length is
    drawn as lines; what no position serves is grey, and what a query does not see is white.
    """
    from matplotlib.colors import Normalize

    served = len(values)
    low, high = ends(values)
    colours, low, high = palette(low, high)
    axes.set_facecolor(HIDDEN)
    axes.imshow(
        np.ma.masked_invalid(values),
        cmap=colours,
        norm=Normalize(low, high),
        extent=(0, served, served, 0),
        interpolation="none",
        aspect="auto",
    )
    axes.set(xlim=(0, most), ylim=(most, 0))
    if served < most:
        from matplotlib.patches import Polygon

        corners = [(0, served), (served, served), (most, most), (0, most)]
        if np.isfinite(values[0, -1]):  # later keys are seen, too
            corners[2:2] = [(served, 0), (most, 0)]
        axes.add_patch(Polygon(corners, facecolor=UNSERVED, linewidth=0))
    for line in (axes.axvline, axes.axhline):
        line(length, color="#ffffff", linewidth=1.0, alpha=0.6)
        line(length, color=LINE, linewidth=0.6, linestyle=(0, (4, 2)))
    return axes.images[0]


def ends(values: np.ndarray) -> tuple[float, float]:
    """The values at the ends of the colours: all but half a per cent at each end lie between."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return 0.0, 0.0
    low, high = np.percentile(finite, [0.5, 99.5])
    return float(low), float(high)


def palette(low: float, high: float) -> tuple[str, float, float]:
    """A map of colours and its ends: dark for what is far from 0 where nearly all values have one
    sign, else to both sides of 0. Both are told apart by the colour-blind.
    """
    most = max(abs(low), abs(high), 1e-6)
    flat = high - low < 0.02 * most
    if high <= 0.02 * most:
        return "cividis", min(low, -1e-6), 0.0 if flat else high
    if low >= -0.02 * most:
        return "cividis_r", 0.0 if flat else low, most
    return "RdBu_r", -most, most


def beyond(axes: Axes, length: int, most: int) -> None:
    """The x axis from 0 to `most`, with what training never shows shaded from `length` on."""
    axes.set_xlim(0, most)
    axes.axvspan(length, most, color=UNSEEN, zorder=-1, linewidth=0)
    axes.axvline(length, color="#808080", linewidth=0.6, zorder=0)
    axes.set_xticks([0, length, 2 * length, most])
    axes.tick_params(length=2, pad=1.5)


def ticks(axes: Axes, length: int, most: int, left: bool) -> None:
    """Ticks at 0, the training length and the end."""
    places = [0, length, most]
    axes.set_xticks(places, [str(place) for place in places])
    axes.set_yticks(places, [str(place) for place in places] if left else [""] * 3)
    axes.tick_params(length=2, pad=1.5, labelsize=6)
    for text, side in zip(axes.get_xticklabels(), ("left", "center", "right"), strict=True):
        text.set(ha=side)
    for spine in ("top", "right"):
        axes.spines[spine].set_visible(True)


def scale(figure: Figure, image: Any, axes: Axes) -> None:
    """The colour bar of an image, in `axes`, with the values at its ends."""
    figure.colorbar(image, cax=axes, orientation="horizontal")
    low, high = image.norm.vmin, image.norm.vmax
    middle = 0.2 * (high - low) < -low < 0.8 * (high - low)
    places = [low, 0.0, high] if middle else [low, high]
    axes.set_xticks(places, [_short(place, high - low) for place in places])
    axes.tick_params(length=1.5, pad=1, labelsize=6)
    labels = axes.get_xticklabels()
    labels[0].set(ha="left")
    labels[-1].set(ha="right")
    axes.minorticks_off()


def _short(value: float, span: float) -> str:
    """A number with two digits; 0 where it is below a thousandth of the span."""
    if abs(value) < 1e-3 * span:
        return "0"
    text = f"{value:.0f}" if abs(value) >= 100 else f"{value:.2g}"
    return text.replace("-", "−")


# Overview: what a dozen encodings add to the logits, against distance and as maps


DOZEN = (
    "learned",
    "sinusoidal",
    "rope",
    "pi",
    "yarn",
    "rerope",
    "xpos",
    "alibi",
    "kerple_log",
    "sandwich",
    "fire",
    "t5",
)
COLUMNS = 4
HEAD = 1
"""The head of the maps, counted from 0, where the model has so many."""


def dozen(of_all: Sequence[Numbers]) -> list[Numbers]:
    """At most twelve of_all: those of DOZEN, filled up with others that change the logits."""
    named = {numbers.subject.name: numbers for numbers in of_all if numbers.same.acts}
    first = [named.pop(name) for name in DOZEN if name in named]
    return (first + list(named.values()))[: len(DOZEN)]


def distances(of_all: Sequence[Numbers]) -> Figure:
    """A panel an encoding: what is added to the logit against the distance, a line a head."""
    import matplotlib

    with matplotlib.rc_context({**STYLE, "font.size": 7, "lines.linewidth": 1.0}):
        figure, every = _grid(len(of_all), 0.48, 1.06, 0.34, 0.26, 0.42)
        for i, (axes, numbers) in enumerate(zip(every, of_all, strict=True)):
            means, subject = numbers.means, numbers.subject
            lines = told_apart(numbers.heads, means.mean)
            for place, (head, _) in enumerate(lines):
                style = {"color": COLOURS[place], "linestyle": DASHES[place]}
                axes.plot(means.mean[head], **style)
                if not means.of_distance:
                    band = {"color": COLOURS[place], "alpha": 0.15, "linewidth": 0}
                    n = range(means.mean.shape[1])
                    axes.fill_between(n, means.low[head], means.high[head], **band)
            beyond(axes, subject.length, subject.asked)
            axes.set_xticks([0, subject.length, subject.asked])
            axes.locator_params(axis="y", nbins=4)
            axes.tick_params(labelsize=6)
            _named(axes, numbers, one=len(lines) == 1)
            _ends(axes, i + COLUMNS >= len(of_all))
        _names(figure, max(len(numbers.heads) for numbers in of_all))
        _labelled(figure, "distance of the key from its query (tokens)", "added to the logit")
    return figure


def maps(of_all: Sequence[Numbers]) -> Figure:
    """A panel an encoding: what is added to the logit of each query and key, in one head."""
    import matplotlib

    with matplotlib.rc_context({**STYLE, "font.size": 7}):
        figure, every = _grid(len(of_all), 0.46, 1.06, 0.16, 0.44, 0.22)
        width, height = figure.get_size_inches()
        for i, (axes, numbers) in enumerate(zip(every, of_all, strict=True)):
            head, subject = min(HEAD, numbers.subject.dims.heads - 1), numbers.subject
            image = draw(axes, numbers.same.effect[head], subject.length, subject.asked)
            ticks(axes, subject.length, subject.asked, left=i % COLUMNS == 0)
            axes.set_xticklabels([])
            _named(axes, numbers)
            box = axes.get_position()
            bar = (box.x0, box.y0 - 0.13 / height, box.width, 0.05 / height)
            scale(figure, image, figure.add_axes(bar))
        _labelled(figure, "key position (tokens)", "query position (tokens)")
    return figure


def _grid(
    count: int, left: float, tall: float, gap: float, between: float, above: float
) -> tuple[Figure, list[Axes]]:
    """`count` axes in rows of COLUMNS; all sizes are in inches."""
    from matplotlib.figure import Figure

    rows, below = -(-count // COLUMNS), 0.44
    height = above + rows * (tall + between) - between + below
    figure = Figure((WIDTH, height))
    wide = (WIDTH - left - 0.08 + gap) / COLUMNS - gap
    every = []
    for i in range(count):
        row, column = divmod(i, COLUMNS)
        x, y = left + column * (wide + gap), height - above - tall - row * (tall + between)
        every.append(figure.add_axes((x / WIDTH, y / height, wide / WIDTH, tall / height)))
    return figure, every


def _named(axes: Axes, numbers: Numbers, one: bool = False) -> None:
    name = numbers.subject.name
    more = " (all heads)" if one else ""
    axes.set_title(name + more, fontsize=min(7, 7 * 24 / len(name + more)), pad=3)


def _ends(axes: Axes, below: bool) -> None:
    """The outermost ticks of x within the panel; without numbers unless it is the lowest."""
    axes.tick_params(labelbottom=below)
    if below:
        labels = axes.get_xticklabels()
        labels[0].set(ha="left")
        labels[-1].set(ha="right")


def _names(figure: Figure, heads: int) -> None:
    """The lines of the heads, and the shade of what training never shows, above all panels."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    lines = [Line2D([], [], color=COLOURS[i], linestyle=DASHES[i]) for i in range(heads)]
    names = [f"head {i + 1}" for i in range(heads)]
    figure.legend(
        [*lines, Patch(color=UNSEEN)],
        [*names, "distances never seen in training"],
        loc="upper center",
        ncols=heads + 1,
        frameon=False,
        fontsize=7,
        handlelength=2.4,
        columnspacing=1.2,
        borderpad=0.1,
    )


def _labelled(figure: Figure, x: str, y: str) -> None:
    height = figure.get_figheight()
    figure.text(0.54, 0.05 / height, x, ha="center", va="bottom")
    figure.text(0.03 / WIDTH, 0.53, y, rotation=90, ha="left", va="center")
