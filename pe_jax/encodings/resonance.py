"""Resonance RoPE: every wavelength a whole number of positions (Wang et al., 2024;
arXiv:2403.00071).

w'_i = 2 pi / round(2 pi / w_i), w_i = base^(-2i / K) of RoPE. Nothing is learned. A pair whose
wavelength is below the training length repeats exactly: beyond it the same angles return, where
RoPE's fall between seen ones. The slower pairs reach unseen angles as RoPE's do; for them the paper
adds YaRN. Positions are reduced modulo the wavelength before they become angles, so
angles are exact at any position, where RoPE's lose digits.
"""

import dataclasses

import jax.numpy as jnp

from pe_jax.encodings.rotary import Rotary


@dataclasses.dataclass(frozen=True)
class Resonance(Rotary):
    """q and k rotated by their positions, at whole wavelengths."""

    def _wavelengths(self):
        frequencies = super()._frequencies()
        return jnp.maximum(1.0, jnp.round(2 * jnp.pi / frequencies))

    def _frequencies(self):
        return 2 * jnp.pi / self._wavelengths()

    def _angles(self, params, pos):
        turned = pos[:, None] % self._wavelengths().astype(pos.dtype)[None]
        return turned.astype(jnp.float32) * self._frequencies()[None]
