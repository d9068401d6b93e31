"""xPos, RoPE with a decay: the products of pair c times zeta_c^((i - j) / B) (Sun et al., 2022;
arXiv:2212.10554).

zeta_c = (2c / K + g) / (1 + g), g = 0.4; q_i is scaled by zeta^((i - m) / B), k_j by zeta^((m - j)
/ B), and the middle m cancels. Nothing is learned. Beyond the training length far keys fade out,
fast pairs first; the paper adds blockwise attention at evaluation, for which there is `window`.

B is 512 in the paper, for a training length of 1024; None is half the training length. Only causal
models: later keys would grow. Far from m the factors overflow float32: `at` puts m in the middle of
what is served, `limit` is where they reach e^84 (134 B positions), and positions beyond are NaN.
"""

import dataclasses

import jax.numpy as jnp
import numpy as np

from pe_jax.encodings.rotary import Rotary
from pe_jax.fields import NotNegative, Positive
from pe_jax.geometry import LARGEST_EXPONENT, bounded_exp


@dataclasses.dataclass(frozen=True)
class XPos(Rotary):
    """q and k rotated and scaled by their positions."""

    causal_only = "later keys would grow"
    gamma: Positive = 0.4
    """g: the larger, the less the pairs decay."""
    scale_base: Positive | None = None
    """B. None: half the training length."""
    middle: NotNegative | None = None
    """m. None: half the length served."""

    def at(self, length):
        return self if self.middle is not None else dataclasses.replace(self, middle=length / 2)

    def limit(self):
        side = LARGEST_EXPONENT * self._base / np.log(1 + 1 / self.gamma)
        middle = side if self.middle is None else self.middle
        return int(side + middle) if middle <= side else 0

    @property
    def _base(self):
        return self.dims.train_len / 2 if self.scale_base is None else self.scale_base

    def _scaled(self, x, pos, sign):
        middle = self.dims.train_len / 2 if self.middle is None else self.middle
        part = np.linspace(0, 1, self._size // 2, endpoint=False)
        zeta = np.ones(self.dims.head)
        zeta[: self._size] = np.tile((part + self.gamma) / (1 + self.gamma), 2)
        power = ((pos - middle) / self._base)[:, None] * np.log(zeta)[None]
        return (x.astype(jnp.float32) * bounded_exp(sign * power)[:, None]).astype(x.dtype)

    def qk(self, params, q, k, q_pos, k_pos):
        q, k = super().qk(params, q, k, q_pos, k_pos)
        return self._scaled(q, q_pos, 1), self._scaled(k, k_pos, -1)
