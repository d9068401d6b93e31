"""Two figures of a dozen encodings: what they add to the logits, against distance and as maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pe_jax.atlas.curves import DASHES, told_apart
from pe_jax.atlas.maps import UNSEEN, WIDTH, beyond, draw, scale, ticks
from pe_jax.atlas.numbers import Numbers
from pe_jax.report.style import COLOURS, STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
