"""Rotary positions (Su et al., 2021; arXiv:2104.09864).

Each pair of a query's and a key's components is turned by pos * w_i, w_i = base^(-2i / K), so that
q_i . k_j depends on i - j. Nothing is learned. Beyond the training length the slow pairs reach
angles that were never seen.

The paper pairs neighbours (x_2i, x_2i+1); here, as in GPT-NeoX and Llama, x_i goes with x_{i+K/2}:
the same model up to a fixed permutation of the query and key projections.
"""

import dataclasses
from typing import final

from pe_jax.encodings.rotary import Rotary
from pe_jax.geometry import inverse_timescales


@final
@dataclasses.dataclass(frozen=True)
class RoPE(Rotary):
    """q and k rotated by their positions."""

    def _frequencies(self):
        return inverse_timescales(self.dims.head, self.base)
