"""The base class of scalings that slow down pairs by how often they turn within the training
length, and sharpen the logits: YaRN's two ends and its temperature.
"""

from __future__ import annotations

import dataclasses
import math

import jax.numpy as jnp

from pe_jax.encodings.rotary import Rotary
from pe_jax.encodings.scaled import Scaled
from pe_jax.fields import NotNegative, Positive


@dataclasses.dataclass(frozen=True)
class ByParts(Rotary, Scaled):
    """q and k rotated by their positions, slow pairs by less; sharper logits. It is not in the
    table itself.
    """

    alpha: Positive = 1.0
    """Pairs that turn less often within L are slowed s times."""
    beta: Positive = 32.0
    """Pairs that turn more often within L stay as they are."""
    attention_factor: Positive | None = None
    """sqrt(1 / t), which multiplies queries and keys. None: mscale ln s + 1."""
    mscale: NotNegative = 0.1
    """The slope of the temperature; 0: logits are not sharpened."""

    def __post_init__(self):
        super().__post_init__()
        if not self.alpha < self.beta or self.base <= 1:
            raise ValueError(
                f"{type(self).__name__.lower()} needs alpha below beta and a base above 1, got "
                f"alpha={self.alpha}, beta={self.beta}, base={self.base}"
            )

    def _ends(self) -> tuple[int, int]:
        """The pair with beta turns within L, rounded down, from 0 on, and with alpha turns, rounded
        up, to K - 1, as in the code of YaRN. The second may be the lower.
        """
        first = max(0, math.floor(self._pair(self.beta)))
        return first, min(self.dims.head - 1, math.ceil(self._pair(self.alpha)))

    def _pair(self, turns: float) -> float:
        """The i, not rounded, whose pair turns so many times within L."""
        longest = self._length / (2 * math.pi * turns)
        return self.dims.head * math.log(longest) / (2 * math.log(self.base))

    def scale(self, params, q_pos):
        sharper = self.attention_factor or self.mscale * math.log(self._factor) + 1
        return jnp.full((q_pos.shape[0], self.dims.heads), sharper**2)
