"""The base classes of rotary encodings: each pair of a query's and a key's components is turned by
an angle, which in Rotary is the position times the frequency of the pair.

A new one is a subclass of Rotary with its `_frequencies` and a field for each constant in them.
Where these depend on the evaluated length, it is a subclass of Scaled, too (scaled.py), whose `at`
sets a field from it; pi.py is the pattern. What acts beside the rotation is another hook, as YaRN's
temperature is `scale`. Where angles come from what `locate` makes of the tokens, `_angles` is
overridden; carope.py is the pattern. A subclass is of RoPE's family: it can be swapped in on a
model trained with `rope`, unless it learns parameters, and a run advises against two of them in one
layer. Rotary encodings are @final: each is a subclass of Turned and never of another of the table,
since a subclass replaces its parent when it is swapped in (specs/swap.py), which only the user's
own classes should.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import ClassVar

from jaxtyping import Array, Float

from pe_jax.encoding import Coords, Encoding, Params
from pe_jax.fields import Positive
from pe_jax.geometry import angles, rotate


@dataclasses.dataclass(frozen=True)
class Turned(Encoding, abc.ABC):
    """q and k rotated; it is not in the table itself."""

    family: ClassVar[str | None] = "RoPE"

    def __post_init__(self):
        if self.dims.head % 2:
            raise ValueError(
                f"head size must be even for RoPE, got {self.dims.head}; "
                "change lm.model or lm.heads"
            )

    @abc.abstractmethod
    def _angles(self, params: Params, pos: Coords) -> Float[Array, "L *heads pairs"]:
        """Radians for each pair that is turned, at most K / 2; heads may share them."""

    def qk(self, params, q, k, q_pos, k_pos):
        return rotate(q, self._angles(params, q_pos)), rotate(k, self._angles(params, k_pos))


@dataclasses.dataclass(frozen=True)
class Rotary(Turned, abc.ABC):
    """q and k rotated by their positions; it is not in the table itself."""

    base: Positive = 10000.0

    @abc.abstractmethod
    def _frequencies(self) -> Float[Array, "*heads pairs"]:
        """Radians per position, one for each pair that is turned; heads may share them."""

    def _angles(self, params, pos):
        return angles(pos, self._frequencies())
