"""DroPE: RoPE taken away after training (Gelberg et al., 2025; arXiv:2512.12167).

No rotation, so no angle is new at any length. A model that was trained with RoPE relies on it: the
authors train on briefly without it, at the training length L, which here is a run of `drope` that
starts from one of `rope` by train.init_from. Swapped in on a checkpoint of RoPE it is what is left
without that. (`nope` takes nothing's place, so swapped in it leaves RoPE where it is.)

Beyond L, at s times L, the logits are multiplied by 1 + c ln s. The authors fit c: 0.412, the
default, for a model of their own, 0.103 for a published one. Nothing is learned.
"""

import dataclasses
import math

import jax.numpy as jnp

from pe_jax.encodings.scaled import Scaled
from pe_jax.fields import NotNegative


@dataclasses.dataclass(frozen=True)
class DroPE(Scaled):
    """q and k as they are; sharper logits."""

    c: NotNegative = 0.412

    def scale(self, params, q_pos):
        sharper = 1 + self.c * math.log(self._factor)
        return jnp.full((q_pos.shape[0], self.dims.heads), sharper)
