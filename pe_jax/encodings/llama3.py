"""The scaling of Llama 3.1: interpolation by wavelength (Grattafiori et al., 2024;
arXiv:2407.21783; formula from Meta's code, the paper has none).

w'_i = g_i w_i + (1 - g_i) w_i / s, with g_i = (L w_i / (2 pi) - low) / (high - low) clipped to
[0, 1], low = 1, high = 4: pairs whose wavelength is below L / high stay as they are, those above
L / low are interpolated. It is YaRN's ramp, as its paper has it, with other ends and no
temperature. Nothing is learned. Beyond the training length L slow pairs meet no new angle.

Llama 3.1 itself is `llama3(base=500000.0,factor=8.0,length=8192)`.
"""

import dataclasses
import math

from pe_jax.encodings.rotary import Rotary
from pe_jax.encodings.scaled import Scaled
from pe_jax.fields import Positive
from pe_jax.geometry import interpolated, ramp


@dataclasses.dataclass(frozen=True)
class Llama3(Rotary, Scaled):
    """q and k rotated by their positions, slow pairs by positions / factor."""

    low: Positive = 1.0
    high: Positive = 4.0

    def __post_init__(self):
        super().__post_init__()
        if not self.low < self.high:
            raise ValueError(f"llama3's low must be below its high, {self.high}, got {self.low}")

    def _frequencies(self):
        w = super()._frequencies()
        kept = ramp(self._length * w / (2 * math.pi), self.low, self.high)
        return interpolated(w, kept, self._factor)
