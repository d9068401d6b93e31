"""NTK-aware scaling: RoPE with a larger base (bloc97, 2023; formula in Peng et al., 2023;
arXiv:2309.00071).

base' = base s^(r / (r - 2)), s = L' / L, r the components that turn, by default all K: the slowest
pair turns s times slower, as in position interpolation, and the fastest pair as before. Nothing is
learned. Beyond the training length L the pairs between are slowed by less than s, so that a few of
them reach angles that were never seen: zero-shot this does better than `pi`, and a model that is
trained on needs a larger s than L' / L.
"""

import dataclasses

from pe_jax.encodings.rotary import Rotary
from pe_jax.encodings.scaled import Scaled
from pe_jax.geometry import stretched_timescales


@dataclasses.dataclass(frozen=True)
class NTK(Rotary, Scaled):
    """q and k rotated by their positions, slow pairs by less."""

    def _frequencies(self):
        return stretched_timescales(self._size, self.base, self._factor)
