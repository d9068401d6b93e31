"""The inverse of a triangular matrix by products of matrices alone, since the gradient of a
triangular solution is slow on XLA's CPU.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def inverse(system: Float[Array, "H n n"]) -> Float[Array, "H n n"]:
    """The inverses of upper triangular matrices with ones on their diagonals, n a power of two:
    from the inverses of blocks on the diagonal those of blocks of twice the size.

    A step of Newton's method at the end leaves the value and has the gradient of an inverse.
    """
    H, n, _ = system.shape
    found = jnp.ones((H, n, 1, 1))
    while (size := found.shape[-1]) < n:
        blocks = system.reshape(H, n // (2 * size), 2 * size, n // (2 * size), 2 * size)
        beside = jnp.moveaxis(jnp.diagonal(blocks, axis1=1, axis2=3), -1, 1)[..., :size, size:]
        first, last = found[:, 0::2], found[:, 1::2]
        corner = -first @ beside @ last
        upper = jnp.concatenate([first, corner], axis=-1)
        lower = jnp.concatenate([jnp.zeros_like(corner), last], axis=-1)
        found = jnp.concatenate([upper, lower], axis=-2)
    found = jax.lax.stop_gradient(found[:, 0])
    return found @ (2 * jnp.eye(n)[None] - system @ found)
