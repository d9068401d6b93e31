"""What rotary encodings share: each pair of a query's and a key's components is turned by the
position times the frequency of the pair.

Which frequencies these are makes the encoding: a rotary encoding of its own is a subclass with
`_frequencies`, and fields for what it varies. It can then be swapped in on a model that was trained
with `rope`, and a run advises against a second one beside it.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import ClassVar

from jaxtyping import Array, Float

from pe_jax.encoding import Encoding
from pe_jax.geometry import angles, rotate


@dataclasses.dataclass(frozen=True)
class Rotary(Encoding, abc.ABC):
    """q and k rotated by their positions: no encoding of the table, but what some are made of."""

    family: ClassVar[str | None] = "RoPE"
    base: float = 10000.0

    def __post_init__(self):
        if self.dims.head % 2:
            raise ValueError(
                f"head size must be even for RoPE, got {self.dims.head}; "
                "change lm.model or lm.heads"
            )

    @abc.abstractmethod
    def _frequencies(self) -> Float[Array, "half"]:
        """Radians a position of each pair, at most K / 2; components beyond are not turned."""

    def qk(self, params, q, k, q_pos, k_pos):
        w = self._frequencies()
        return rotate(q, angles(q_pos, w)), rotate(k, angles(k_pos, w))
