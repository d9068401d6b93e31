"""Rotary positions (Su et al., 2021; arXiv:2104.09864).

Each pair of a query's and a key's components is turned by pos * w_i, w_i = base^(-2i / K), so that
q_i . k_j depends on i - j. Nothing is learned. Beyond the training length the slow pairs reach
angles that were never seen.

The paper pairs neighbours (x_2i, x_2i+1); here, as in GPT-NeoX and Llama, x_i goes with x_{i+K/2}:
the same model up to a fixed permutation of the query and key projections.
"""

import dataclasses

from pe_jax.encoding import Encoding
from pe_jax.geometry import angles, inverse_timescales, rotate


@dataclasses.dataclass(frozen=True)
class RoPE(Encoding):
    """q and k rotated by their positions."""

    base: float = 10000.0

    def __post_init__(self):
        if self.dims.head % 2:
            raise ValueError(
                f"head size must be even for RoPE, got {self.dims.head}; "
                "change lm.model or lm.heads"
            )

    def _frequencies(self):
        return inverse_timescales(self.dims.head, self.base)

    def qk(self, params, q, k, q_pos, k_pos):
        w = self._frequencies()
        return rotate(q, angles(q_pos, w)), rotate(k, angles(k_pos, w))
