"""How figures look, and how they are written: the same figure gives the same bytes each time."""

from __future__ import annotations

import io
import logging
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pe_jax.record import Result
from pe_jax.report import labels
from pe_jax.report.words import plusminus
from pe_jax.storage import atomic
from pe_jax.storage.loggers import quiet

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
}


class Look(NamedTuple):
    """The colour, dash and marker of an encoding's lines (`looks`)."""

    colour: str
    dash: Any
    marker: str

    @property
    def ink(self) -> str:
        """The colour of its name, darker than the line's."""
        from matplotlib.colors import to_hex, to_rgb

        red, green, blue = to_rgb(self.colour)
        return to_hex((0.75 * red, 0.75 * green, 0.75 * blue))


@dataclass(frozen=True)
class Line:
    """One encoding's line in a figure: means over seeds at x, in the unit of the metric, the half
    widths of their 95 % intervals, and how it is drawn. The arrays have one shape, [n].
    """

    label: str
    x: np.ndarray
    mean: np.ndarray
    half: np.ndarray
    look: Look
    bounds: tuple[float, float] = (-np.inf, np.inf)
    """The least and the highest value that there can be, at which a band ends."""
    broken: tuple[tuple[float, float], ...] = ()
    """(x, y) of the last value of each seed that had no finite one from there on."""
    ringed: tuple[float, float] | None = None
    """(x, y) of the point that was chosen among the others."""

    @classmethod
    def through(cls, points: Sequence[tuple[int | float, ...]], label: str, look: Look) -> Line:
        """The line through points (x, mean, half width)."""
        x, mean, half = np.array(points, float).T
        return cls(label, x, mean, half, look)

    @property
    def low(self) -> np.ndarray:
        """The lower ends of the intervals; the means where there are none."""
        return np.clip(self.mean - np.nan_to_num(self.half), *self.bounds)

    @property
    def high(self) -> np.ndarray:
        """The upper ends."""
        return np.clip(self.mean + np.nan_to_num(self.half), *self.bounds)

    def said(self, unit: str) -> str:
        """What a page shows where somebody points at the line: its name, then a text for each
        point, one to a line. `hits` finds artists that have this as their label.
        """
        values = (plusminus(*pair) for pair in zip(self.mean, self.half, strict=True))
        texts = (
            f"{unit.format(f'{x:.4g}')}: {value}" for x, value in zip(self.x, values, strict=True)
        )
        return "\n".join([self.label, *texts])


def save(figure: Figure, path: Path) -> list[Path]:
    """Writes `path` with the suffixes .png (200 dots an inch) and .pdf, and returns the two paths.
    A file that cannot be written whole is left as it was.
    """
    import matplotlib

    metadata = {"png": {"Software": None}, "pdf": {"CreationDate": None, "ModDate": None}}
    # fontTools logs every glyph at INFO.
    with matplotlib.rc_context(STYLE), quiet("fontTools", logging.WARNING):
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
    """What can be pointed at in the <svg> of a figure that was saved: of each line its name and its
    points, each with x and y in the units of the <svg> and a text (`Line.said`).
    """
    found = []
    height = 72 * figure.get_figheight()
    for axes in figure.axes:
        drawn = [(line.get_label(), line.get_xydata()) for line in axes.lines]
        drawn += [(dots.get_label(), dots.get_offsets()) for dots in axes.collections]
        for label, points in drawn:
            name, *texts = str(label).split("\n")
            if texts:
                places = 72 / figure.dpi * axes.transData.transform(points)
                told = zip(places.tolist(), texts, strict=True)
                found.append((name, [(round(x, 1), round(height - y, 1), t) for (x, y), t in told]))
    return found


# Which colour, dash and marker an encoding has: the same in every figure, from its name


# Some of them Tol's muted ones.
MORE = ("#332288", "#882255", "#999933", "#7a4b2a", "#a05fd6", "#44aa99", "#e41a1c", "#a6761d")
PALETTE = (*COLOURS, *MORE)
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
    """The look of each result by its id; no two of a study look alike.

    Encodings of different names, without arguments and layers, have different colours, as far as
    there are colours; a sum of encodings has one of its own. Where several results have a colour,
    those of a common encoding's plain name come first, then the others by their labels; each takes
    the first dash, then the first marker, that is free. A hash says where the search begins, so
    that a label mostly looks alike in different studies.
    """
    called = labels.names(results)
    specs = {result.id: _spec(result) for result in results}
    order = sorted(specs, key=lambda id: (specs[id] not in COMMON, len(called[id]), called[id], id))
    colours = _colours([_name(specs[id]) for id in order])
    taken: set[Look] = set()
    found = {}
    for id in order:
        spec = specs[id]
        start = 0 if spec in COMMON else _hash(spec)
        variants = list(_variants(colours[_name(spec)], start))
        found[id] = next((look for look in variants if look not in taken), variants[0])
        taken.add(found[id])
    return found


def _spec(result: Result) -> str:
    """The spec in the config; the label where there is no config (`study.curves`)."""
    return result.config.get("pe", {}).get("spec") or result.label


def _name(spec: str) -> str:
    """A spec without arguments, layers and the length of a window."""
    return re.sub(r"\(.*?\)|\[.*?\]", "", spec).split()[0]


def _colours(names: Sequence[str]) -> dict[str, str]:
    """The colour of each name: that in COMMON, else the first free one of MORE, in turn from the
    place that its hash says, and then of COLOURS; where none is free, the one at that place.
    """
    found = {name: COMMON[name] for name in names if name in COMMON}
    for name in names:
        first = _hash(name) % len(MORE)
        turned = (*MORE[first:], *MORE[:first], *COLOURS)
        free = (colour for colour in turned if colour not in found.values())
        found.setdefault(name, next(free, turned[0]))
    return found


def _variants(colour: str, start: int) -> Iterator[Look]:
    """Looks of this colour: with each marker the four dashes, in turn from the one at `start`; then
    looks of the next colours.
    """
    first = PALETTE.index(colour)
    for tint, marker, dash in product(range(len(PALETTE)), MARKERS, range(len(DASHES))):
        turn = (start + dash) % len(DASHES)
        yield Look(PALETTE[(first + tint) % len(PALETTE)], DASHES[turn], marker)


def _hash(text: str) -> int:
    return zlib.crc32(text.encode())  # Python's own differs from process to process
