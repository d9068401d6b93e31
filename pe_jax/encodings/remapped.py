"""The base class of rotary encodings whose far pairs of tokens get another distance than i - j.

A rotation knows i - j alone, so queries and keys are rotated twice: to their positions, as in RoPE,
and to others, whose difference is the distance that far pairs get. A logit is the product of one or
the other, which costs no second product but in the tiles of blockwise attention that hold near and
far pairs, and in dense attention, where any pair is far. Memory is RoPE's and a second q and k.
"""

from __future__ import annotations

import abc
import dataclasses

from jaxtyping import Array, Float

from pe_jax.encodings.rotary import Rotary
from pe_jax.geometry import inverse_timescales


@dataclasses.dataclass(frozen=True)
class Remapped(Rotary, abc.ABC):
    """RoPE at distances that are not i - j for `far` pairs; it is not in the table itself."""

    def __post_init__(self):
        super().__post_init__()
        if not self.dims.causal:
            raise ValueError(
                f"{type(self).__name__} needs a causal model: it changes the distances of earlier "
                "keys alone; set lm.causal=True"
            )

    def _frequencies(self) -> Float[Array, "half"]:
        return inverse_timescales(self.dims.head, self.base)
