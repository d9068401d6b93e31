"""LongRoPE: a factor for each pair (Ding et al., 2024; arXiv:2402.13753).

w'_i = w_i / lambda_i, and logits multiplied by 1 + ln s / ln L, s = L' / L; where a part of each
head turns (rotary_pct), the products of this part alone. lambda is `long` for texts of more than L
tokens, `short` for others. Nothing is learned: the paper finds `long` by an evolutionary search on
validation text, here it is given. Beyond the training length L it depends on `long` which angles
are new. By default `long` is s for every pair, position interpolation, and
`short` is 1, so that within L this is RoPE.

The paper leaves the first n tokens as they were (`first`, its n hat); the published checkpoints and
Hugging Face's code do not (0, the default). The temperature is that of the code, and the paper does
not give it: cosines and sines times `attention_factor` at all lengths, by default
sqrt(1 + ln s / ln L), which is 1 within L unless `factor` is given.
"""

import dataclasses
import math

import jax.numpy as jnp

from pe_jax.encodings.scaled import Sharpened
from pe_jax.fields import Count, Natural, Positive


@dataclasses.dataclass(frozen=True)
class LongRoPE(Sharpened):
    """q and k rotated by their positions, each pair by positions / its factor; sharper logits."""

    long: tuple[Positive, ...] = ()
    """lambda of each pair beyond L. (): all s."""
    short: tuple[Positive, ...] = ()
    """lambda of each pair within L. (): all 1."""
    first: Natural = 0
    """How many tokens are turned as by RoPE."""
    attention_factor: Positive | None = None
    """What cosines and sines are multiplied by. None: sqrt(1 + ln s / ln L)."""
    served: Count | None = None
    """The length that decides between `long` and `short`. None: that of the text."""

    def __post_init__(self):
        super().__post_init__()
        half = self._size // 2
        for name in ("long", "short"):
            if len(getattr(self, name)) not in (0, half):
                raise ValueError(
                    f"longrope's {name} must have {half} factors, one for each pair of a head, or "
                    f"none, got {len(getattr(self, name))}"
                )
        if self._length < 2:
            raise ValueError(f"longrope's length must be at least 2, got {self._length}")

    def at(self, length):
        return dataclasses.replace(super().at(length), served=self.served or length)

    def _frequencies(self):
        beyond = (self.served or self.dims.train_len) > self._length
        factors = (self.long or (self._factor,)) if beyond else (self.short or (1.0,))
        return super()._frequencies() / jnp.array(factors)

    def _angles(self, params, pos):
        near, far = super()._frequencies(), self._frequencies()
        w = jnp.where((pos < self.first)[:, None], near[None], far[None])
        return pos.astype(jnp.float32)[:, None] * w

    def _temperature(self):
        given = self.attention_factor
        return given**2 if given else 1 + math.log(self._factor) / math.log(self._length)
