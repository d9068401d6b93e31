"""Base classes of rotary encodings: pairs of components of queries and keys are turned by an angle,
in Rotary the position times the frequency of the pair.

A new one overrides `_frequencies` of Rotary, with a field for each constant. If they depend on the
evaluated length, it derives from Scaled, too (scaled.py), whose `at` sets the factor (pattern:
pi.py). Rotations by coordinates of `locate` override `_angles` (pattern: carope.py). A temperature
is the hook `scale`. Subclasses are of RoPE's family: without learned parameters they can be swapped
in on a model trained with `rope`; two of them in one layer rotate twice. None derives from another
encoding of the table: a subclass replaces its parent when it is swapped in (specs/swap.py).
"""

from __future__ import annotations

import abc
import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Float

from pe_jax.encoding import Coords, Encoding, Params
from pe_jax.fields import Fraction, Positive
from pe_jax.geometry import angles, inverse_timescales, rotate


@dataclasses.dataclass(frozen=True)
class Turned(Encoding, abc.ABC):
    """q and k rotated; it is not in the table itself."""

    family = "RoPE"
    even = "head"

    @abc.abstractmethod
    def _angles(self, params: Params, pos: Coords) -> Float[Array, "L *heads pairs"]:
        """Radians for each pair that is turned, at most K / 2; heads may share them."""

    def _gain(self) -> float:
        """What cosines and sines are multiplied by."""
        return 1.0

    def qk(self, params, q, k, q_pos, k_pos):
        q_angles, k_angles = self._angles(params, q_pos), self._angles(params, k_pos)
        return rotate(q, q_angles, self._gain()), rotate(k, k_angles, self._gain())


@dataclasses.dataclass(frozen=True)
class Rotary(Turned):
    """q and k rotated by their positions; it is not in the table itself."""

    base: Positive = 10000.0
    rotary_pct: Fraction = 1.0
    """The part of each head that is turned, its first r = rotary_pct K components, rounded down to
    an even number: frequencies and scalings count r in place of K. The others carry content.
    """

    def __post_init__(self):
        if not self._size:
            raise ValueError(
                f"{type(self).__name__} must rotate at least 2 of a head's {self.dims.head} "
                f"components, got rotary_pct={self.rotary_pct}; take one from "
                f"{2 / self.dims.head} to 1"
            )

    @property
    def _size(self) -> int:
        """r, the components of a head that are turned."""
        return 2 * int(self.rotary_pct * self.dims.head / 2)

    def _frequencies(self) -> Float[Array, "*heads pairs"]:
        """Radians per position, one for each pair that is turned; heads may share them. RoPE's."""
        return inverse_timescales(self._size, self.base)

    def _angles(self, params, pos):
        return angles(pos, self._frequencies())


@dataclasses.dataclass(frozen=True)
class Remapped(Rotary):
    """RoPE at another distance than i - j for `far` pairs; it is not in the table itself.

    Queries and keys are rotated twice: to their positions, as in RoPE, and to `far_positions`,
    whose difference is the distance of far pairs. A second product is computed only in tiles of
    blockwise attention with near and far pairs, and in dense attention if any pair is far. Memory
    is RoPE's and a second q and k. By default pairs beyond the window are at its distance.
    """

    causal_only = "it changes the distances of earlier keys alone"

    @property
    def _window(self) -> int:
        """The largest distance of pairs that are not far, in a subclass that keeps these hooks."""
        raise NotImplementedError

    def far(self, q_pos, k_pos):
        return q_pos[:, None] - k_pos[None] > self._window

    def far_positions(self, q_pos, k_pos):
        return jnp.full_like(q_pos, self._window), jnp.zeros_like(k_pos)
