"""Heat maps: a value of each query and key, a panel a head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from pe_jax.atlas import by_distance
from pe_jax.atlas.numbers import Numbers
from pe_jax.report.style import COLOURS, STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
