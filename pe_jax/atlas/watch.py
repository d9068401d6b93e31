"""The attention of a trained model on its own text, or on samples of its task.

An encoding that changes nothing stands behind the model's own, in each layer, and hands over the
logits that it gets to see: the model itself is run as it is.

Axes: W sequences, T tokens, H heads, Q some of the queries, S tokens of the sentence.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Float, Int

from pe_jax.attention.bound import Bound
from pe_jax.compose.layers import active
from pe_jax.encoding import Encoding, seen
from pe_jax.model.lm import LM
from pe_jax.record import Begun
from pe_jax.runs.trained import Trained
from pe_jax.storage import records
from pe_jax.training.step import structure

SEQUENCES = 16
"""Of each length, from different places of the text."""
SENTENCE = 40
"""Tokens of the sequence whose attention is drawn with its tokens as labels."""
MOST = 1024
"""No sequence is longer than this, or than the training length."""


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
    (text, sentence), length = _read(model), model.run.train.length
    limits = [n for e in model.run.encodings if (n := e.limit()) is not None]
    most = min([text.shape[1], max(MOST, length), *limits])
    lengths = [n for n in (length, 2 * length, 4 * length) if n <= most] or [most]
    entropy, nearest = {}, []
    for n in lengths:
        rows = [attention(model, sequence[:n]) for sequence in text]
        layers = [np.stack([row[layer] for row in rows]) for layer in range(len(rows[0]))]
        last = slice(n - max(1, n // 8), n)
        entropy[n] = [_entropy(weights[:, :, last]).mean((0, 2)) for weights in layers]
        nearest = [_by_distance(weights, last) for weights in layers]
    shown = sentence[:most]
    return Watched(nearest, entropy, _labels(model, shown), attention(model, shown))


def _by_distance(weights: Float[np.ndarray, "W H T T"], last: slice) -> Float[np.ndarray, "H T"]:
    """The mean weight at each distance, of these queries."""
    queries = range(*last.indices(weights.shape[2]))
    rows, (H, T) = weights.mean(0), weights.shape[1::2]
    within = [np.bincount(np.abs(np.arange(T) - q), row[q], T) for row in rows for q in queries]
    return np.reshape(within, (H, -1, T)).mean(1)


def attention(model: Trained, tokens: Int[np.ndarray, "T"]) -> list[Float[np.ndarray, "H T T"]]:
    """The weights of every query of one sequence, in each layer, before gates."""
    found: dict[int, np.ndarray] = {}
    made = tuple(e.at(len(tokens)) for e in model.run.encodings)
    dims = made[0].dims

    def of(layer: int) -> Encoding:
        def told(logits):
            found[layer] = np.array(logits)

        return _Watch(dims, told=told, layers=f"{layer}:{layer + 1}")

    watching = tuple(of(layer) for layer in range(dims.layers))
    dense = dataclasses.replace(model.run.lm, attention="dense")
    graphdef, _ = structure(dense, model.run.encodings)
    lm = nnx.merge(graphdef, jax.tree.map(jnp.asarray, model.params))
    lm(jnp.asarray(tokens)[None], encodings=made + watching, key=jax.random.key(0))
    jax.effects_barrier()
    return [_weights(lm, made, layer, found[layer]) for layer in range(dims.layers)]


def _weights(
    lm: LM, made: Sequence[Encoding], layer: int, logits: np.ndarray
) -> Float[np.ndarray, "H T T"]:
    here = [i for i, e in enumerate(made) if active(e, layer)]
    params = tuple(lm.params_of(i, layer) for i in here)
    pe = Bound(params, tuple(made[i] for i in here), causal=made[0].dims.causal)
    s = jnp.asarray(logits)
    return np.asarray(jnp.where(seen(s), pe.normalize(s), 0.0))


def _read(model: Trained) -> tuple[Int[np.ndarray, "W T"], Int[np.ndarray, "S"]]:
    """(sequences of four training lengths, or of fewer tokens where there is less text, one
    sentence), from the text that is evaluated, or samples of the task.
    """
    run, length = model.run, model.run.train.length
    wanted = min(4 * length, max(MOST, length))
    if not run.task.reads_text:
        keys = jax.random.split(jax.random.key(0), SEQUENCES)
        n = next(n for n in (4 * length, 2 * length, length) if run.task.has(n))
        drawn = np.asarray(jax.vmap(lambda key: run.task.sample(key, jnp.int32(n), n).tokens)(keys))
        return drawn, drawn[0, :SENTENCE]
    begun = records.read(Begun, model.folder / "config.json")
    assert begun is not None  # the model was restored from this folder
    tokens = run.load_scored(model.tokenizer, begun.corpus.hash)
    documents = sorted(tokens.splits[run.eval.split], key=len, reverse=True)
    long = [d for d in documents if len(d) >= wanted] or documents[:1]
    size = min(wanted, min(map(len, long)))
    rng, out = np.random.default_rng(0), []
    for i in range(SEQUENCES):
        document = long[i % len(long)]
        start = int(rng.integers(0, len(document) - size + 1))
        out.append(document[start : start + size])
    return np.stack(out).astype(np.int32), _sentence(model, documents)


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
    return documents[0][:SENTENCE].astype(np.int32)


def _labels(model: Trained, tokens: Int[np.ndarray, "T"]) -> list[str]:
    """Each token as text; spaces and line ends as signs that can be seen."""
    texts = [model.tokenizer.decode(np.array([token])) for token in tokens]
    signs = str.maketrans({" ": "␣", "\n": "↵", "\t": "→", "\r": "←"})
    return [text.decode("utf-8", "replace").translate(signs) for text in texts]


def _entropy(weights: Float[np.ndarray, "W H Q T"]) -> Float[np.ndarray, "W H Q"]:
    return -(weights * np.log(np.maximum(weights, 1e-30))).sum(-1)
