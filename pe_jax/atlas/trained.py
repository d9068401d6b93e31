"""Figures of a trained model's attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pe_jax.atlas.curves import DASHES, name_lines, plane
from pe_jax.atlas.maps import WIDTH
from pe_jax.atlas.watch import Watched
from pe_jax.report.plane import doublings
from pe_jax.report.style import COLOURS, STYLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEW = 3
"""Layers that are drawn, from the first to the last."""
BINS = 32


def _few(count: int, most: int) -> list[int]:
    return sorted({round(i) for i in np.linspace(0, count - 1, min(most, count))})


def nearness(watched: Watched, length: int) -> Figure:
    """The mean weight of a key against its distance, a panel a layer and a line a head."""
    import matplotlib
    from matplotlib.ticker import FuncFormatter

    layers = _few(len(watched.by_distance), FEW)
    longest = watched.by_distance[0].shape[1]
    edges = np.unique(np.geomspace(1, longest + 1, BINS).round().astype(int))
    with matplotlib.rc_context({**STYLE, "font.size": 7, "lines.linewidth": 1.1}):
        figure, every = plane(_width(layers), 2.0, len(layers))
        for axes, layer in zip(every, layers, strict=True):
            weights = watched.by_distance[layer]
            for i, head in enumerate(_few(len(weights), len(DASHES))):
                bins = zip(edges[:-1], edges[1:], strict=True)
                mean = [weights[head, a - 1 : b - 1].mean() for a, b in bins]
                style = {"color": COLOURS[i], "linestyle": DASHES[i], "label": f"head {head + 1}"}
                axes.plot(np.sqrt(edges[:-1] * (edges[1:] - 1)), np.maximum(mean, 1e-9), **style)
            axes.set(xscale="log", yscale="log", xlim=(0.9, longest))
            axes.set_ylim(max(axes.get_ylim()[0], 1e-6), 1.1)
            axes.axvspan(length, longest, color="#ececec", zorder=-1, linewidth=0)
            axes.axhline(1 / longest, color="#808080", linewidth=0.6, linestyle=":")
            axes.set_title(f"layer {layer + 1}", fontsize=7, pad=3)
            axes.set_xlabel("distance + 1 (tokens)")
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.tick_params(length=2, pad=1.5)
            axes.tick_params(which="minor", length=1)
        every[0].set_ylabel("mean weight")
        _headed(figure, every)
    return figure


def entropy(watched: Watched) -> Figure:
    """The entropy of the weights against the length, a panel a layer and a line a head."""
    import matplotlib

    layers, lengths = _few(len(watched.by_distance), FEW), list(watched.entropy)
    with matplotlib.rc_context({**STYLE, "font.size": 7, "lines.linewidth": 1.1}):
        figure, every = plane(_width(layers), 2.0, len(layers))
        for axes, layer in zip(every, layers, strict=True):
            values = np.stack([watched.entropy[n][layer] for n in lengths])
            for i, head in enumerate(_few(values.shape[1], len(DASHES))):
                style = {"color": COLOURS[i], "linestyle": DASHES[i], "label": f"head {head + 1}"}
                axes.plot(lengths, values[:, head], marker="o", **style)
            axes.plot(lengths, np.log(lengths), color="#808080", linestyle=":", label="uniform")
            axes.set_xscale("log", base=2)
            ticks = [int(n) for n in doublings(lengths[0], lengths[0], lengths[-1])]
            axes.set_xticks(ticks, [str(n) for n in ticks])
            axes.set_title(f"layer {layer + 1}", fontsize=7, pad=3)
            axes.set(xlabel="length (tokens)", ylim=(0, 1.05 * np.log(lengths[-1])))
            axes.tick_params(length=2, pad=1.5)
        every[0].set_ylabel("entropy (nats)")
        _headed(figure, every)
    return figure


def sentence(watched: Watched) -> Figure:
    """The attention of one sentence with its tokens: of the head that looks furthest, and of the
    one that looks least far.
    """
    import matplotlib

    count = len(watched.sentence)
    distance = np.abs(np.subtract.outer(np.arange(count), np.arange(count)))
    far = np.array([(weights * distance).sum(-1).mean(-1) for weights in watched.maps])
    chosen = [np.unravel_index(index(far), far.shape) for index in (np.argmin, np.argmax)]
    size = min(5.0, 2.2 * 72 / count)
    with matplotlib.rc_context({**STYLE, "font.size": 7}):
        figure, both = plane(WIDTH, 2.85, 2)
        for axes, (layer, head) in zip(both, chosen, strict=True):
            weights = watched.maps[layer][head]
            shown = np.where(weights > 0, weights, np.nan)
            axes.imshow(shown, cmap="Blues", vmin=0, vmax=1, interpolation="none")
            axes.set_facecolor("#f0f0f0")
            axes.set_title(f"layer {layer + 1}, head {head + 1}", fontsize=7, pad=3)
            axes.set_xticks(range(count), watched.sentence, fontsize=size)
            axes.set_yticks(range(count), watched.sentence, fontsize=size)
            if max(map(len, watched.sentence)) > 1:
                axes.tick_params(axis="x", rotation=90)
            axes.tick_params(length=0, pad=1.5)
            axes.set_xlabel("key")
        both[0].set_ylabel("query")
        image = both[0].images[0]
        box = both[1].get_position()
        bar = figure.add_axes((box.x0 + 0.24, box.y1 - 0.1, 0.13, 0.02))
        figure.colorbar(image, cax=bar, orientation="horizontal")
        bar.set_xticks([0, 1], ["0", "1"])
        bar.set_title("weight", fontsize=6, pad=2)
        bar.tick_params(length=1.5, pad=1, labelsize=6)
    return figure


def _width(layers: list[int]) -> float:
    return WIDTH * {1: 0.45, 2: 0.8}.get(len(layers), 1.0)


def _headed(figure: Figure, every: list) -> None:
    """The names of the lines above the titles of the panels."""
    for axes in every:
        box = axes.get_position()
        axes.set_position((box.x0, box.y0, box.width, box.height - 0.14 / figure.get_figheight()))
    name_lines(figure, every[0])
