"""The attention weights of a trained model on its own text, or on samples of its task.

The model is run as it is. Behind its own encodings each layer gets one more, which changes nothing
and hands over the logits.

Axes: W sequences, T tokens, H heads, Q some of the queries.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Float, Int

from pe_jax.attention.bound import Bound
from pe_jax.encoding import Encoding, mixes, seen
from pe_jax.model.config import LmConfig
from pe_jax.runs.trained import Trained
from pe_jax.specs.parse import active
from pe_jax.training.step import structure

SEQUENCES = 16
"""Sequences, from different places of the text."""
MOST = 1024
"""Tokens of the longest sequence, unless the training length is longer."""


@dataclasses.dataclass(frozen=True)
class _Watch(Encoding):
    """Hands the logits of its layer to `report`."""

    whole_rows: ClassVar[bool] = True
    report: Callable[[Any], None] = print

    def logits(self, params, logits, q, k, q_pos, k_pos):
        jax.debug.callback(self.report, logits)
        return logits


def of_model(model: Trained) -> list[Float[np.ndarray, "H T"]]:
    """By layer with attention, the mean weight that a head gives to the key at each distance, of
    the last eighth of the queries of `sequences`. ValueError or Refused if the model's text is not
    there.
    """
    texts = sequences(model)
    T = texts.shape[1]
    last = max(1, T // 8)  # the whole rows of all sequences would be gigabytes
    rows = [[w[:, -last:].copy() for w in attention(model, text)] for text in texts]
    back = np.arange(T - last, T)[:, None] - np.arange(T)
    visible = back >= 0 if model.run.lm.causal else np.full(back.shape, True)
    distance = abs(back)[visible]
    means = [np.mean(of_layer, 0)[:, visible] for of_layer in zip(*rows, strict=True)]
    sums = [np.stack([np.bincount(distance, head) for head in mean]) for mean in means]
    return [each / np.bincount(distance) for each in sums]


def attention(model: Trained, tokens: Int[np.ndarray, "T"]) -> list[Float[np.ndarray, "H T T"]]:
    """The weights of every query of one sequence, in each layer, before gates."""
    made = tuple(e.at(len(tokens)) for e in model.run.encodings)
    dense = dataclasses.replace(model.run.lm, attention="dense")
    run, logits = _program(dense, model.run.encodings, made)
    run(model.params, np.asarray(tokens, np.int32)[None]).block_until_ready()
    jax.effects_barrier()
    lm, weights = nnx.merge(model.graphdef, jax.device_put(model.params)), []
    for layer in sorted(logits):
        acting = [i for i, e in enumerate(made) if active(e, layer)]
        own = tuple(lm.params_of(i, layer) for i in acting)
        pe = Bound(own, tuple(made[i] for i in acting), causal=made[0].dims.causal)
        s = jnp.asarray(logits[layer])
        weights.append(np.where(seen(s), pe.normalize(s), 0.0))
    return weights


# (run(params, tokens [1, T]), the logits that it leaves, by layer). The sequences of a length share
# it.
@functools.lru_cache(maxsize=4)
def _program(
    config: LmConfig, encodings: tuple[Encoding, ...], made: tuple[Encoding, ...]
) -> tuple[Callable, dict[int, np.ndarray]]:
    graphdef, _ = structure(config, encodings)
    logits: dict[int, np.ndarray] = {}
    watching = tuple(
        _Watch(
            made[0].dims,
            report=lambda values, layer=layer: logits.update({layer: np.array(values)}),
            layers=f"{layer}:{layer + 1}",
        )
        for layer in range(config.layers)
        if not any(mixes(e) and active(e, layer) for e in made)
    )

    @jax.jit
    def run(params, tokens):
        lm = nnx.merge(graphdef, params, copy=True)
        return lm(tokens, encodings=made + watching, key=jax.random.key(0))[0]

    return run, logits


def sequences(model: Trained, count: int | None = None) -> Int[np.ndarray, "W T"]:
    """Sequences, SEQUENCES or `count`, of four training lengths of the text that is evaluated, or
    the longest samples of the task of one, two or four; of fewer tokens where there is less text,
    or where the encodings serve fewer.
    """
    run, length, count = model.run, model.run.train.length, count or SEQUENCES
    limits = [n for e in run.encodings if (n := e.limit()) is not None]
    most = min([max(MOST, run.encodings[0].dims.train_len), *limits])
    if not run.task.reads_text:
        keys = jax.random.split(jax.random.key(0), count)
        lengths = [n for n in (length, 2 * length, 4 * length) if run.task.has(n)]
        longest = max((n for n in lengths if run.task.size(n) <= most), default=min(lengths))
        drawn = jax.vmap(lambda key: run.task.sample(key, jnp.int32(longest), longest).tokens)(keys)
        return np.asarray(drawn)[:, :most]
    tokens = run.load().scored
    documents = sorted(tokens.splits[run.eval.split], key=len, reverse=True)
    most = min(4 * length, most)
    long = [d for d in documents if len(d) >= most] or documents[:1]
    size = min(most, len(long[-1]))
    rng, cuts = np.random.default_rng(0), []
    for i in range(count):
        document = long[i % len(long)]
        start = int(rng.integers(0, len(document) - size + 1))
        cuts.append(document[start : start + size])
    windows = np.stack(cuts).astype(np.int32)
    if (bos := model.tokenizer.bos) is not None:
        windows[:, 0] = bos
    return windows
