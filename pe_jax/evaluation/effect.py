"""Whether a swap changes what a model does, found by a probe of its encodings before any training.

Two passes are alike if a layer gives the same outputs under the encodings of both, for random
inputs at places all over a sequence of the pass's length: its first and last ones, and others
between, at all distances.
"""

from __future__ import annotations

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from pe_jax.attention.bound import Bound, fold_positions
from pe_jax.attention.dense import attend
from pe_jax.attention.rows import Rows
from pe_jax.encoding import Encoding, Params, acts_once, overrides
from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.passes import Pass, plan
from pe_jax.model.parameters import init_params, noisy
from pe_jax.spec.layers import active
from pe_jax.task import Task
from pe_jax.tasks.text import TEXT

ALIKE = 1e-6
"""Outputs, of the order of 1, that differ by no more are those of the same function."""


def check(
    encodings: tuple[Encoding, ...], config: EvalConfig, segment: int = 0, task: Task = TEXT
) -> None:
    """ValueError for a swap or a memory that is not possible with these encodings, and for a swap
    that has no effect at any length. The window that every evaluation swaps in by default may have
    none: where no sequence is longer than the window.
    """
    passes = plan(encodings, config, segment, task)
    for name, ways in itertools.groupby(passes, key=lambda part: part.swap):
        asked = name in config.swaps and name not in EvalConfig.swaps
        pairs = zip(passes, ways, strict=False)  # the first passes are those as trained
        if asked and all(alike(*pair) for pair in reversed([*pairs])):
            lengths = ", ".join(map(str, config.lengths))
            raise ValueError(
                f"the swap {name!r} had no effect: at every evaluated length ({lengths}) it does "
                "what the model does as trained; change its fields or eval.lengths, or leave it out"
            )


@functools.cache
def alike(trained: Pass, swapped: Pass) -> bool:
    """Whether the pass with a swap gives what the one without it gives, for any parameters."""
    tokens = trained.task.size(trained.length)
    if trained.beyond != swapped.beyond:
        return False
    if trained.beyond is not None or trained.computed(tokens) == swapped.computed(tokens):
        return True
    outputs = (_outputs(trained.encodings, part.encodings, tokens) for part in (trained, swapped))
    pairs = zip(*outputs, strict=True)
    return all(np.allclose(a, b, rtol=0, atol=ALIKE, equal_nan=True) for a, b in pairs)


def _outputs(
    owners: tuple[Encoding, ...], encodings: tuple[Encoding, ...], length: int
) -> list[Float[Array, "T H K"]]:
    """The outputs of each layer for the same inputs, with the parameters of `owners`."""
    dims, places = encodings[0].dims, _places(length)
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(len(places), dims.model)), jnp.float32)
    q, k, v = jnp.asarray(rng.normal(size=(3, len(places), dims.heads, dims.head)), jnp.float32)
    tokens = jnp.asarray(rng.integers(0, dims.vocab, len(places)), jnp.int32)
    folded = fold_positions(encodings, tokens[None], places, jax.random.key(0), False)
    pos = folded.reshape(len(places))
    x = _embedded(owners, encodings, None, x, tokens, pos)
    outputs = []
    for layer in range(dims.layers):
        here = [i for i, e in enumerate(encodings) if active(e, layer)]
        params = tuple(_params(owners, i, layer) for i in here)
        pe = Bound(params, tuple(encodings[i] for i in here), contiguous=False, causal=dims.causal)
        inner = _embedded(owners, encodings, layer, x, tokens, pos)
        rows = Rows(places, pos, pe.locate(inner, pos))
        added = jnp.resize(inner, q.shape)  # what `embed` changes reaches queries, keys and values
        outputs.append(attend(pe, q + added, k + added, v + added, rows, rows))
    return outputs


def _places(length: int) -> Int[Array, "L"]:
    """Up to 32 places of a sequence: the ends, and between them ever further from the start."""
    ends = np.arange(8)
    between = np.geomspace(1, length, 16).astype(int) - 1
    every = np.concatenate([ends, between, length - 1 - ends])
    return jnp.asarray(np.unique(every.clip(0, length - 1)), jnp.int32)


def _embedded(owners, encodings, layer: int | None, x, tokens, pos):
    """x after the `embed` hooks on the input of a layer, or (None) of the model."""
    for i, e in enumerate(encodings):
        here = acts_once(e) if layer is None else not acts_once(e) and active(e, layer)
        if overrides(e, "embed") and here:
            x = e.embed(_params(owners, i, layer), x, tokens, pos)
    return x


def _params(owners: tuple[Encoding, ...], member: int, layer: int | None) -> Params:
    """Those of a member, drawn anew, with noise, so that none is 0."""
    if member >= len(owners):
        return {}
    shared, owned = init_params(owners[member], jax.random.key(member))
    drawn = shared | ({} if layer is None else owned.get(layer, {}))
    return noisy(drawn, member)
