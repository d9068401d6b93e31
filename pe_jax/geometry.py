"""Functions of positions and distances that encodings and attention share, and of positions that
are not given but counted (CoPE).

All are computed in int32 or float32, whatever the activations' dtype: bfloat16 cannot tell position
256 from 257.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, Num


def inverse_timescales(size: int, base: float = 10000.0) -> Float[Array, "half"]:
    """w_i = base^(-2i / size) for i < size / 2: radians a position (Vaswani et al., 2017)."""
    return jnp.asarray(base ** -(np.arange(0, size, 2) / size), jnp.float32)


def angles(pos: Num[Array, "L"], frequencies: Float[Array, "half"]) -> Float[Array, "L half"]:
    """pos * w_i in float32: about 0.002 rad of error at position 1e5 for w = 1, 0.02 at 1e6."""
    return pos.astype(jnp.float32)[:, None] * frequencies[None]


def rotate(x: Float[Array, "L H K"], angle: Float[Array, "L half"]) -> Float[Array, "L H K"]:
    """Turns each pair (x_i, x_{i + half}), i < half, by its angle; components beyond stay.

    In float32, returned in x's dtype.
    """
    half = angle.shape[-1]
    cos, sin = jnp.cos(angle)[:, None], jnp.sin(angle)[:, None]
    a, b, rest = jnp.split(x.astype(jnp.float32), (half, 2 * half), axis=-1)
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos, rest], -1).astype(x.dtype)


def whole(pos: Num[Array, "L"]) -> Int[Array, "L"]:
    """The positions; ValueError if they are no integers."""
    if not jnp.issubdtype(pos.dtype, jnp.integer):
        raise ValueError(
            "this encoding is defined at whole positions, and those given are fractional: leave "
            "out the member that makes them so, or take a function of the position (sinusoidal, "
            "floater)"
        )
    return pos


def lookup(
    table: Float[Array, "N D"], pos: Num[Array, "L"], clip: bool = False
) -> Float[Array, "L D"]:
    """table[pos]: beyond the table NaN (a plain gather would give the last row), or clipped."""
    return table.at[whole(pos)].get(mode="clip" if clip else "fill", fill_value=jnp.nan)


def log_bucket(
    n: Num[Array, "N"], buckets: int, max_distance: int, causal: bool
) -> Int[Array, "N"]:
    """T5's bucket of the distance n = i - j (Raffel et al., 2020; arXiv:1910.10683).

    One side has e exact buckets, then logarithmic ones: with B buckets a side and e = B / 2,
    bucket(n) = n below e, else min(B - 1, e + floor(ln(n / e) / ln(max_distance / e) * (B - e))).
    Causal: every bucket serves n >= 0, and negative distances fall into bucket 0. Bidirectional:
    half of them serve each side, the second half the keys after the query (n < 0).
    """
    side = buckets if causal else buckets // 2
    n = n.astype(jnp.int32)
    offset = 0 if causal else jnp.where(n < 0, side, 0)
    n = jnp.maximum(n, 0) if causal else jnp.abs(n)
    exact = side // 2
    ratio = jnp.log(jnp.maximum(n, exact).astype(jnp.float32) / exact) / math.log(
        max_distance / exact
    )
    far = jnp.minimum(exact + (ratio * (side - exact)).astype(jnp.int32), side - 1)
    return offset + jnp.where(n < exact, n, far)


def clamp(x: Float[Array, "..."], low: float, high: float = math.inf) -> Float[Array, "..."]:
    """x within [low, high], with the gradient of x: a parameter beyond the bounds still learns."""
    return x + jax.lax.stop_gradient(jnp.clip(x, low, high) - x)


def slopes(heads: int) -> np.ndarray:
    """ALiBi's slopes m_h = 2^(-8 h / H), h = 1 .. H (Press et al., 2022; arXiv:2108.12409).

    For H that is not a power of two the authors' code takes those of the next lower power, then
    every second one of twice that power; the paper does not say.
    """

    def geometric(count: int) -> np.ndarray:
        return 2.0 ** (-8.0 * np.arange(1, count + 1) / count)

    floor = 2 ** int(math.log2(heads))
    return np.concatenate([geometric(floor), geometric(2 * floor)[::2][: heads - floor]])


def mlp_init(key: Key[Array, ""], sizes: Sequence[int]) -> dict[str, Array]:
    """Weights w1, w2, .. and biases b1, .. of `mlp`, all U(-1, 1) / sqrt(inputs), as in PyTorch."""
    params = {}
    for i, (inputs, outputs) in enumerate(itertools.pairwise(sizes), 1):
        w, b = jax.random.split(jax.random.fold_in(key, i))
        most = inputs**-0.5
        params[f"w{i}"] = jax.random.uniform(w, (inputs, outputs), minval=-most, maxval=most)
        if i + 1 < len(sizes):
            params[f"b{i}"] = jax.random.uniform(b, (outputs,), minval=-most, maxval=most)
    return params


def mlp(params: dict[str, Array], x: Float[Array, "*any inputs"]) -> Float[Array, "*any outputs"]:
    """ReLU layers, then a linear one. It has no bias, which would cancel in the softmax."""
    i = 1
    while f"b{i}" in params:
        x = jax.nn.relu(x @ params[f"w{i}"] + jnp.expand_dims(params[f"b{i}"], range(x.ndim - 1)))
        i += 1
    return x @ params[f"w{i}"]


def suffix_sums(x: Float[Array, "*lead S"], block: int = 32) -> Float[Array, "*lead S"]:
    """sum_{t >= j} x_t at each j of the last axis.

    Within blocks by a product with a triangle: a cumulative sum is slow on XLA's CPU.
    """
    *lead, S = x.shape
    x = jnp.pad(x, [(0, 0)] * len(lead) + [(0, -S % block)]).reshape(*lead, -1, block)
    inside = jnp.matmul(x, jnp.tril(jnp.ones((block, block))), precision="highest")
    sums = inside[..., 0]
    later = jnp.cumsum(sums[..., ::-1], axis=-1)[..., ::-1] - sums
    return (inside + later[..., None]).reshape(*lead, -1)[..., :S]


@jax.custom_vjp
def lookup_between(
    table: Float[Array, "*lead R"], count: Float[Array, "*lead S"]
) -> Float[Array, "*lead S"]:
    """table[count], interpolated linearly between its entries; 0 <= count <= R - 1.

    Its gradient is right only if counts fall along their last axis. Then the keys that read one
    entry stand side by side, and their sums replace a gather's gradient, a scatter, which is slow
    on XLA's CPU.
    """
    return _lookup_between(table, count)[0]


def _lookup_between(table, count):
    rows = jnp.arange(table.shape[-1])
    below = jnp.minimum(count.astype(jnp.int32), len(rows) - 2)
    low, high = (jnp.take_along_axis(table, row, axis=-1) for row in (below, below + 1))
    part, step = count - below, high - low
    return low + part * step, (rows, below, part, step)


def _lookup_between_gradient(kept, slope):
    rows, below, part, step = kept
    find = functools.partial(jnp.searchsorted, side="right")
    for _ in below.shape[:-1]:
        find = jax.vmap(find, in_axes=(0, None))
    ends = find(-below, -rows)  # of each entry: how many keys read it or a later one

    def sums_of_entries(x, before, after):
        tails = jnp.pad(suffix_sums(x), [(0, 0)] * (x.ndim - 1) + [(0, 1)])
        tails = jnp.take_along_axis(tails, ends, axis=-1)
        sums = tails[..., 1:] - tails[..., :-1]
        return jnp.pad(sums, [(0, 0)] * (x.ndim - 1) + [(before, after)])

    upper = part * slope
    return sums_of_entries(slope - upper, 0, 1) + sums_of_entries(upper, 1, 0), step * slope


lookup_between.defvjp(_lookup_between, _lookup_between_gradient)
