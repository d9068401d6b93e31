"""Fourier position embedding, FoPE: a sum of frequencies in each pair (Hua et al., 2024;
arXiv:2412.17739).

RoPE's cos(p w_c) and sin(p w_c) at position p become sum_r cos(p w_r) C_hrc and sum_r sin(p w_r)
S_hrc in each head, C and S = I + noise: a pair outlives damage to one frequency. Those below 2 pi /
train_len, which do not complete a turn in training, are zeroed: they enter no sum, and their pairs
stand still, cos 1 and sin 0, so that no sum reaches unseen angles beyond the training length.
Nothing is learned: as in the authors' experiments, C and S stay as drawn. By the noise q_i . k_j is
no function of i - j; std=0 is RoPE without its slow pairs.

A coefficient is N(0, 2 std^2 / K): std is the size of all the noise in a pair, and the gain of the
authors' Xavier draw, 0.3 in their smallest model. Deviations: in their draw, PyTorch takes the
heads for channels, which makes the noise several times smaller; their code has sums in K / 4 pairs
at most, and pads sin, too, with 1 where a pair should stand still.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp

from pe_jax.encodings.rotary import Rotary
from pe_jax.fields import NotNegative
from pe_jax.geometry import angles


@dataclasses.dataclass(frozen=True)
class FoPE(Rotary):
    """q and k turned by Fourier sums of their positions."""

    fixed = ("cos", "sin")
    std: NotNegative = 0.3
    """Of all the noise in a pair; 0 adds none."""

    def __post_init__(self):
        super().__post_init__()
        if self.dims.train_len < 2 * math.pi:
            raise ValueError(
                "fope needs a training length of at least 7, below which every frequency is "
                f"zeroed, got {self.dims.train_len}"
            )

    def init(self, key):
        H, half = self.dims.heads, self._size // 2
        noise = self.std * half**-0.5 * jax.random.normal(key, (2, H, half, half))
        cos, sin = jnp.eye(half)[None, None] + noise
        return {"cos": cos, "sin": sin}

    def _turned(self, params, x, pos):
        w = self._frequencies()
        kept, turn = (w >= 2 * math.pi / self.dims.train_len)[None], angles(pos, w)

        def total(wave, coefficients, still):
            waves = jnp.where(kept, wave(turn), 0.0)
            mixed = jnp.einsum("lr,hrc->lhc", waves, jax.lax.stop_gradient(coefficients))
            return jnp.where(kept[None], mixed, still)

        cos, sin = total(jnp.cos, params["cos"], 1.0), total(jnp.sin, params["sin"], 0.0)
        a, b, rest = jnp.split(x.astype(jnp.float32), (w.size, 2 * w.size), axis=-1)
        return jnp.concatenate([a * cos - b * sin, a * sin + b * cos, rest], -1).astype(x.dtype)

    def qk(self, params, q, k, q_pos, k_pos):
        return self._turned(params, q, q_pos), self._turned(params, k, k_pos)
