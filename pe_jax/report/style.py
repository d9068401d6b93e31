"""The style of figures, and their files: the same figure gives the same bytes each time."""

from __future__ import annotations

import io
import logging
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pe_jax.record import Result
from pe_jax.report.phrases import plusminus
from pe_jax.storage import atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Okabe and Ito's colours without yellow, which is too faint for lines and labels on white.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
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
    "text.parse_math": False,  # a name may have $
    "legend.frameon": False,
    "legend.fontsize": 7,
}
PANELS: dict[Any, Any] = STYLE | {
    "font.size": 7,
    "axes.titlesize": 7,
    "axes.titlepad": 3,
    "figure.labelsize": 7,
    "xtick.labelsize": 6,
    "ytick.labelsize": 6,
    "xtick.major.size": 2,
    "ytick.major.size": 2,
    "lines.linewidth": 1.1,
    "lines.markersize": 2,
}
"""The style of figures of several panels."""


class Drawn(NamedTuple):
    """A figure of a report or of the atlas."""

    name: str
    """Of its files, without the suffix."""
    caption: str
    figure: Figure


class Look(NamedTuple):
    """The colour, dash and marker of an encoding's lines (`looks`)."""

    colour: str
    dash: Any
    marker: str


@dataclass(frozen=True)
class Line:
    """A line with its band: values at x, the ends of the band, and a look. The arrays have one
    shape, [n].
    """

    label: str
    x: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    look: Look
    values: tuple[str, ...] = ()
    """The text of each point; (): the line has none."""

    @classmethod
    def through(
        cls,
        points: Sequence[tuple[int | float, ...]],
        label: str,
        look: Look,
        percent: bool = False,
        sign: str = "",
    ) -> Line:
        """The line through points (x, mean, half width of the 95 % interval; NaN: no interval).
        The interval of values in `percent` ends at 0 and 100; `sign` is that of `plusminus`.
        """
        x, mean, half = np.array(points, float).T
        reach, texts = np.nan_to_num(half), [plusminus(m, h, sign) for _, m, h in points]
        low, high = mean - reach, mean + reach
        if percent:
            low, high = np.maximum(low, 0.0), np.minimum(high, 100.0)
        return cls(label, x, mean, low, high, look, tuple(texts))

    def said(self, unit: str) -> str:
        """The label, then a text for each point, one to a line: `hits` finds artists that have this
        as their label.
        """
        texts = (
            f"{unit.format(f'{x:.4g}')}: {value}"
            for x, value in zip(self.x, self.values, strict=False)
        )
        return "\n".join([self.label, *texts])


def save(figure: Figure, path: Path) -> list[Path]:
    """Writes `path` with the suffixes .png (200 dots an inch) and .pdf, and returns the two paths.
    A file that cannot be written whole is left as it was.
    """
    import matplotlib

    metadata = {"png": {"Software": None}, "pdf": {"CreationDate": None, "ModDate": None}}
    logging.getLogger("fontTools").setLevel(logging.WARNING)  # at INFO it logs every glyph
    with matplotlib.rc_context(STYLE):
        return [
            atomic.replace(
                Path(f"{path}.{kind}"),
                lambda file, kind=kind, facts=facts: figure.savefig(
                    file, format=kind, dpi=200, metadata=facts
                ),
            )
            for kind, facts in metadata.items()
        ]


def svg(figure: Figure) -> str:
    """The figure as an <svg> element for an HTML page, without outside references."""
    import matplotlib

    text = io.StringIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(text, format="svg", metadata={"Date": None})
    element = text.getvalue()[text.getvalue().index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>| xmlns(:\w+)?=\"[^\"]*\"", "", element, flags=re.S)
    element = re.sub(r'<g id="[\w.]+_\d+">', "<g>", element).replace("xlink:href", "href")
    numbers = r' (?:d|x|y|transform)="[^"]*"'  # two digits are a hundredth of a point
    element = re.sub(numbers, lambda one: re.sub(r"(\.\d\d)\d+", r"\1", one[0]), element)
    return element.replace("'DejaVu Sans'", "'DejaVu Sans', system-ui, sans-serif")


def hits(figure: Figure) -> list[tuple[str, list[tuple[float, float, str]]]]:
    """The points of a figure that was saved, for the tooltips of its <svg>: of each line its name
    and its points, each with x and y in the units of the <svg> and a text (`Line.said`).
    """
    points = []
    height = 72 * figure.get_figheight()
    for axes in figure.axes:
        for line in axes.lines:
            name, *texts = str(line.get_label()).split("\n")
            if texts:
                places = 72 / figure.dpi * line.get_transform().transform(line.get_xydata())
                named = zip(places.tolist(), texts, strict=True)
                points.append(
                    (name, [(round(x, 1), round(height - y, 1), t) for (x, y), t in named])
                )
    return points


# Colours, dashes and markers of encodings, by their names


# Some of them Tol's muted ones.
MORE = ("#332288", "#882255", "#999933", "#7a4b2a", "#a05fd6", "#44aa99", "#e41a1c", "#a6761d")
COMMON: dict[str, str] = dict(
    zip(
        ("rope", "alibi", "learned", "transformer_xl", "sinusoidal", "t5", "nope"),
        COLOURS,
        strict=True,
    )
)
"""The colours of the encodings that most studies compare."""
DASHES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)))
MARKERS = ("o", "s", "^", "D")


def looks(results: Sequence[Result]) -> dict[str, Look]:
    """Deterministic look of each result by its id; no two of at most 240 look alike.

    An encoding without its arguments and layers has one colour: that in COMMON, else the first one
    that is free from a place that a hash of its name gives. Results of one colour differ in their
    dashes, then in their markers, then take the next colour.
    """
    specs = {
        result.id: result.config.get("pe", {}).get("spec") or result.label for result in results
    }
    names = {i: re.sub(r"\((\(.*?\)|[^()])*\)|\[.*?\]", "", s).split()[0] for i, s in specs.items()}
    order = sorted(
        specs, key=lambda id: (names[id] not in COMMON, specs[id] not in COMMON, specs[id], id)
    )
    colours: dict[str, str] = {}
    chosen: dict[str, Look] = {}
    for id in order:
        name = names[id]
        start = zlib.crc32(name.encode()) % len(MORE)  # hash() differs from process to process
        turned = (*MORE[start:], *MORE[:start], *COLOURS)
        free = (colour for colour in turned if colour not in colours.values())
        own = colours.setdefault(name, COMMON.get(name) or next(free, turned[0]))
        every = (Look(c, dash, m) for c, m, dash in product((own, *turned), MARKERS, DASHES))
        taken = set(chosen.values())
        chosen[id] = next((look for look in every if look not in taken), Look(own, "-", "o"))
    return chosen
