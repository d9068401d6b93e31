"""How figures look, and how they are written: the same figure gives the same bytes each time."""

from __future__ import annotations

import io
import logging
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pe_jax.storage import atomic
from pe_jax.storage.loggers import quiet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


@dataclass(frozen=True)
class Line:
    """One encoding's line in a figure: means over seeds at x, in the unit of the metric, the half
    widths of their 95 % intervals, and how it is drawn. The arrays have one shape, [n].
    """

    label: str
    x: np.ndarray
    mean: np.ndarray
    half: np.ndarray
    colour: str
    dash: Any


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
    return element.replace("'DejaVu Sans'", "'DejaVu Sans', system-ui, sans-serif")
