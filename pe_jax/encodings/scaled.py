"""The base class of encodings that carry a model trained with RoPE over to longer texts: the factor
s between the two lengths, and the length L of training.

In a subclass that rotates, it stands behind Rotary: `class PI(Rotary, Scaled)`.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from pe_jax.encoding import Encoding
from pe_jax.fields import AtLeastOne, Count


@dataclasses.dataclass(frozen=True)
class Scaled(Encoding):
    """What depends on s; it is not in the table itself."""

    family: ClassVar[str | None] = "RoPE"
    factor: AtLeastOne | None = None
    """s, the longer length divided by L. None: that of each evaluated length, and 1 within L."""
    length: Count | None = None
    """L, at which RoPE was trained. None: the training length."""

    @property
    def _length(self) -> int:
        return self.dims.train_len if self.length is None else self.length

    @property
    def _factor(self) -> float:
        return self._needed(self.dims.train_len) if self.factor is None else self.factor

    def _needed(self, length: int) -> float:
        return max(1.0, length / self._length)

    def at(self, length):
        if self.factor is not None:
            return self
        return dataclasses.replace(self, factor=self._needed(length))
