"""The base classes of encodings that carry a model trained with RoPE over to longer texts."""

from __future__ import annotations

import dataclasses
import math

import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.encodings.rotary import Rotary
from pe_jax.fields import AtLeastOne, Count, NotNegative, Positive


@dataclasses.dataclass(frozen=True)
class Scaled(Encoding):
    """The factor s between the two lengths, and the length L of training; it is not in the table
    itself. A subclass that rotates has it behind Rotary: `class PI(Rotary, Scaled)`.
    """

    family = "RoPE"
    factor: AtLeastOne | None = None
    """s, the longer length divided by L. None: that of each evaluated length, and 1 within L."""
    length: Count | None = None
    """L, at which RoPE was trained. None: the training length."""

    @property
    def _length(self) -> int:
        return self.length or self.dims.train_len

    @property
    def _factor(self) -> float:
        return self.factor or max(1.0, self.dims.train_len / self._length)

    def at(self, length):
        if self.factor is not None:
            return self
        return dataclasses.replace(self, factor=max(1.0, length / self._length))


@dataclasses.dataclass(frozen=True)
class Sharpened(Rotary, Scaled):
    """The products of the components that turn are multiplied by a temperature, as where cosines
    and sines have its root. It is not in the table itself.
    """

    def _temperature(self) -> float:
        """What these products are multiplied by."""
        raise NotImplementedError

    def _gain(self):
        return 1.0 if self._size == self.dims.head else self._temperature() ** 0.5

    def scale(self, params, q_pos):
        sharper = self._temperature() if self._size == self.dims.head else 1.0
        return jnp.full((q_pos.shape[0], self.dims.heads), sharper)


@dataclasses.dataclass(frozen=True)
class ByParts(Sharpened):
    """Pairs are slowed down by how often they turn within L, and logits sharpened: YaRN's two ends
    and its temperature. It is not in the table itself.
    """

    alpha: Positive = 1.0
    """Pairs that turn less often within L are slowed s times."""
    beta: Positive = 32.0
    """Pairs that turn more often within L stay as they are."""
    attention_factor: Positive | None = None
    """sqrt(1 / t), which multiplies what turns of queries and keys. None: mscale ln s + 1, divided
    by mscale_all_dim ln s + 1."""
    mscale: NotNegative = 0.1
    """The slope of the temperature; 0: logits are not sharpened."""
    mscale_all_dim: NotNegative = 0.0
    """The slope of a temperature of all components, as in DeepSeek's latent attention, whose heads
    turn in part: logits are multiplied by (mscale_all_dim ln s + 1)^2, too. Where all of a head
    turns it cancels, unless attention_factor is given."""

    def __post_init__(self):
        super().__post_init__()
        if not self.alpha < self.beta or self.base <= 1:
            raise ValueError(
                f"{type(self).__name__.lower()} needs alpha below beta and a base above 1, got "
                f"alpha={self.alpha}, beta={self.beta}, base={self.base}"
            )

    def _ends(self, rounded: bool = True) -> tuple[float, float]:
        # The pair with beta turns within L, rounded down, from 0 on, and with alpha turns, rounded
        # up, to r - 1, as in the code of YaRN. The second may be the lower.

        def pair(turns):
            longest = self._length / (2 * math.pi * turns)
            return self._size * math.log(longest) / (2 * math.log(self.base))

        first, last = pair(self.beta), pair(self.alpha)
        if rounded:
            first, last = math.floor(first), math.ceil(last)
        return max(0, first), min(self._size - 1, last)

    def _sharper(self, slope: float) -> float:
        return slope * math.log(self._factor) + 1

    def _temperature(self):
        ratio = self._sharper(self.mscale) / self._sharper(self.mscale_all_dim)
        return (self.attention_factor or ratio) ** 2

    def scale(self, params, q_pos):
        return super().scale(params, q_pos) * self._sharper(self.mscale_all_dim) ** 2
