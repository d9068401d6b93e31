"""Linear recurrences of a matrix for each head, by chunks of tokens: what mixers share, from their
projections to their output.

Axes: L tokens, H heads, K head size, D model size; N chunks of C tokens.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from pe_jax.encoding import Dims, Params
from pe_jax.geometry import inverse, uniform, wide

CHUNK = {True: 64, False: 16}
"""Tokens of a chunk, where heads have one decay, and where components have decays of their own."""


def draw(key: Key[Array, ""], dims: Dims, taps: int = 0) -> dict[str, Array]:
    """The matrices of queries, keys and values, from N(0, 1 / D), of the output, scaled as
    attention's, the scales of `normed`, 1, and unless `taps` is 0 of a convolution.
    """
    D, H, K = dims.model, dims.heads, dims.head
    of_qkv, of_out, of_taps = jax.random.split(key, 3)
    std = (2 * dims.layers * H * K) ** -0.5
    drawn = {
        "qkv_kernel": D**-0.5 * jax.random.normal(of_qkv, (D, 3, H, K)),
        "out_kernel": std * jax.random.normal(of_out, (H, K, D)),
        "scale": jnp.ones(K),
    }
    return drawn | ({"taps": uniform(of_taps, (taps, 3, H, K), taps)} if taps else {})


def linear(x: Float[Array, "L D"], kernel: Array) -> Float[Array, "L ..."]:
    """x times a matrix, in x's dtype, returned as `wide`."""
    return wide(jnp.tensordot(x, kernel.astype(x.dtype), 1))


def convolved(
    taps: Float[Array, "taps ..."], x: Float[Array, "L ..."], before: Array | None
) -> tuple[Float[Array, "L ..."], Array]:
    """(silu(sum_d taps_d x_{t - d}), d from 0, each component by itself; the last rows of x, which
    the next call gets as `before`). None: zeros come before the first token.
    """
    earlier, L = len(taps) - 1, len(x)
    before = jnp.zeros((earlier, *x.shape[1:]), x.dtype) if before is None else before
    rows = jnp.concatenate([before, x])
    terms = [tap[None] * rows[earlier - d : earlier - d + L] for d, tap in enumerate(taps)]
    return jax.nn.silu(sum(terms)), rows[L:]


def unit(x: Float[Array, "L H K"]) -> Float[Array, "L H K"]:
    """Vectors of length 1."""
    return x * jax.lax.rsqrt((x**2).sum(-1, keepdims=True) + 1e-6)


def normed(params: Params, o: Float[Array, "L H K"]) -> Float[Array, "L H K"]:
    """The outputs of each head by their root mean square, times `scale`."""
    return o * jax.lax.rsqrt((o**2).mean(-1, keepdims=True) + 1e-5) * params["scale"][None, None]


def out(params: Params, o: Float[Array, "L H K"], like: Float[Array, "L D"]):
    """The outputs of all heads, times the matrix of the output, in the dtype of `like`."""
    return jnp.tensordot(o.astype(like.dtype), params["out_kernel"].astype(like.dtype), 2)


def log_decay(params: Params, x: Float[Array, "L H ..."]) -> Float[Array, "L H ..."]:
    """ln a = -exp(rate) softplus(x + bias), as in Mamba 2; `rate` is a number for each head."""
    rate = params["rate"].reshape(1, -1, *[1] * (x.ndim - 2))
    return jnp.maximum(-jnp.exp(rate) * jax.nn.softplus(x + params["decay_bias"][None]), -30.0)


def draw_decay(key: Key[Array, ""], heads: int, size: tuple[int, ...]) -> dict[str, Array]:
    """`rate`, ln U(1, 16), and `decay_bias`, [heads, *size]: softplus of it is from 0.001 to 0.1,
    log-uniform.
    """
    of_rate, of_bias = jax.random.split(key)
    low, high = math.log(0.001), math.log(0.1)
    step = jnp.exp(jax.random.uniform(of_bias, (heads, *size), minval=low, maxval=high))
    rate = jnp.log(jax.random.uniform(of_rate, (heads,), minval=1.0, maxval=16.0))
    return {"rate": rate, "decay_bias": step + jnp.log(-jnp.expm1(-step))}


def recurrence(
    q: Float[Array, "L H K"],
    k: Float[Array, "L H K"],
    v: Float[Array, "L H K"],
    decay: Float[Array, "L H G"],
    beta: Float[Array, "L H"] | None,
    state: Float[Array, "H K K"] | None,
) -> tuple[Float[Array, "L H K"], Float[Array, "H K K"]]:
    """(o, the state after the last token) of o_t = S_t^T q_t and, with beta, the gated delta rule,

        S_t = (I - beta_t k_t k_t^T) Diag(a_t) S_{t-1} + beta_t k_t v_t^T,

    without it S_t = Diag(a_t) S_{t-1} + k_t v_t^T. S is 0 where `state` is None. decay = ln a <= 0
    for each component of the keys (G = K), or for the head (G = 1).

    By chunks (Yang et al., 2024; arXiv:2406.06484). With A the sums of `decay` in a chunk that
    begins with S, S_t = Diag(e^A_t) S + sum_{j <= t} Diag(e^(A_t - A_j)) k_j u_j^T, and the u_t of
    the chunk solve a triangular system. Decays enter as differences of sums that are at most 0, so
    none overflows; ln a is at least -30, since a sum of float32 would lose the others beside it.
    """
    L, H, K = k.shape
    size = min(CHUNK[decay.shape[-1] == 1], 2 ** math.ceil(math.log2(L)))

    def chunks(a):
        a = jnp.pad(a, [(0, -L % size)] + [(0, 0)] * (a.ndim - 1))
        return jnp.swapaxes(a.reshape(-1, size, *a.shape[1:]), 1, 2)

    q, k, v, decay = map(chunks, (q, k, v, decay))
    total = jnp.cumsum(decay, axis=2)
    lower = jnp.tri(size, dtype=bool)[None, None, :, :, None]
    apart = jnp.exp(jnp.where(lower, total[:, :, :, None] - total[:, :, None], -jnp.inf))

    def products(a):
        if apart.shape[-1] == 1:
            return a @ jnp.swapaxes(k, -1, -2) * apart[..., 0]
        return jnp.einsum("nhck,nhcjk->nhcj", a, k[:, :, None] * apart)

    since = jnp.exp(total)
    kept, left = since[:, :, -1], k * jnp.exp(total[:, :, -1:] - total)
    wanted, seen = v, None
    if beta is not None:
        beta = chunks(beta[..., None])
        system = jnp.eye(size)[None, None] + jnp.tril(products(k) * beta, -1)
        flat = jnp.swapaxes(system, -1, -2).reshape(-1, size, size)
        solved = jnp.swapaxes(inverse(flat), -1, -2).reshape(system.shape)
        wanted, seen = solved @ (v * beta), solved @ (k * since * beta)

    def step(S, chunk):
        wanted, seen, kept, left = chunk
        u = wanted if seen is None else wanted - seen @ S
        return kept[..., None] * S + jnp.swapaxes(left, -1, -2) @ u, (S, u)

    start = jnp.zeros((H, K, K), v.dtype) if state is None else state
    end, (S, u) = jax.lax.scan(step, start, (wanted, seen, kept, left))
    o = (q * since) @ S + products(q) @ u
    return jnp.swapaxes(o, 1, 2).reshape(-1, H, K)[:L], end
