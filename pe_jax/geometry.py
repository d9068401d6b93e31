"""The arithmetic that encodings share: angles, rotations, tables, distance buckets, slopes, small
MLPs, and the sums and interpolated tables of positions that a model counts itself (CoPE).

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

from pe_jax.errors import Refused


def inverse_timescales(size: int, base: float = 10000.0) -> Float[Array, "half"]:
    """w_i = base^(-2i / size), i < size / 2, in radians per position (Vaswani et al., 2017)."""
    return jnp.asarray(base ** -(np.arange(0, size, 2) / size), jnp.float32)


def stretched_timescales(size: int, base: float, scale: float) -> Float[Array, "half"]:
    """`inverse_timescales` of the base at which the last is divided by `scale`; the first is 1."""
    return inverse_timescales(size, base * scale ** (size / max(1, size - 2)))


def ramp(x: Num[Array, "N"], low: float, high: float) -> Float[Array, "N"]:
    """0 up to low, 1 from high on, and linear between."""
    return jnp.clip((x - low) / (high - low), 0.0, 1.0)


def interpolated(w: Float[Array, "N"], kept: Float[Array, "N"], scale: float) -> Float[Array, "N"]:
    """kept w + (1 - kept) w / scale, such that a scale of 1 gives w to the bit."""
    return w * (1 - (1 - kept) * (1 - 1 / scale))


def angles(
    pos: Num[Array, "L"], frequencies: Float[Array, "*heads half"]
) -> Float[Array, "L *heads half"]:
    """pos * w_i in float32. At w = 1 the error is about 0.002 rad at position 1e5, 0.02 at 1e6."""
    pos = jnp.expand_dims(pos.astype(jnp.float32), range(1, 1 + frequencies.ndim))
    return pos * frequencies[None]


def wide(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """In float32, unless it is wider."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def rotate(
    x: Float[Array, "L H K"], angle: Float[Array, "L *heads half"], gain: float = 1.0
) -> Float[Array, "L H K"]:
    """Turns each pair (x_i, x_{i + half}), i < half, by its angle, and makes it `gain` times as
    long; further components stay.

    Heads share the angles [L, half], or have their own, [L, H, half]. Computed in float32 and
    returned in x's dtype.
    """
    half, angle = angle.shape[-1], angle if angle.ndim == 3 else angle[:, None]
    cos, sin = gain * jnp.cos(angle), gain * jnp.sin(angle)
    a, b, rest = jnp.split(wide(x), (half, 2 * half), axis=-1)
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos, rest], -1).astype(x.dtype)


def whole(pos: Num[Array, "L"]) -> Int[Array, "L"]:
    """The positions as they are. Refused if their dtype is not an integer."""
    if not jnp.issubdtype(pos.dtype, jnp.integer):
        raise Refused(
            "this encoding is defined at whole positions, and those given are fractional: leave "
            "out the member that makes them so, or take a function of the position (sinusoidal, "
            "floater)"
        )
    return pos


def lookup(
    table: Float[Array, "N D"], pos: Num[Array, "L"], clip: bool = False
) -> Float[Array, "L D"]:
    """table[pos]. Beyond the table NaN or, with `clip`, its last row, as a plain gather gives."""
    return table.at[whole(pos)].get(mode="clip" if clip else "fill", fill_value=jnp.nan)


def log_bucket(
    n: Num[Array, "N"], buckets: int, max_distance: int, causal: bool
) -> Int[Array, "N"]:
    """T5's bucket of the distance n = i - j (Raffel et al., 2020; arXiv:1910.10683).

    Of the B buckets of one side the first e = B / 2 hold one distance each and the others grow
    logarithmically: bucket(n) = n below e, else
    min(B - 1, e + floor(ln(n / e) / ln(max_distance / e) * (B - e))). Causal: all buckets are for
    n >= 0, and negative distances fall into bucket 0. Bidirectional: the first half is for n >= 0,
    the second for the keys after the query (n < 0).
    """
    side = buckets if causal else buckets // 2
    n = jnp.round(n).astype(jnp.int32)
    offset = 0 if causal else jnp.where(n < 0, side, 0)
    n = jnp.maximum(n, 0) if causal else jnp.abs(n)
    exact = side // 2
    ratio = jnp.log(jnp.maximum(n, exact).astype(jnp.float32) / exact) / math.log(
        max_distance / exact
    )
    # + 1e-5: where a bucket begins, float32 may fall short of a whole number
    far = jnp.minimum(exact + (ratio * (side - exact) + 1e-5).astype(jnp.int32), side - 1)
    return offset + jnp.where(n < exact, n, far)


LARGEST_EXPONENT = 84.0  # float32 ends at e^88; the rest is for what the factor multiplies


def bounded_exp(power: Float[Array, "..."]) -> Float[Array, "..."]:
    """e^power; NaN where |power| is above LARGEST_EXPONENT."""
    return jnp.where(jnp.abs(power) <= LARGEST_EXPONENT, jnp.exp(power), jnp.nan)


def inverse_softplus(x: float) -> float:
    """The y with softplus(y) = ln(1 + e^y) = x > 0."""
    return x + math.log(-math.expm1(-x))


def clamp(x: Float[Array, "..."], low: float, high: float = math.inf) -> Float[Array, "..."]:
    """x clipped to [low, high], with the gradient of x: a parameter out of bounds still learns."""
    return x + jax.lax.stop_gradient(jnp.clip(x, low, high) - x)


def slopes(heads: int) -> np.ndarray:
    """ALiBi's slopes m_h = 2^(-8 h / H), h = 1 .. H (Press et al., 2022; arXiv:2108.12409).

    If H is not a power of two: the slopes of the next lower power, then every second one of twice
    that power, as in the authors' code; the paper does not say.
    """

    def geometric(count: int) -> np.ndarray:
        return 2.0 ** (-8.0 * np.arange(1, count + 1) / count)

    power = 2 ** int(math.log2(heads))
    return np.concatenate([geometric(power), geometric(2 * power)[::2][: heads - power]])


def uniform(key: Key[Array, ""], shape: Sequence[int], inputs: int) -> Float[Array, "..."]:
    """U(-1, 1) / sqrt(inputs), as PyTorch draws the parameters of a linear map."""
    return jax.random.uniform(key, shape, minval=-(inputs**-0.5), maxval=inputs**-0.5)


def mlp_init(key: Key[Array, ""], sizes: Sequence[int]) -> dict[str, Array]:
    """Weights w1, w2, .. and biases b1, .. of `mlp`, drawn by `uniform`; `sizes` of the input, the
    hidden layers and the output.
    """
    params = {}
    for i, (inputs, outputs) in enumerate(itertools.pairwise(sizes), 1):
        w, b = jax.random.split(jax.random.fold_in(key, i))
        params[f"w{i}"] = uniform(w, (inputs, outputs), inputs)
        if i + 1 < len(sizes):
            params[f"b{i}"] = uniform(b, (outputs,), inputs)
    return params


def mlp(params: dict[str, Array], x: Float[Array, "*any inputs"]) -> Float[Array, "*any outputs"]:
    """ReLU layers, then a linear one without a bias, which would cancel in a softmax."""
    i = 1
    while f"b{i}" in params:
        x = jax.nn.relu(x @ params[f"w{i}"] + jnp.expand_dims(params[f"b{i}"], range(x.ndim - 1)))
        i += 1
    return x @ params[f"w{i}"]


def inverse(system: Float[Array, "M n n"]) -> Float[Array, "M n n"]:
    """The inverses of upper triangular matrices with ones on their diagonals, n a power of two.

    From the inverses of blocks on the diagonal those of blocks of twice the size, by products of
    matrices alone, since the gradient of a triangular solution is slow on XLA's CPU. A step of
    Newton's method at the end leaves the value and has the gradient of an inverse.
    """
    M, n, _ = system.shape
    found = jnp.ones((M, n, 1, 1))
    while (size := found.shape[-1]) < n:
        blocks = system.reshape(M, n // (2 * size), 2 * size, n // (2 * size), 2 * size)
        beside = jnp.moveaxis(jnp.diagonal(blocks, axis1=1, axis2=3), -1, 1)[..., :size, size:]
        first, last = found[:, 0::2], found[:, 1::2]
        corner = -first @ beside @ last
        upper = jnp.concatenate([first, corner], axis=-1)
        lower = jnp.concatenate([jnp.zeros_like(corner), last], axis=-1)
        found = jnp.concatenate([upper, lower], axis=-2)
    found = jax.lax.stop_gradient(found[:, 0])
    return found @ (2 * jnp.eye(n)[None] - system @ found)


def suffix_sums(x: Float[Array, "*lead S"], block: int = 32) -> Float[Array, "*lead S"]:
    """sum_{t >= j} x_t at each j of the last axis.

    Within each block of `block` entries the sums are a product with a triangular matrix, since a
    cumulative sum is slow on XLA's CPU.
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

    Counts must not increase along their last axis, but for roundings. Then the keys that read one
    entry stand side by side, and sums over them replace the scatter of a gather's gradient, which
    is slow on XLA's CPU.
    """
    return _lookup_between(table, count)[0]


def _lookup_between(table, count):
    rows = jnp.arange(table.shape[-1])
    below = jax.lax.cummin(jnp.minimum(count.astype(jnp.int32), len(rows) - 2), count.ndim - 1)
    low, high = (jnp.take_along_axis(table, row, axis=-1) for row in (below, below + 1))
    part, step = count - below, high - low
    return low + part * step, (rows, below, part, step)


def _lookup_between_gradient(residuals, cotangent):
    rows, below, part, step = residuals
    find = functools.partial(jnp.searchsorted, side="right")
    for _ in below.shape[:-1]:
        find = jax.vmap(find, in_axes=(0, None))
    ends = find(-below, -rows)  # for each entry, how many keys read it or a later one

    def sums_of_entries(x, before, after):
        tails = jnp.pad(suffix_sums(x), [(0, 0)] * (x.ndim - 1) + [(0, 1)])
        tails = jnp.take_along_axis(tails, ends, axis=-1)
        sums = tails[..., 1:] - tails[..., :-1]
        return jnp.pad(sums, [(0, 0)] * (x.ndim - 1) + [(before, after)])

    upper = part * cotangent
    of_table = sums_of_entries(cotangent - upper, 0, 1) + sums_of_entries(upper, 1, 0)
    return of_table, step * cotangent


lookup_between.defvjp(_lookup_between, _lookup_between_gradient)
