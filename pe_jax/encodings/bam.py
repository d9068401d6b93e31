"""The bias of the Bayesian attention mechanism, BAM: a power of the distance whose exponent each
head learns (Bianchessi et al., 2025; arXiv:2505.22842).

logit_ij - e^(a_h) (|i - j| + 1e-5)^(b_h): the logarithm of a generalised Gaussian over distances.
Learned, once for all layers as in the authors' code: a, from the logarithms of ALiBi's slopes, and
b, from 1, so that it begins as ALiBi; b = 0 has no position, and b < 0 prefers far keys. Beyond the
training length the bias goes on as the power.

The authors also have a mean distance, not learned by default and 0: it is left out. They publish
BAM with Scalable-Softmax, which multiplies the bias too; in `bam+ssmax` it multiplies q . k alone.
"""

import dataclasses

import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.geometry import slopes


@dataclasses.dataclass(frozen=True)
class BAM(Encoding):
    """-e^(a_h) |i - j|^(b_h)."""

    def init(self, key):
        log_slopes = jnp.asarray(jnp.log(slopes(self.dims.heads)), jnp.float32)
        return {"scale": log_slopes, "shape": jnp.ones(self.dims.heads)}

    def relative_bias(self, params, n):
        distance = jnp.abs(n).astype(jnp.float32)[None] + 1e-5
        return -jnp.exp(params["scale"])[:, None] * distance ** params["shape"][:, None]
