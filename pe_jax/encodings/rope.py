"""Rotary positions (Su et al., 2021; arXiv:2104.09864).

Pairs of components of q and k are turned by pos * w_i, w_i = base^(-2i / K): q_i . k_j depends on
i - j. Nothing is learned. Beyond the training length slow pairs reach unseen angles.

The paper pairs neighbours (x_2i, x_2i+1); here, as in GPT-NeoX and Llama, x_i goes with x_{i+K/2}:
the same model up to a fixed permutation of the query and key projections.
"""

import dataclasses

from pe_jax.encodings.rotary import Rotary


@dataclasses.dataclass(frozen=True)
class RoPE(Rotary):
    """q and k rotated by their positions."""
