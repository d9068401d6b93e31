"""EVQ-Cosh: RoPE with frequencies closer together where they are fast (2026; code and formula of
misaya-yang/hybrid-rope).

w_i = base^(-phi_i), phi_i = 1 - asinh((1 - u_i) sinh tau) / tau, u_i = (i + 1/2) / (K / 2),
i < K / 2. A small tau gives RoPE's even spacing of ln w, half a step further down; a large one
moves pairs from the slow end to the fast one. Nothing is learned. Beyond the training length L slow
pairs reach angles that were never seen, as RoPE's do, and fewer pairs are so slow.

tau is K / sqrt(L) unless given, the authors' rule; later notes of theirs bound it below by 1.4.
"""

import dataclasses
from typing import Annotated

import jax.numpy as jnp
import msgspec
import numpy as np

from pe_jax.encodings.rotary import Rotary


@dataclasses.dataclass(frozen=True)
class EVQCosh(Rotary):
    """q and k rotated by their positions, by a table of frequencies that tau bends."""

    tau: Annotated[float, msgspec.Meta(gt=0, le=700)] | None = None  # sinh ends at 710
    """None: the head size divided by the square root of the training length."""

    def _frequencies(self):
        K = self._size
        tau = K / self.dims.train_len**0.5 if self.tau is None else self.tau
        u = (np.arange(K // 2) + 0.5) / (K // 2)
        phi = 1 - np.arcsinh((1 - u) * np.sinh(tau)) / tau
        return jnp.asarray(self.base**-phi, jnp.float32)
