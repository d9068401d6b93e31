"""The figures of an atlas with their captions: of one layer, and of a dozen side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Real

from pe_jax.atlas import probe
from pe_jax.atlas.layer import Layer
from pe_jax.atlas.probe import LOGIT, WEIGHT
from pe_jax.atlas.properties import Measured
from pe_jax.report import drawing
from pe_jax.report.drawing import GUIDE, WIDTH, Plane, fill
from pe_jax.report.phrases import capital
from pe_jax.report.style import COLOURS, DASHES, Drawn, Line, Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEADS, LAYERS = 4, 3
"""The most heads and layers that a figure shows, evenly from the first to the last."""
DRAWS = 3
"""Draws of random positions that are shown."""
QUERY, KEY = "query position (tokens)", "key position (tokens)"
BEYOND = "Shaded: beyond the training length."
WORDS = {
    LOGIT: "what the encoding adds to the logit",
    WEIGHT: "the logarithm of what the encoding multiplies the weight by",
}


def of_layer(
    measured: Measured, weights: Sequence[np.ndarray] = (), parts: Sequence[Any] = ()
) -> Iterator[Drawn]:
    """The figures of one layer, as far as there is something to show; `weights`, of
    `weights.of_model`, and `parts`, of `carriers.of_model`, are of a trained model.
    """
    layer = measured.layer
    if measured.same.acts or measured.random is not None:
        yield _logits(measured)
    if measured.same.acts:
        yield _distance(measured)
    near, far = (probe.rotations(layer, n) for n in (layer.train_length, layer.longest))
    if near is not None and far is not None and len(near) == len(far):
        yield _rotary(layer, near, far)
    if "positions" in measured.properties.sites.split(", "):
        yield _positions(layer)
    if weights:
        yield _attention(weights, layer.train_length)
    if parts:
        yield _carriers(parts)


def _spread(count: int, most: int) -> list[int]:
    """At most `most` of the numbers 0 .. count - 1, evenly from the first to the last."""
    return sorted({round(i) for i in np.linspace(0, count - 1, min(most, count))})


# Lines


def _lines(
    x: np.ndarray,
    values: Real[np.ndarray, "H T"],
    band: tuple[np.ndarray, np.ndarray] | None = None,
) -> list[Line]:
    """A line for each head that is shown; one line where all of them have equal values."""
    heads = _spread(len(values), HEADS)
    low, high = band or (values, values)
    scale = max(1e-6, float(np.nanmax(np.abs(values), initial=0.0)))
    first = values[heads[0]]
    if all(np.allclose(values[h], first, atol=1e-3 * scale, equal_nan=True) for h in heads):
        heads, names = heads[:1], ["all heads"]
    else:
        names = [f"head {head + 1}" for head in heads]
    return [
        Line(name, x, values[h], low[h], high[h], Look(COLOURS[i], DASHES[i], "o"))
        for i, (h, name) in enumerate(zip(heads, names, strict=True))
    ]


def _effect(measured: Measured) -> list[Line]:
    # Against the distance, with the range of the pairs where it depends on more.
    means = probe.means(measured.same.effect)
    band = None if means.of_distance else (means.low, means.high)
    return _lines(np.arange(means.mean.shape[1]), means.mean, band)


def _draw(axes: Axes, lines: Sequence[Line], layer: Layer, x: str, y: str, **ends: float) -> None:
    """Lines to the longest length of the figures; `ends` are the bottom or top of y."""
    train, most = layer.train_length, layer.longest
    low = min(float(np.nanmin(line.low)) for line in lines)
    high = max(float(np.nanmax(line.high)) for line in lines)
    rounding = high - low < 1e-3 * max(abs(low), abs(high))
    room = 1.0 if rounding else 0.05 * (high - low)
    axes.set_xlim(0, most)
    shown = Plane(x, y, base=0, ticks=[0, train, 2 * train, most], trained=[train])
    fill(axes, lines, shown, (ends.get("bottom", low - room), ends.get("top", high + room)))


def _legend(figure: Figure, panels: Sequence[Axes]) -> None:
    """The legend of the panel with most labels."""
    every = (axes.get_legend_handles_labels() for axes in panels)
    handles, names = max(every, key=lambda pair: len(pair[0]))
    drawing.legend(figure, {n.partition("\n")[0]: h for n, h in zip(names, handles, strict=True)})


def _distance(measured: Measured) -> Drawn:
    layer, weights, lines = measured.layer, measured.same.weights, _effect(measured)
    windows, x = probe.window(weights), np.arange(layer.served)
    with drawing.panels(3, 3, WIDTH, 1.6) as (figure, panels):
        left, middle, right = panels
        within = _lines(x, 100 * probe.nearness(weights))
        _draw(left, lines, layer, "distance (tokens)", measured.same.unit)
        _draw(
            middle, within, layer, "distance (tokens)", "attention within it (%)", bottom=0, top=103
        )
        _draw(right, _lines(1 + x, windows), layer, QUERY, "keys that hold 90 %", bottom=0)
        middle.axhline(100 * probe.SHARE, **GUIDE)
        _legend(figure, panels)
    wide = any((line.high > line.low).any() for line in lines)
    return Drawn(
        "distance",
        f"Left: {WORDS[measured.same.unit]} against the distance, the mean of all pairs."
        f"{' Bands: from the lowest pair to the highest.' if wide else ''} Middle: the share of "
        "the last query's attention that lies within a distance. Right: how many keys, counted "
        f"from the query outwards, hold {probe.SHARE:.0%} of its attention. {BEYOND}",
        figure,
    )


def _positions(layer: Layer) -> Drawn:
    draws = [probe.positions(layer, layer.train_length, s, train=True) for s in range(DRAWS)]
    drawn = [
        *((f"training, draw {i + 1}", y, COLOURS[0], DASHES[i]) for i, y in enumerate(draws)),
        ("evaluation", probe.positions(layer, layer.served), COLOURS[1], "-"),
    ]
    lines = [
        Line(name, np.arange(len(y)), y, y, y, Look(colour, dash, ""))
        for name, y, colour, dash in drawn
    ]
    with drawing.panels(1, 1, WIDTH / 2 + 0.4, 1.7) as (figure, panels):
        _draw(panels[0], lines, layer, "place in the sequence (tokens)", "position")
        _legend(figure, panels)
    caption = f"The positions that are handed on, in training and in evaluation. {BEYOND}"
    return Drawn("positions", caption, figure)


def _rotary(layer: Layer, near: np.ndarray, far: np.ndarray) -> Drawn:
    # `near`, `far`: angles from one position to the next at the training and the longest length.
    train, most, pairs = layer.train_length, layer.longest, 1 + np.arange(len(near))
    turn = 2 * np.pi
    with drawing.panels(2, 2, WIDTH, 1.8) as (figure, (left, right)):
        for angle, size, length, colour in (
            (near, 16.0, train, COLOURS[0]),
            (far, 5.0, most, COLOURS[1]),
        ):
            faces = [colour if whole else "none" for whole in angle * (train - 1) >= turn]
            waves = turn / angle
            left.scatter(pairs, waves, size, edgecolors=colour, facecolors=faces, linewidths=0.8)
            left.scatter([], [], size, color=colour, label=f"evaluated at {length}")
        left.axhline(train, **GUIDE)
        style: dict[str, Any] = dict(color="#606060", fontsize=6, ha="right", va="bottom")
        left.text(len(near), train, "training length", **style)
        left.set(yscale="log", xlabel="pair of components", ylabel="wavelength (tokens)")
        seen = np.minimum(1.0, near * (train - 1) / turn)
        reached = np.minimum(1.0, far * (most - 1) / turn)
        new = np.maximum(reached - seen, 0)
        right.bar(pairs, seen, 0.8, color=COLOURS[0], label=f"seen within {train}")
        right.bar(pairs, new, 0.8, bottom=seen, color=COLOURS[1], label=f"new within {most}")
        right.set(xlabel="pair of components", ylabel="angles (part of a turn)", ylim=(0, 1.02))
        drawing.number_plainly(left.yaxis)
        for axes in (left, right):
            axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, handletextpad=0.3)
    return Drawn(
        "rotary",
        "Left: the wavelength of each pair of components that is turned, in the first head; open "
        f"circles make less than one turn within {train} tokens. Right: the angles between tokens "
        f"that training shows, as part of a turn, and those that are new within {most} tokens.",
        figure,
    )


# Heat maps: a value of each query and key


def _logits(measured: Measured) -> Drawn:
    layer, same, second = measured.layer, measured.same, ""
    content = "the same content" if same.acts else "random content"
    rows = [("every token alike", same.effect)] if same.acts else []
    if measured.random is not None:
        rows.append(("random content", measured.random.effect))
    if not same.acts:
        second = " Where all tokens are alike, nothing is added."
    elif measured.random is not None:
        second = (
            " The second row has other content at every token, since here the logits of a pair "
            "depend on what other tokens hold."
        )
    heads = _spread(layer.dims.heads, HEADS)
    columns, width = len(heads), WIDTH * (0.12 + 0.22 * len(heads))
    with drawing.panels(len(rows) * columns, columns, width, 1.65, 0.2) as (figure, panels):
        for i, axes in enumerate(panels):
            row, column = divmod(i, columns)
            name, values = rows[row]
            _draw_map(figure, axes, values[heads[column]], layer, left=not column)
            axes.set_title(f"head {heads[column] + 1}")
            if not column:
                axes.set_ylabel(f"query position\n({name if len(rows) > 1 else 'tokens'})")
        figure.supxlabel(f"{KEY}; colour: {same.unit}")
    note = " Grey: positions that it does not serve." if layer.served < layer.longest else ""
    return Drawn(
        "logits",
        f"{capital(WORDS[same.unit])}, for each query and key, where every token has {content}"
        f"{_parameters(measured)}. Dashed: the training length, {layer.train_length} tokens; "
        f"evaluated at {layer.served}. White: keys that the query does not see.{note}{second}",
        figure,
    )


def _parameters(measured: Measured) -> str:
    if measured.layer.trained:
        return f", with the trained parameters of layer {measured.layer.index + 1}"
    if measured.noised:
        return ", with noise on its parameters, which change nothing at their initial values"
    return ", with its parameters at their initial values" if any(measured.layer.params) else ""


def _draw_map(
    figure: Figure, axes: Axes, values: Float[np.ndarray, "T T"], layer: Layer, left: bool = True
) -> None:
    # Lines are the training length; grey is what no position serves, white what no query sees.
    from matplotlib.patches import Polygon

    length, served, most = layer.train_length, len(values), layer.longest
    colours, low, high = _palette(values)
    style: dict[str, Any] = dict(cmap=colours, vmin=low, vmax=high, interpolation="none")
    extent = (0, served, served, 0)
    image = axes.imshow(np.ma.masked_invalid(values), extent=extent, aspect="auto", **style)
    axes.set(xlim=(0, most), ylim=(most, 0))
    if served < most:
        corners = [(0, served), (served, served), (most, most), (0, most)]
        if np.isfinite(values[0, -1]):  # later keys are seen, too
            corners[2:2] = [(served, 0), (most, 0)]
        axes.add_patch(Polygon(corners, facecolor="#e3e3e3", linewidth=0))
    for line in (axes.axvline, axes.axhline):
        line(length, color="#ffffff", linewidth=1.0, alpha=0.6)
        line(length, color="#202020", linewidth=0.6, linestyle=(0, (4, 2)))
    axes.set(xticks=[0, length, most], yticks=[0, length, most])
    axes.tick_params(labelleft=left)
    axes.spines[["top", "right"]].set_visible(True)
    bar = figure.colorbar(image, ax=axes, location="bottom", aspect=18, pad=0.02)
    ends = sorted({low, 0.0, high})
    bar.set_ticks(ends, labels=[f"{end:.3g}".replace("-", "−") for end in ends])
    bar.minorticks_off()


def _palette(values: np.ndarray) -> tuple[str, float, float]:
    # Colours for the colour-blind and their ends, between which 99 % of the values lie: from 0
    # where nearly all have one sign, else as far to both sides of 0.
    finite = values[np.isfinite(values)]
    low, high = map(float, np.percentile(finite, [0.5, 99.5])) if finite.size else (0.0, 0.0)
    most = max(abs(low), abs(high), 1e-6)
    if min(-low, high) > 0.02 * most:
        return "RdBu_r", -most, most
    return ("cividis", -most, 0.0) if high < -low else ("cividis_r", 0.0, most)


# A trained model's attention


BINS = 32
"""Edges of the bins of distances, before those that round to one number are joined."""


def _attention(weights: Sequence[Float[np.ndarray, "H T"]], train: int) -> Drawn:
    longest = weights[0].shape[1]
    edges = np.unique(np.geomspace(1, longest + 1, BINS).round().astype(int))
    middles = np.sqrt(edges[:-1] * (edges[1:] - 1))
    layers = _spread(len(weights), LAYERS)
    shown = Plane("distance + 1 (tokens)", base=10, trained=[train], log_y=True)
    with drawing.panels(len(layers), LAYERS, WIDTH, 1.7, sharey=True) as (figure, panels):
        for axes, layer in zip(panels, layers, strict=True):
            sums = np.add.reduceat(weights[layer], edges[:-1] - 1, axis=1)
            lines = _lines(middles, np.maximum(sums / np.diff(edges), 1e-6))
            fill(axes, lines, shown, drawing.limits(lines, shown))
            axes.axhline(1 / longest, color="#808080", linewidth=0.6, linestyle=":")
            drawing.number_plainly(axes.xaxis)
            axes.set_title(f"layer {layer + 1}")
        panels[0].set_ylabel("mean weight")
        _legend(figure, panels)
    return Drawn(
        "attention",
        f"The trained model's mean weight of a key against its distance, at {longest} tokens of "
        "the text that is evaluated: of the last eighth of the queries. Dotted: all weights equal. "
        f"{BEYOND}",
        figure,
    )


def _carriers(parts: Sequence[Any]) -> Drawn:
    with drawing.panels(1, 1, WIDTH, 0.5 + 0.3 * len(parts)) as (figure, (axes,)):
        for i, name in enumerate(parts[0].lost):
            nats = [one.lost[name] for one in parts]
            mean, half = np.array([(np.nan,) * 2 if isinstance(n, str) else n[:2] for n in nats]).T
            y, colour = np.arange(len(parts)) + 0.17 * (i - 1.5), COLOURS[i]
            axes.errorbar(mean, y, xerr=half, fmt="o", markersize=3, color=colour, label=name)
        axes.axvline(0, **GUIDE)
        axes.set_yticks(range(len(parts)), [one.name.replace(" of ", " of\n") for one in parts])
        axes.invert_yaxis()
        axes.set(xlabel="nats lost", ylabel=" ")  # room: names are wider at 200 dots an inch
        _legend(figure, [axes])
    return Drawn(
        "carriers",
        "What predictions of the trained model lose where one part alone has the tokens at one "
        "position, in another order, or at higher positions, with intervals of 95 % over windows.",
        figure,
    )


# Overview: what a dozen encodings add to the logits, against distance and as maps


DOZEN = "learned sinusoidal rope pi yarn rerope xpos alibi kerple_log sandwich fire t5".split()
COLUMNS = 4
HEAD = 1
"""The head of the maps, counted from 0, where the model has so many."""


def overviews(every: Sequence[Measured]) -> Iterator[Drawn]:
    """The figures of at most twelve encodings that change the logits, DOZEN first; none
    for a single one, whose own figures show as much.
    """
    named = {measured.layer.name: measured for measured in every if measured.same.on_logits}
    first = [named.pop(name) for name in DOZEN if name in named]
    shown = [*first, *named.values()][: len(DOZEN)]
    if len(every) > 1 and shown:
        yield _distances(shown)
        yield _maps(shown)


def _distances(shown: Sequence[Measured]) -> Drawn:
    count = len(shown)
    with drawing.panels(count, COLUMNS, WIDTH, 1.35, 0.2) as (figure, panels):
        for i, (axes, measured) in enumerate(zip(panels, shown, strict=True)):
            lines, layer = _effect(measured), measured.layer
            _draw(axes, lines, layer, "", "")
            axes.set_xticks([0, layer.train_length, layer.longest])
            axes.locator_params(axis="y", nbins=4)
            axes.tick_params(labelbottom=i + COLUMNS >= count)
            alike = ", all heads" if len(lines) == 1 < layer.dims.heads else ""
            drawing.name_panel(axes, layer.name + alike, WIDTH / COLUMNS)
        _legend(figure, panels)
        figure.supxlabel("distance of the key from its query (tokens)")
        figure.supylabel("added to the logit")
    values = "trained" if any(one.layer.trained for one in shown) else "at their initial values"
    return Drawn(
        "distances",
        "What encodings add to the logit of a query and a key, against their distance, where "
        f"every token has the same content. Learned parameters are {values}. Bands, where the "
        f"logit depends on more than the distance: from the lowest pair to the highest. {BEYOND}",
        figure,
    )


def _maps(shown: Sequence[Measured]) -> Drawn:
    with drawing.panels(len(shown), COLUMNS, WIDTH, 1.5, 0.1) as (figure, panels):
        for i, (axes, measured) in enumerate(zip(panels, shown, strict=True)):
            head = min(HEAD, measured.layer.dims.heads - 1)
            _draw_map(figure, axes, measured.same.effect[head], measured.layer, not i % COLUMNS)
            axes.tick_params(labelbottom=False)
            drawing.name_panel(axes, measured.layer.name, WIDTH / COLUMNS)
        figure.supxlabel(KEY)
        figure.supylabel(QUERY)
    return Drawn(
        "maps",
        "The same of each query and key, in the second head. Dashed: the training length. Grey: "
        "positions that the encoding does not serve.",
        figure,
    )
