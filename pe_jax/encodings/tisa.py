"""Translation-invariant self-attention, TISA: a bias of a few Gaussian bumps of the distance
(Wennberg and Henter, 2021; arXiv:2106.01950).

b_h(n) = sum_s a_hs exp(-|b_hs| (n - c_hs)^2), n = i - j, s = 1 .. kernels. Learned, once for all
layers: a, b and c, [H, kernels], drawn as in the authors' code from N(0.1, 0.01^2) for a and b, and
N(0, 5^2) for c, in tokens. Beyond the last bump, and so beyond the training length, the bias is 0.

The authors count n = j - i, so that their c has the other sign; they have no causal model.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.fields import Count


@dataclasses.dataclass(frozen=True)
class TISA(Encoding):
    """Bumps of the distance, each with an amplitude, a sharpness and a centre."""

    kernels: Count = 5
    """Bumps of a head."""

    def init(self, key):
        a, b, c = jax.random.normal(key, (3, self.dims.heads, self.kernels))
        return {"amplitude": 0.1 + 0.01 * a, "sharpness": 0.1 + 0.01 * b, "centre": 5.0 * c}

    def relative_bias(self, params, n):
        away = n.astype(jnp.float32)[None, None] - params["centre"][..., None]
        bumps = jnp.exp(-jnp.abs(params["sharpness"])[..., None] * away**2)
        return jnp.einsum("hs,hsn->hn", params["amplitude"], bumps)
