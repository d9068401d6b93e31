"""p-RoPE: RoPE without its lowest frequencies (Barbero et al., 2024; arXiv:2410.06205).

Of the K / 2 frequencies of RoPE the first floor(p K / 2) stay; the others are 0, so that their
pairs carry content at any distance. p = 1 is RoPE, p = 0 NoPE, 0.75 the paper's best. Nothing is
learned. Beyond the training length RoPE's slowest pairs reach unseen angles; here they do not turn.
"""

import dataclasses

import jax.numpy as jnp

from pe_jax.encodings.rotary import Rotary
from pe_jax.fields import Fraction


@dataclasses.dataclass(frozen=True)
class PRoPE(Rotary):
    """q and k rotated by their positions, in the fastest pairs."""

    p: Fraction = 0.75

    def _frequencies(self):
        w = super()._frequencies()
        return jnp.where(jnp.arange(w.size) < int(self.p * w.size), w, 0.0)
