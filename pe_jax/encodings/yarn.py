"""YaRN: NTK-by-parts interpolation and a temperature (Peng et al., 2023; arXiv:2309.00071).

w'_i = g_i w_i + (1 - g_i) w_i / s, s = L' / L: pairs that turn more than beta = 32 times within the
training length L stay as they are (g = 1), pairs that turn less than alpha = 1 times are
interpolated (g = 0). The logits are multiplied by 1 / t, sqrt(1 / t) = 0.1 ln s + 1 (mscale = 0.1).
Nothing is learned. Beyond the training length no pair meets a new angle. Where a part of each head
turns (rotary_pct), ramp and temperature are of this part, and the others stay as they are.

Between alpha and beta the paper's g is linear in the number of turns r_i = L w_i / (2 pi)
(variant="paper"). In the authors' code, which published checkpoints use, it is linear in i, between
the pairs where r = beta, rounded down, and r = alpha, rounded up (variant="code", the default).
alpha and beta are for Llama: at L < 2 pi beta = 201 tokens even the fastest pair turns less than
beta times, and the paper's g is below 1 everywhere.
"""

import dataclasses
import math
from typing import Literal

import jax.numpy as jnp

from pe_jax.encodings.scaled import ByParts
from pe_jax.geometry import interpolated, ramp


@dataclasses.dataclass(frozen=True)
class YaRN(ByParts):
    """q and k rotated by their positions, slow pairs by positions / factor; sharper logits."""

    variant: Literal["paper", "code"] = "code"
    truncate: bool = True
    """Whether the ends of the code's ramp are rounded; gpt-oss does not."""

    def _frequencies(self):
        w = super()._frequencies()
        if self.variant == "paper":
            kept = ramp(self._length * w / (2 * math.pi), self.alpha, self.beta)
        else:
            first, last = self._ends(self.truncate)
            kept = 1 - ramp(jnp.arange(w.size), first, last + 0.001 * (first == last))
        return interpolated(w, kept, self._factor)
