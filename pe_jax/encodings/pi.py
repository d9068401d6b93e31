"""Position interpolation: RoPE at positions divided by L' / L (Chen et al., 2023;
arXiv:2306.15595).

A model trained with RoPE at L tokens meets, at L', no angle beyond those it has seen: the pairs are
turned by pos (L / L') w_i. Nothing is learned. Swapped in on a trained checkpoint, zero-shot, the
factor L' / L is that of each evaluated length. The paper then trains on at L' with the factor
fixed: `pi(factor=4.0)` in a run of 4 times the length that starts from the first by
train.init_from (configs/pi.py).
"""

import dataclasses
from typing import final

from pe_jax.encodings.rotary import Rotary
from pe_jax.fields import Positive
from pe_jax.geometry import inverse_timescales


@final
@dataclasses.dataclass(frozen=True)
class PI(Rotary):
    """q and k rotated by their positions / factor."""

    factor: Positive | None = None
    """L' / L. None: the evaluated length over the training length; 1 within it and in training."""

    def __post_init__(self):
        super().__post_init__()
        if self.factor is not None and self.factor < 1:
            raise ValueError(
                f"pi's factor must be at least 1, got {self.factor}: it is the longer length "
                "divided by the one that RoPE was trained at"
            )

    def at(self, length):
        if self.factor is not None:
            return self
        return dataclasses.replace(self, factor=max(1.0, length / self.dims.train_len))

    def _frequencies(self):
        return inverse_timescales(self.dims.head, self.base) / (self.factor or 1.0)
