"""Attention with a forget gate, FoX (Lin et al., 2025; arXiv:2503.02130).

logit_ij = q_i . k_j / sqrt(K) + sum_{t = j+1 .. i} ln f_t, f_t = sigmoid(w_h . x_t + b_h): a bias
c_i - c_j of prefix sums, which the tokens decide. Learned, in each layer: w, [D, H], and b, [H].
Beyond the training length far keys go on fading; a constant f is ALiBi with slope -ln f.

Deviation: the authors start at b = 0, where a gate forgets half of what there is at every token;
here b starts at `start`, by default ln(train_len), where f is near L / (L + 1) and the memory about
L tokens. w has standard deviation D^-1/2. Only a causal model has a past to forget.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding


@dataclasses.dataclass(frozen=True)
class ForgetGate(Encoding):
    """The bias c_i - c_j of the sums c = cumsum(ln f), which `locate` computes."""

    causal_only = "only it has a past to forget"
    start: float | None = None
    """b at first. None: ln(the training length)."""
    per_layer: tuple[str, ...] = dataclasses.field(default=("*",), kw_only=True)

    def init(self, key):
        d = self.dims
        start = math.log(d.train_len) if self.start is None else self.start
        return {
            "w": d.model**-0.5 * jax.random.normal(key, (d.model, d.heads)),
            "b": jnp.full(d.heads, float(start)),
        }

    def locate(self, params, x, pos, before):
        c = jnp.cumsum(jax.nn.log_sigmoid(x @ params["w"] + params["b"][None]), axis=0)
        return c if before is None else c + before[None]

    def bias(self, params, q_pos, k_pos):
        return q_pos.T[:, :, None] - k_pos.T[:, None, :]
