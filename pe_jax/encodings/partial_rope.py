"""Partial rotary positions: RoPE on the first quarter of each head, as in GPT-NeoX-20B (Black et
al., 2022; arXiv:2204.06745).

The first r = rotary_pct K components, rounded down to an even number, are turned by pos * w_i with
w_i = base^(-2i / r); the others carry content at any distance. `rope(rotary_pct=0.25)` is the same,
and can be scaled: every scaling of RoPE has the field. Nothing is learned. Beyond the training
length the slow pairs reach unseen angles, as RoPE's do. What some published comparisons call
"Rotary" is this, at 0.25.
"""

import dataclasses

from pe_jax.encodings.rotary import Rotary
from pe_jax.fields import Fraction


@dataclasses.dataclass(frozen=True)
class PartialRoPE(Rotary):
    """q and k rotated by their positions, in their first components."""

    rotary_pct: Fraction = 0.25
