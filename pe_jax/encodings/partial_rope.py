"""Partial rotary positions: RoPE on the first quarter of each head, as in GPT-NeoX-20B (Black et
al., 2022; arXiv:2204.06745).

The first r = rotary_pct K components, rounded down to an even number, are turned by pos * w_i with
w_i = base^(-2i / r); the others carry content at any distance. rotary_pct = 1 is RoPE. Nothing is
learned. Beyond the training length the slow pairs reach unseen angles, as RoPE's do. What some
published comparisons call "Rotary" is this, at 0.25.
"""

import dataclasses

from pe_jax.encodings.rotary import Rotary
from pe_jax.fields import Fraction
from pe_jax.geometry import inverse_timescales


@dataclasses.dataclass(frozen=True)
class PartialRoPE(Rotary):
    """q and k rotated by their positions, in their first components."""

    rotary_pct: Fraction = 0.25

    def __post_init__(self):
        if not (0 < self.rotary_pct <= 1 and self._size):
            raise ValueError(
                "partial_rope must rotate at least 2 and at most all of a head's "
                f"{self.dims.head} components, got rotary_pct={self.rotary_pct}; "
                f"take one from {2 / self.dims.head} to 1"
            )

    @property
    def _size(self):
        return 2 * int(self.rotary_pct * self.dims.head / 2)

    def _frequencies(self):
        return inverse_timescales(self._size, self.base)
