"""FIRE whose divisor stays within what training shows it: logits + f_h(psi(i - j) / psi(D)), with
D = min(max(i, |m| T), L - 1) for a training length of L. At i < L it is FIRE.

No paper proposes it. NOTES.md swaps it in on trained models to find out whether it is the divisor
that fails beyond the training length.
"""

import dataclasses

import jax.numpy as jnp

from pe_jax.encodings.fire import FIRE
from pe_jax.geometry import mlp


@dataclasses.dataclass(frozen=True)
class Capped(FIRE):
    def bias(self, params, q_pos, k_pos):
        def psi(x):
            return jnp.log1p(jnp.abs(params["c"]) * x)

        i, j = q_pos.astype(jnp.float32), k_pos.astype(jnp.float32)
        divisor = jnp.maximum(i, jnp.abs(params["m"]) * self._threshold)
        divisor = jnp.minimum(divisor, self.dims.train_len - 1)[:, None]
        ratio = psi(jnp.abs(i[:, None] - j[None])) / (psi(divisor) + 1e-6)
        return jnp.moveaxis(mlp(params, ratio[..., None]), -1, 0)
