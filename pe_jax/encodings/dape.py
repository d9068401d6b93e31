"""Data-adaptive positions, DAPE (Zheng et al., 2024; arXiv:2405.14722).

logit_ij = z_ij + b_ij + f([z_ij; b_ij]), z = q_i . k_j / sqrt(K), b a bias of the distance, f an
MLP across the heads, 2H - hidden - H with a LeakyReLU (0.01), that adapts b to the content. Learned
in each layer: f (w1, b1, w2, b2), drawn as a linear layer of PyTorch is, and what b has, which DAPE
owns, for f reads both apart. Beyond the training length f meets biases it never saw.

`prior` names b: "alibi", or the paper's best, "kerple_log", -p ln(1 + a n), p and a in [H], at
least 0.01. Other members' terms count as content. A hidden logit enters f as 0.
"""

import dataclasses
from typing import Literal

import jax
import jax.numpy as jnp

from pe_jax.attention import NEG
from pe_jax.encoding import Encoding
from pe_jax.encodings.alibi import ALiBi


@dataclasses.dataclass(frozen=True)
class DAPE(Encoding):
    """z + b + MLP([z; b])."""

    prior: Literal["alibi", "kerple_log"] = "alibi"
    hidden: int = 32
    per_layer: tuple[str, ...] = dataclasses.field(default=("*",), kw_only=True)

    def __post_init__(self):
        if self.prior not in ("alibi", "kerple_log") or self.hidden < 1:
            raise ValueError(f"dape takes prior alibi or kerple_log and hidden >= 1, got {self}")

    def init(self, key):
        H, F = self.dims.heads, self.hidden
        w1, b1, w2, b2, p, a = jax.random.split(key, 6)

        def linear(key, inputs, *shape):
            return inputs**-0.5 * jax.random.uniform(key, shape, minval=-1)

        mlp = {"w1": linear(w1, 2 * H, 2 * H, F), "b1": linear(b1, 2 * H, F)}
        mlp |= {"w2": linear(w2, F, F, H), "b2": linear(b2, F, H)}
        own = {"p": 2 * jax.random.uniform(p, (H,)), "a": jax.random.uniform(a, (H,))}
        return mlp | own if self.prior == "kerple_log" else mlp

    def _bias(self, params, q_pos, k_pos):
        n = jnp.abs(q_pos[:, None] - k_pos[None])
        if self.prior == "alibi":
            return ALiBi(self.dims).relative_bias({}, n.ravel()).reshape(-1, *n.shape)
        p, a = (jnp.maximum(params[name], 0.01)[:, None, None] for name in "pa")
        return -p * jnp.log1p(a * n[None])

    def logits(self, params, logits, q, k, q_pos, k_pos):
        H, b = self.dims.heads, self._bias(params, q_pos, k_pos)
        z = jnp.where(logits > NEG / 2, logits, 0.0)
        x = jnp.einsum("hts,hf->fts", z, params["w1"][:H])
        x = x + jnp.einsum("hts,hf->fts", b, params["w1"][H:]) + params["b1"][:, None, None]
        f = jnp.einsum("fts,fh->hts", jax.nn.leaky_relu(x), params["w2"])
        return logits + b + f + params["b2"][:, None, None]
