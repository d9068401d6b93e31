"""YaRN: NTK-by-parts interpolation and a temperature (Peng et al., 2023; arXiv:2309.00071).

w'_i = g_i w_i + (1 - g_i) w_i / s, s = L' / L: pairs that turn more than beta = 32 times within the
training length L stay as they are (g = 1), those that turn less than alpha = 1 times are
interpolated (g = 0). The logits are multiplied by 1 / t, sqrt(1 / t) = 0.1 ln s + 1. Nothing is
learned. Beyond the training length the slow pairs meet no new angle; fast ones have met all.

Between alpha and beta the paper's g is linear in the number of turns r_i = L w_i / (2 pi)
(variant="paper"). In the authors' code, which published checkpoints use, it is linear in i, between
the pairs where r = beta, rounded down, and r = alpha, rounded up (variant="code", the default).
alpha and beta are for Llama: at L < 2 pi beta = 201 tokens even the fastest pair turns less than
beta times, and the paper's g is below 1 everywhere.
"""

import dataclasses
import math
from typing import Literal, final

import jax.numpy as jnp

from pe_jax.encodings.rotary import Rotary
from pe_jax.encodings.scaled import Scaled
from pe_jax.fields import Positive
from pe_jax.geometry import interpolated, inverse_timescales, ramp


@final
@dataclasses.dataclass(frozen=True)
class YaRN(Rotary, Scaled):
    """q and k rotated by their positions, slow pairs by positions / factor; sharper logits."""

    alpha: Positive = 1.0
    beta: Positive = 32.0
    attention_factor: Positive | None = None
    """sqrt(1 / t). None: 0.1 ln s + 1."""
    variant: Literal["paper", "code"] = "code"

    def __post_init__(self):
        super().__post_init__()
        if not self.alpha < self.beta or self.base <= 1:
            raise ValueError(
                "yarn needs alpha below beta and a base above 1, got "
                f"alpha={self.alpha}, beta={self.beta}, base={self.base}"
            )

    def _frequencies(self):
        w = inverse_timescales(self.dims.head, self.base)
        if self.variant == "paper":
            kept = ramp(self._length * w / (2 * math.pi), self.alpha, self.beta)
        else:
            first = max(0, math.floor(self._pair(self.beta)))
            last = min(self.dims.head - 1, math.ceil(self._pair(self.alpha)))
            kept = 1 - ramp(jnp.arange(w.size), first, max(last, first + 0.001))
        return interpolated(w, kept, self._factor)

    def _pair(self, turns):
        """The i, not rounded, whose pair turns so many times within L."""
        longest = self._length / (2 * math.pi * turns)
        return self.dims.head * math.log(longest) / (2 * math.log(self.base))

    def scale(self, params, q_pos):
        sharper = self.attention_factor or 0.1 * math.log(self._factor) + 1
        return jnp.full((q_pos.shape[0], self.dims.heads), sharper**2)
