"""A linear map of low rank, then a convolution over the last tokens, and a gate: a vector and a
number for each head, of a layer's input. An encoding with them has the parameters of `draw` among
its own, and the rows that `convolved` returns among its coordinates.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from pe_jax.encoding import Dims, Params
from pe_jax.geometry import uniform


def draw(key: Key[Array, ""], dims: Dims, rank: int, taps: int, size: int) -> dict[str, Array]:
    """The two factors of the map, from N(0, 1 / D) and N(0, 1 / rank), the taps for each component
    apart, drawn as in PyTorch, and the gate's u, from N(0, 1 / D), and b, 0.
    """
    D, H = dims.model, dims.heads
    of_map, of_gate = jax.random.split(key)
    low, high, tap = jax.random.split(of_map, 3)
    return {
        "low": D**-0.5 * jax.random.normal(low, (D, rank)),
        "high": rank**-0.5 * jax.random.normal(high, (rank, H, size)),
        "taps": uniform(tap, (taps, H, size), taps),
        "u": D**-0.5 * jax.random.normal(of_gate, (D, H)),
        "b": jnp.zeros(H),
    }


def gate(params: Params, x: Float[Array, "L D"]) -> Float[Array, "L H"]:
    """sigmoid(u . x + b), a number for each head."""
    return jax.nn.sigmoid(x @ params["u"] + params["b"][None])


def convolved(
    params: Params, x: Float[Array, "L D"], before: Float[Array, "earlier R"] | None
) -> tuple[Float[Array, "L H K"], Float[Array, "L earlier R"]]:
    """(sum_d taps_d * (x_{t - d} low high), d from 0, for each token t; for each token the rows
    x low of itself and those before it that the next token sees, the latest first).

    `before` is the last of these from the call before; None: zeros come before the first token.
    """
    rows, taps = x @ params["low"], len(params["taps"])
    first = jnp.zeros((taps - 1, rows.shape[1])) if before is None else before[::-1]
    all_rows = jnp.concatenate([first, rows])
    last = [all_rows[taps - 1 - d : taps - 1 - d + len(x)] for d in range(taps)]
    recent = jnp.stack(last, axis=1)
    kernel = params["taps"][:, None] * params["high"][None]
    return jnp.einsum("ldr,drhk->lhk", recent, kernel), recent[:, : taps - 1]
