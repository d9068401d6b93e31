"""YaRN with two faults that no field of `yarn` can make, for test_faults_of_yarn.py."""

import dataclasses

import jax

from pe_jax.encodings.scaled import ByParts
from pe_jax.encodings.yarn import YaRN
from pe_jax.geometry import angles, inverse_timescales


@dataclasses.dataclass(frozen=True)
class PositionsDivided(ByParts):
    """Positions divided by the factor, fast pairs, too."""

    def _frequencies(self):
        return inverse_timescales(self.dims.head, self.base) / self._factor


@dataclasses.dataclass(frozen=True)
class HalfAngles(YaRN):
    """Angles rounded to float16, from 1,024 radians on to whole ones."""

    def _angles(self, params, pos):
        return jax.lax.reduce_precision(angles(pos, self._frequencies()), 5, 10)
