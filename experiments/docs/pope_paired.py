"""PoPE as the replication of MapFormer has it (model_pope.py of PrashRangarajan/mapformer): without
PoPE's learned phases, and at the frequencies of RoPE, half as many, each for two components:

    logit_ij = sum_c softplus(q_ic) softplus(k_jc) cos((j - i) w_c) / sqrt(K),
    w_c = base^(-2 floor(c / 2) / K), c = 0 .. K - 1

No paper proposes it. results/dyck trains it to find out whether this is why the replication's PoPE
closes fewer brackets rightly than the paper's does there. It is not: both have the same level.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp

from pe_jax.encodings.rotary import Rotary
from pe_jax.geometry import angles, inverse_timescales


@dataclasses.dataclass(frozen=True)
class Paired(Rotary):
    def _frequencies(self):
        return jnp.repeat(inverse_timescales(self.dims.head, self.base), 2)

    def qk(self, params, q, k, q_pos, k_pos):
        def polar(x, pos):
            angle = angles(pos, self._frequencies())[:, None]
            return jnp.concatenate([x * jnp.cos(angle), x * jnp.sin(angle)], -1)

        root = math.sqrt(self.dims.head)  # q comes divided by it
        return polar(jax.nn.softplus(root * q) / root, q_pos), polar(jax.nn.softplus(k), k_pos)
