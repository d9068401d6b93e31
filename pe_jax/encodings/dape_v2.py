"""DAPE V2, attention scores as a feature map (Zheng et al., 2024; arXiv:2410.04798).

logit = z + b + f([z; b]) as in DAPE (dape.py), but both layers of f are convolutions of 1 x
`kernel` over the keys of one query, 2H - hidden - H channels with a LeakyReLU (0.01): a logit
depends on its neighbours' scores too. Learned in each layer: w1, b1, w2, drawn as in PyTorch, and
the parameters of b. The first axis of w1 and w2 has the taps, d for key j + d - kernel // 2.
Priors, and what happens beyond the training length: as in DAPE.

As in the authors' code (tril), scores and biases of hidden keys enter as 0. Deviations: the
channels between the two layers are 0 at hidden keys, too; in their code only for the last query, by
padding, so that other logits depend on whether tokens follow. As in DAPE, f has no last bias.
"""

import dataclasses
from typing import Literal

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding, seen
from pe_jax.encodings.dape import DAPE, prior_bias
from pe_jax.fields import Count


@dataclasses.dataclass(frozen=True)
class DAPEv2(Encoding):
    """z + b + CNN([z; b])."""

    family = "DAPE"
    whole_rows = True
    prior: Literal["alibi", "kerple_log"] = "alibi"
    hidden: Count = 32
    """Channels between the two convolutions."""
    kernel: Count = 3
    """Keys that a convolution spans, an odd number."""
    per_layer: tuple[str, ...] = dataclasses.field(default=("*",), kw_only=True)

    def __post_init__(self):
        if self.kernel % 2 == 0:
            raise ValueError(f"dape_v2's kernel must be odd, such as 3 or 5, got {self.kernel}")

    def init(self, key):
        params = DAPE(self.dims, self.prior, self.hidden).init(key)
        draws = jax.random.split(jax.random.fold_in(key, 1))
        for name, draw in zip(("w1", "w2"), draws, strict=True):
            inputs, outputs = params[name].shape
            w = jax.random.uniform(draw, (self.kernel, inputs, outputs), minval=-1)
            params[name] = (self.kernel * inputs) ** -0.5 * w
        return params | {"b1": self.kernel**-0.5 * params["b1"]}

    def logits(self, params, logits, q, k, q_pos, k_pos):
        visible, b = seen(logits), prior_bias(self, params, q_pos, k_pos)
        x = jnp.concatenate([jnp.where(visible, part, 0.0) for part in (logits, b)])

        def shifted(x, tap):  # from key j + tap - kernel // 2
            side = self.kernel // 2
            return jnp.pad(x, [(0, 0), (side, side)])[:, tap : tap + x.shape[1]]

        @jax.checkpoint
        def adapted(query):  # one query at a time, as in DAPE
            x, visible = query
            taps = range(self.kernel)
            near = jnp.stack([shifted(x, tap) for tap in taps])
            h = jnp.einsum("dcs,dcf->fs", near, params["w1"]) + params["b1"][:, None]
            h = jnp.where(visible[None], jax.nn.leaky_relu(h), 0.0)
            parts = jnp.einsum("fs,dfh->dhs", h, params["w2"])
            return sum(shifted(parts[tap], tap) for tap in taps)

        f = jax.lax.map(adapted, (x.swapaxes(0, 1), visible[0]))
        return logits + b + f.swapaxes(0, 1)
