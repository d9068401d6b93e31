"""The base class of rotary encodings whose far pairs of tokens get another distance than i - j.

A rotation knows i - j alone, so two scores are computed: that of RoPE, and one of queries and keys
at other positions, whose difference is the distance that far pairs get. `logits` puts the second
in the place of the first where a pair is far; terms of other encodings stay as they are. This
costs two products of queries and keys more where some pair is far: in dense attention for all of
them, in blockwise attention in the tiles that hold such a pair. Memory is as RoPE's.
"""

from __future__ import annotations

import abc
import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Num

from pe_jax.encodings.rotary import Rotary
from pe_jax.geometry import inverse_timescales


@dataclasses.dataclass(frozen=True)
class Remapped(Rotary, abc.ABC):
    """RoPE at distances that are not i - j for far pairs; it is not in the table itself."""

    def __post_init__(self):
        super().__post_init__()
        if not self.dims.causal:
            raise ValueError(
                f"{type(self).__name__} needs a causal model: it changes the distances of earlier "
                "keys alone; set lm.causal=True"
            )

    def _frequencies(self) -> Float[Array, "half"]:
        return inverse_timescales(self.dims.head, self.base)

    @abc.abstractmethod
    def _far(
        self, i: Num[Array, "T"], j: Num[Array, "S"]
    ) -> tuple[Bool[Array, "T S"], Num[Array, "T"], Num[Array, "S"]]:
        """Which pairs are far; and positions of queries and keys whose difference is what far pairs
        get for a distance.
        """

    def logits(self, params, logits, q, k, q_pos, k_pos):
        def scores(q_pos, k_pos):
            turned = self.qk(params, q, k, q_pos, k_pos)
            return jnp.einsum("thk,shk->hts", *turned, preferred_element_type=jnp.float32)

        def moved():
            change = scores(far_q, far_k) - scores(q_pos, k_pos)
            return logits + jnp.where(far[None], change, 0.0)

        far, far_q, far_k = self._far(q_pos, k_pos)
        return jax.lax.cond(far.any(), moved, lambda: logits)
