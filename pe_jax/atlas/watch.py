"""The attention of a trained model on its own text, or on samples of its task.

The model is run as it is. Behind its own encodings each layer gets one more, which changes nothing
and hands over the logits.

Axes: W sequences, T tokens, H heads, Q some of the queries, S tokens of the sentence.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Float, Int

from pe_jax.atlas.figures import DASHES, UNSEEN, WIDTH, draw_line, name_lines, plane, styled
from pe_jax.atlas.numbers import spread
from pe_jax.attention.bound import Bound
from pe_jax.encoding import Encoding, seen
from pe_jax.model.config import LmConfig
from pe_jax.record import Begun
from pe_jax.report.plane import doublings
from pe_jax.runs.trained import Trained
from pe_jax.specs.parse import active
from pe_jax.storage import records
from pe_jax.training.step import structure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SEQUENCES = 16
"""Sequences of each length, from different places of the text."""
SENTENCE = 40
"""Tokens of the sequence whose attention is drawn with its tokens as labels."""
MOST = 1024
"""Tokens of the longest sequence, unless the training length is longer."""


@dataclasses.dataclass(frozen=True)
class _Watch(Encoding):
    """Hands the logits of its layer to `told`."""

    whole_rows: ClassVar[bool] = True
    told: Callable[[Any], None] = print

    def logits(self, params, logits, q, k, q_pos, k_pos):
        jax.debug.callback(self.told, logits)
        return logits


class Watched(NamedTuple):
    """What the attention of a model shows. Layers are counted from 0."""

    by_distance: list[Float[np.ndarray, "H T"]]
    """Of each layer, the mean weight that a head gives to the key at each distance: of the last
    eighth of the queries of the longest sequences. Rows sum to 1 where the softmax is kept.
    """
    entropy: dict[int, list[Float[np.ndarray, "H"]]]
    """{length: of each layer, the mean entropy of the weights of these queries, in nats}."""
    sentence: list[str]
    """The tokens of one sequence."""
    maps: list[Float[np.ndarray, "H T T"]]
    """Its weights in each layer."""


def watch(model: Trained) -> Watched:
    """The attention of a model at its training length, at twice and at four times this, as far as
    its encodings serve these lengths. ValueError or Refused if its text is not there.
    """
    texts, sentence = _read(model)
    limits = [n for e in model.run.encodings if (n := e.limit()) is not None]
    most = min([max(texts), max(MOST, model.run.encodings[0].dims.train_len), *limits])
    entropy, nearest = {}, []
    for n in [n for n in texts if n <= most] or [most]:
        last = max(1, n // 8)  # the whole rows of all sequences would be gigabytes
        rows = [
            [weights[:, -last:].copy() for weights in attention(model, sequence[:n])]
            for sequence in texts.get(n, texts[max(texts)])
        ]
        layers = [np.stack(of_layer) for of_layer in zip(*rows, strict=True)]
        entropy[n] = [_entropy(weights).mean((0, 2)) for weights in layers]
        nearest = [_by_distance(weights) for weights in layers]
    shown = sentence[:most]
    return Watched(nearest, entropy, _labels(model, shown), attention(model, shown))


def _by_distance(weights: Float[np.ndarray, "W H Q T"]) -> Float[np.ndarray, "H T"]:
    """The mean weight at each distance, of the last Q queries."""
    _, H, Q, T = weights.shape
    rows, distance = weights.mean(0), np.abs(np.arange(T) - np.arange(T - Q, T)[:, None])
    within = [np.bincount(distance[q], row[q], T) for row in rows for q in range(Q)]
    return np.reshape(within, (H, -1, T)).mean(1)


def attention(model: Trained, tokens: Int[np.ndarray, "T"]) -> list[Float[np.ndarray, "H T T"]]:
    """The weights of every query of one sequence, in each layer, before gates."""
    made = tuple(e.at(len(tokens)) for e in model.run.encodings)
    dense = dataclasses.replace(model.run.lm, attention="dense")
    logits, weights = _programs(dense, model.run.encodings, made)
    found = logits(model.params, np.asarray(tokens, np.int32)[None])
    return [np.asarray(weights(model.params, layer, s)) for layer, s in enumerate(found)]


@functools.lru_cache(maxsize=4)  # the sequences of a length share their programs
def _programs(
    config: LmConfig, encodings: tuple[Encoding, ...], made: tuple[Encoding, ...]
) -> tuple[Callable, Callable]:
    """logits(params, tokens [1, T]) of each layer, and weights(params, layer, its logits)."""
    graphdef, _ = structure(config, encodings)
    found: dict[int, np.ndarray] = {}

    def of(layer: int) -> Encoding:
        def told(logits):
            found[layer] = np.array(logits)

        return _Watch(made[0].dims, told=told, layers=f"{layer}:{layer + 1}")

    watching = tuple(of(layer) for layer in range(config.layers))

    @jax.jit
    def run(params, tokens):
        lm = nnx.merge(graphdef, params, copy=True)
        return lm(tokens, encodings=made + watching, key=jax.random.key(0))[0]

    def logits(params, tokens):
        run(params, tokens).block_until_ready()
        jax.effects_barrier()
        return [found[layer] for layer in range(config.layers)]

    @functools.partial(jax.jit, static_argnums=1)
    def weights(params, layer, s):
        lm = nnx.merge(graphdef, params, copy=True)
        here = [i for i, e in enumerate(made) if active(e, layer)]
        own = tuple(lm.params_of(i, layer) for i in here)
        pe = Bound(own, tuple(made[i] for i in here), causal=made[0].dims.causal)
        return jnp.where(seen(s), pe.normalize(s), 0.0)

    return logits, weights


def _read(model: Trained) -> tuple[dict[int, Int[np.ndarray, "W T"]], Int[np.ndarray, "S"]]:
    """(sequences by their tokens, one sentence): of one, two and four training lengths of the text
    that is evaluated, or of fewer tokens where there is less text; or samples of the task of those
    lengths that it has.
    """
    run, length = model.run, model.run.train.length
    wanted = min(4 * length, max(MOST, length))
    if not run.task.reads_text:
        keys = jax.random.split(jax.random.key(0), SEQUENCES)

        def drawn(n: int) -> Int[np.ndarray, "W T"]:
            sample = jax.vmap(lambda key: run.task.sample(key, jnp.int32(n), n).tokens)
            return np.asarray(jax.jit(sample)(keys))

        there = filter(run.task.has, (length, 2 * length, 4 * length))
        samples = {int(run.task.size(n)): drawn(n) for n in there}
        return samples, samples[max(samples)][0, :SENTENCE]
    begun = records.read(Begun, model.folder / "config.json")
    assert begun is not None  # the model was restored from this folder
    tokens = run.load_scored(model.tokenizer, begun.corpus.hash).scored
    documents = sorted(tokens.splits[run.eval.split], key=len, reverse=True)
    long = [d for d in documents if len(d) >= wanted] or documents[:1]
    size = min(wanted, min(map(len, long)))
    rng, out = np.random.default_rng(0), []
    for i in range(SEQUENCES):
        document = long[i % len(long)]
        start = int(rng.integers(0, len(document) - size + 1))
        out.append(document[start : start + size])
    windows = np.stack(out).astype(np.int32)
    if (bos := model.tokenizer.bos) is not None:
        windows[:, 0] = bos
    texts = {n: windows[:, :n] for n in (length, 2 * length, 4 * length) if n <= size}
    return texts or {size: windows}, _sentence(model, documents)


def _sentence(model: Trained, documents: Sequence[np.ndarray]) -> Int[np.ndarray, "S"]:
    """The first sentence of the text that is as long as its tokens can be read in a figure; the
    first tokens of the text if there is none.
    """
    for document in documents:
        text = model.tokenizer.decode(document[:100_000])
        for found in re.finditer(rb"(?<=[.!?] |[.!?]\n)[A-Z][a-z]*(?: [\w',-]+)+[.!?]", text):
            tokens = model.encode(found[0])
            if 2 * SENTENCE // 3 <= len(tokens) <= SENTENCE:
                return tokens
    return model.tokenizer.begun(documents[0][:SENTENCE])[:SENTENCE]


def _labels(model: Trained, tokens: Int[np.ndarray, "T"]) -> list[str]:
    """Each token as text; spaces and line ends as signs that can be seen."""
    texts = [model.tokenizer.decode(np.array([token])) for token in tokens]
    signs = str.maketrans({" ": "␣", "\n": "↵", "\t": "→", "\r": "←"})
    return [text.decode("utf-8", "replace").translate(signs) for text in texts]


def _entropy(weights: Float[np.ndarray, "W H Q T"]) -> Float[np.ndarray, "W H Q"]:
    return -(weights * np.log(np.maximum(weights, 1e-30))).sum(-1)


FEW = 3
"""Layers that are drawn, from the first to the last."""
BINS = 32
"""Edges of the bins of distances, before those that round to one number are joined."""


def draw_nearness(watched: Watched, length: int) -> Figure:
    """The mean weight of a key against its distance, a line a head."""
    from matplotlib.ticker import FuncFormatter

    longest = watched.by_distance[0].shape[1]
    edges = np.unique(np.geomspace(1, longest + 1, BINS).round().astype(int))
    middles = np.sqrt(edges[:-1] * (edges[1:] - 1))

    def draw(axes: Axes, layer: int) -> None:
        weights = watched.by_distance[layer]
        for i, head in enumerate(spread(len(weights), len(DASHES))):
            bins = zip(edges[:-1], edges[1:], strict=True)
            mean = [weights[head, a - 1 : b - 1].mean() for a, b in bins]
            draw_line(axes, i, middles, np.maximum(mean, 1e-9), label=f"head {head + 1}")
        axes.set(xscale="log", yscale="log", xlim=(0.9, longest))
        axes.set_ylim(max(axes.get_ylim()[0], 1e-6), 1.1)
        axes.axvspan(length, longest, color=UNSEEN, zorder=-1, linewidth=0)
        axes.axhline(1 / longest, color="#808080", linewidth=0.6, linestyle=":")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.tick_params(which="minor", length=1)

    return _of_layers(watched, "distance + 1 (tokens)", "mean weight", draw)


def draw_entropy(watched: Watched) -> Figure:
    """The entropy of the weights against the length, a line a head."""
    lengths = np.array(list(watched.entropy))
    ticks = [int(n) for n in doublings(lengths[0], lengths[0], lengths[-1])]

    def draw(axes: Axes, layer: int) -> None:
        values = np.stack([of_layers[layer] for of_layers in watched.entropy.values()])
        for i, head in enumerate(spread(values.shape[1], len(DASHES))):
            draw_line(axes, i, lengths, values[:, head], label=f"head {head + 1}", marker="o")
        axes.plot(lengths, np.log(lengths), color="#808080", linestyle=":", label="uniform")
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, [str(n) for n in ticks])
        axes.set_ylim(0, 1.05 * np.log(lengths[-1]))

    return _of_layers(watched, "length (tokens)", "entropy (nats)", draw)


def _of_layers(watched: Watched, x: str, y: str, draw: Callable[[Axes, int], None]) -> Figure:
    """A panel for each of a few layers, as `draw` fills it, with the names of the lines above."""
    layers = spread(len(watched.by_distance), FEW)
    with styled(line=1.1):
        width = WIDTH * {1: 0.45, 2: 0.8}.get(len(layers), 1.0)
        figure, every = plane(width, 2.0, len(layers))
        for axes, layer in zip(every, layers, strict=True):
            draw(axes, layer)
            axes.set_title(f"layer {layer + 1}", fontsize=7, pad=3)
            axes.set_xlabel(x)
            axes.tick_params(length=2, pad=1.5)
            left, below, wide, high = axes.get_position().bounds
            axes.set_position((left, below, wide, high - 0.14 / figure.get_figheight()))
        every[0].set_ylabel(y)
        name_lines(figure, every[0])
    return figure


def draw_sentence(watched: Watched) -> Figure:
    """The attention of one sentence with its tokens: of the head that looks furthest, and of the
    one that looks least far.
    """
    count = len(watched.sentence)
    distance = np.abs(np.subtract.outer(np.arange(count), np.arange(count)))
    far = np.array([(weights * distance).sum(-1).mean(-1) for weights in watched.maps])
    chosen = [np.unravel_index(index(far), far.shape) for index in (np.argmin, np.argmax)]
    size = min(5.0, 2.2 * 72 / count)
    with styled():
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
