"""The figure of configs/rope_base.py: rise at 2 L against the share of short pairs.

    python -m experiments.studies.rises [FOLDER]

writes rises.png into results/rope_base, or another folder with its records: a point for each model,
moved sideways by its length, with the 95 % interval over seeds, and crosses for published models, a
triangle for one above the axis.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from experiments.studies.verdicts import ROOT, published_rises, rope_rises
from pe_jax.report import stats, style
from pe_jax.report.study import Study, load

MARKERS = {16: "o", 32: "s"}
TOP = 4.2  # of the axis
SHIFT = 0.006  # sideways, so that models of one share do not hide each other


def draw(study: Study) -> Any:
    import matplotlib
    from matplotlib.figure import Figure

    cells = sorted(rope_rises(study), key=lambda cell: (cell.length, cell.head))
    lengths = sorted({cell.length for cell in cells})
    with matplotlib.rc_context(style.STYLE):
        figure = Figure((6.4, 3.6), layout="constrained")
        axes = figure.subplots()
        for cell in cells:
            at, rise = lengths.index(cell.length), stats.interval(cell.rises)
            axes.errorbar(
                cell.share + SHIFT * (at - 1),
                rise.mean,
                rise.half,
                fmt=MARKERS[cell.head],
                color=f"C{at}",
                fillstyle="full" if cell.head == 16 else "none",
                markersize=5,
                linewidth=1,
                label=f"L {cell.length:,}, heads of {cell.head}",
            )
        for share, rise, source in published_rises():
            marker, name = "kx" if rise < TOP else "k^", source.split(",")[0]
            axes.plot(share, min(rise, TOP), marker, label="published, bits a token")
            name += f": {rise:.1f}" * (rise > TOP)
            end = (share, min(rise, TOP))
            axes.annotate(name, end, (6, 3), textcoords="offset points", fontsize=7)
        axes.axhline(0, color="0.7", linewidth=0.8, zorder=0)
        axes.set(
            xlabel="share of pairs that turn less than once within L",
            ylabel="rise from L to 2 L in bits per byte",
        )
        handles, labels = axes.get_legend_handles_labels()
        named = {label: handle for handle, label in zip(handles, labels, strict=True)}
        figure.legend(named.values(), named.keys(), loc="outside right upper", frameon=False)
    return figure


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "results/rope_base")
    draw(Study.of(load(folder))).savefig(folder / "rises.png", dpi=150, metadata={"Software": None})
