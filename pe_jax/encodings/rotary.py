"""The base classes of rotary encodings: each pair of a query's and a key's components is turned by
an angle, which in Rotary is the position times the frequency of the pair.

A new one is a subclass of Rotary with its `_frequencies` and a field for each constant in them.
Where these depend on the evaluated length, it is a subclass of Scaled, too (scaled.py), whose `at`
sets a field from it; pi.py is the pattern. Anything else is another hook: YaRN's temperature is
`scale`. Where angles come from what `locate` makes of the tokens, `_angles` is overridden;
carope.py is the pattern. A subclass is of RoPE's family: it can be swapped in on a model trained
with `rope`, unless it learns parameters; two of them in one layer rotate twice. Each is a subclass
of a class of this file or of scaled.py, and never of another of the table: a subclass replaces its
parent when it is swapped in (specs/swap.py).
"""

from __future__ import annotations

import abc
import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Float

from pe_jax.encoding import Coords, Encoding, Params
from pe_jax.fields import Positive
from pe_jax.geometry import angles, inverse_timescales, rotate


@dataclasses.dataclass(frozen=True)
class Turned(Encoding, abc.ABC):
    """q and k rotated; it is not in the table itself."""

    family = "RoPE"
    even = "head"

    @abc.abstractmethod
    def _angles(self, params: Params, pos: Coords) -> Float[Array, "L *heads pairs"]:
        """Radians for each pair that is turned, at most K / 2; heads may share them."""

    def qk(self, params, q, k, q_pos, k_pos):
        return rotate(q, self._angles(params, q_pos)), rotate(k, self._angles(params, k_pos))


@dataclasses.dataclass(frozen=True)
class Rotary(Turned):
    """q and k rotated by their positions; it is not in the table itself."""

    base: Positive = 10000.0

    def _frequencies(self) -> Float[Array, "*heads pairs"]:
        """Radians per position, one for each pair that is turned; heads may share them. RoPE's."""
        return inverse_timescales(self.dims.head, self.base)

    def _angles(self, params, pos):
        return angles(pos, self._frequencies())


@dataclasses.dataclass(frozen=True)
class Remapped(Rotary):
    """RoPE at another distance than i - j for `far` pairs; it is not in the table itself.

    A rotation knows i - j alone, so queries and keys are rotated twice: to their positions, as in
    RoPE, and to `far_positions`, whose difference is the distance of far pairs. A logit is the
    product of one or the other, which costs no second product but in the tiles of blockwise
    attention that hold near and far pairs, and in dense attention, where any pair is far. Memory is
    RoPE's and a second q and k. By default all pairs further apart than the window are at that
    distance.
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
