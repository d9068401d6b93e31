"""Dual chunk attention, DCA: exact distances in a chunk, a constant beyond (An et al., 2024;
arXiv:2402.17463).

Positions are cut into chunks of s, and w = c - s, c the training length. RoPE at distance i - j for
keys in the query's chunk, and in the one before it for the first w queries of a chunk; at distance
c - 1 - (j mod s) for all other pairs. Nothing is learned. Up to c tokens this is RoPE. Beyond, no
distance reaches c; far chunks differ by content alone, their keys by their places in them.

s is 3 c / 4, as in the paper. The authors' code has chunks of 11 c / 16, w of c / 16 and at most
3 c / 4 for c - 1, and divides positions further at very long texts.
"""

import dataclasses

import jax.numpy as jnp

from pe_jax.encodings.rotary import Remapped
from pe_jax.fields import Count


@dataclasses.dataclass(frozen=True)
class Chunk(Remapped):
    """q and k rotated by their distance within a chunk and by at most c - 1 beyond."""

    chunk: Count | None = None
    """s. None: three quarters of the training length."""
    local: Count | None = None
    """w, so that c = s + w. None: what is left of the training length, and at least 1."""

    @property
    def _sizes(self) -> tuple[int, int]:
        L = self.dims.train_len
        s = max(1, 3 * L // 4) if self.chunk is None else self.chunk
        return s, max(1, L - s) if self.local is None else self.local

    def far(self, q_pos, k_pos):
        s, w = self._sizes
        apart = q_pos[:, None] // s - k_pos[None] // s
        return (apart > 1) | ((apart == 1) & (q_pos % s >= w)[:, None])

    def far_positions(self, q_pos, k_pos):
        s, w = self._sizes
        return jnp.full_like(q_pos, s + w - 1), k_pos % s
