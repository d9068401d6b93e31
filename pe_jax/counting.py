"""Positions that are counted, not given: sums over the keys to come, and a table read at them.

Both are what a cumulative sum and a gather do, which XLA's CPU is slow at: a product with a
triangle instead, and for the gradient sums over runs of keys instead of a scatter.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def suffix_sums(x: Float[Array, "*lead S"], block: int = 32) -> Float[Array, "*lead S"]:
    """sum_{t >= j} x_t at each j of the last axis."""
    *lead, S = x.shape
    x = jnp.pad(x, [(0, 0)] * len(lead) + [(0, -S % block)]).reshape(*lead, -1, block)
    inside = jnp.matmul(x, jnp.tril(jnp.ones((block, block))), precision="highest")
    whole = inside[..., 0]
    later = jnp.cumsum(whole[..., ::-1], axis=-1)[..., ::-1] - whole
    return (inside + later[..., None]).reshape(*lead, -1)[..., :S]


@jax.custom_vjp
def read(table: Float[Array, "*lead R"], count: Float[Array, "*lead S"]) -> Float[Array, "*lead S"]:
    """table[count], linear between its entries; 0 <= count <= R - 1.

    For the gradient, counts must fall along their last axis: keys that read one entry are a run.
    """
    return _read(table, count)[0]


def _read(table, count):
    rows = jnp.arange(table.shape[-1])
    below = jnp.minimum(count.astype(jnp.int32), len(rows) - 2)
    low, high = (jnp.take_along_axis(table, row, axis=-1) for row in (below, below + 1))
    part, step = count - below, high - low
    return low + part * step, (rows, below, part, step)


def _gradient(kept, slope):
    rows, below, part, step = kept
    find = functools.partial(jnp.searchsorted, side="right")
    for _ in below.shape[:-1]:
        find = jax.vmap(find, in_axes=(0, None))
    ends = find(-below, -rows)  # where the run of each row ends: that many keys read it or a later

    def runs(x, before, after):
        tails = jnp.pad(suffix_sums(x), [(0, 0)] * (x.ndim - 1) + [(0, 1)])
        tails = jnp.take_along_axis(tails, ends, axis=-1)
        sums = tails[..., 1:] - tails[..., :-1]
        return jnp.pad(sums, [(0, 0)] * (x.ndim - 1) + [(before, after)])

    upper = part * slope
    return runs(slope - upper, 0, 1) + runs(upper, 1, 0), step * slope


read.defvjp(_read, _gradient)
