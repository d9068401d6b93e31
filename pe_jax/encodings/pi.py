"""Position interpolation: RoPE at positions divided by s = L' / L (Chen et al., 2023;
arXiv:2306.15595).

A model trained with RoPE at L tokens meets, at L', no angle beyond those it has seen: the pairs are
turned by pos w_i / s. Nothing is learned. Swapped in on a trained checkpoint, zero-shot, s is that
of each evaluated length. The paper then trains on at L' with the factor fixed: `pi(factor=4.0)` in
a run of 4 times the length that starts from the first by train.init_from (configs/pi.py).
"""

import dataclasses

from pe_jax.encodings.rotary import Rotary
from pe_jax.encodings.scaled import Scaled


@dataclasses.dataclass(frozen=True)
class PI(Rotary, Scaled):
    """q and k rotated by their positions / factor."""

    def _frequencies(self):
        return super()._frequencies() / self._factor
