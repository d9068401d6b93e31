"""Attention by our forms and by JAX's own, on inputs [B, T, H, K] of any encodings.

JAX's `jax.nn.dot_product_attention`, by cuDNN on a GPU, takes rotated queries and keys and explicit
biases. Axes: B sequences, T tokens, H heads, K head size.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from pe_jax.attention.bound import Bound
from pe_jax.attention.rows import Rows
from pe_jax.encoding import Dims
from pe_jax.model.lm import init_params
from pe_jax.specs.parse import make


@dataclasses.dataclass(frozen=True)
class Sizes:
    """B, T, H and K."""

    batch: int
    length: int
    heads: int
    head: int

    def dims(self) -> Dims:
        """The sizes of a model of one layer, trained at T."""
        return Dims(self.heads * self.head, self.heads, self.head, 1, self.length, 256)


def inputs(spec: str, sizes: Sizes) -> tuple[Any, tuple[Any, ...]]:
    """(parameters of the encodings, q, k, v and the weights of the outputs in the sum that is
    differentiated), all normally distributed; vectors are bfloat16.
    """
    shape = sizes.batch, sizes.length, sizes.heads, sizes.head
    keys = jax.random.split(jax.random.key(0), 4)
    vectors = tuple(jax.random.normal(key, shape, jnp.bfloat16) for key in keys)
    shared = tuple(init_params(e, jax.random.key(1))[0] for e in make(spec, sizes.dims()))
    leaves, tree = jax.tree.flatten(shared)
    drawn = [jax.random.normal(jax.random.key(i), a.shape) for i, a in enumerate(leaves)]
    return jax.tree.unflatten(tree, drawn), vectors


def bound(spec: str, sizes: Sizes, params: Any) -> tuple[Bound, Rows]:
    """The encodings with these parameters, and the T tokens."""
    pe, tokens = Bound(params, make(spec, sizes.dims())), jnp.arange(sizes.length)
    rows = Rows(tokens, tokens, (tokens,) * len(pe.encodings))
    return pe.tabulated(sizes.length, sizes.length), rows


def ours_of(spec: str, sizes: Sizes, form: Callable, params: Any, q, k, v) -> Any:
    """One of our forms, for a batch."""
    pe, rows = bound(spec, sizes, params)
    return jax.vmap(lambda q, k, v: form(pe, q, k, v, rows, rows))(q, k, v)


def of_jax(implementation: Any, spec: str, sizes: Sizes, params: Any, q, k, v) -> Any:
    """JAX's own attention, with the rotation, the bias and the window of the encodings."""
    pe, rows = bound(spec, sizes, params)
    q, k = jax.vmap(lambda q, k: pe.qk(q, k, rows.coords, rows.coords))(q, k)
    bias = None
    if pe.has("relative_bias"):
        table = pe.relative("relative_bias", jnp.arange(sizes.length))
        table = jnp.broadcast_to(table, (sizes.heads, sizes.length))
        distances = jnp.maximum(rows.pos[:, None] - rows.pos[None], 0)
        bias = table[None, :, distances].astype(q.dtype)
    window = min((window for window, _ in pe.reach), default=None)
    return jax.nn.dot_product_attention(
        q,
        k,
        v,
        bias=bias,
        is_causal=True,
        local_window_size=None if window is None else (window - 1, 0),
        implementation=implementation,
    )
