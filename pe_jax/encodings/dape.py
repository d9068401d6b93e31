"""Data-adaptive positions, DAPE (Zheng et al., 2024; arXiv:2405.14722).

logit_ij = z_ij + b_ij + f([z_ij; b_ij]), z = q_i . k_j / sqrt(K), b a bias of the distance, f an
MLP across the heads, 2H - hidden - H with a LeakyReLU (0.01), that adapts b to the content. Learned
in each layer: f (w1, b1, w2), drawn as in PyTorch, and the parameters of b. Beyond the training
length f meets biases it never saw.

`prior` chooses b: "alibi", or the paper's best, "kerple_log" (kerple_log.py), with its p and a,
[H]. It is DAPE's own, since f reads b apart from z: what other members add to the logits is
part of z. Logits of hidden keys enter f as 0.
Deviation: f has no last bias, which adds one number to all keys of a head and cancels in a softmax.
"""

import dataclasses
from typing import Literal

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding, seen
from pe_jax.encodings.alibi import ALiBi
from pe_jax.encodings.kerple_log import KerpleLog
from pe_jax.fields import Count

QUERIES = 32
"""Queries whose hidden layers are in memory at once, `hidden` numbers for each key."""


def prior_bias(dape, params, q_pos, k_pos):
    """The bias of the distance, b, that `dape`, a DAPE or DAPEv2, adapts: [H, T, S] in float32."""
    n = jnp.abs(q_pos[:, None] - k_pos[None])
    prior = (ALiBi if dape.prior == "alibi" else KerpleLog)(dape.dims)
    return prior.relative_bias(params, n.ravel()).reshape(-1, *n.shape)


@dataclasses.dataclass(frozen=True)
class DAPE(Encoding):
    """z + b + MLP([z; b])."""

    prior: Literal["alibi", "kerple_log"] = "alibi"
    hidden: Count = 32
    """Width of the MLP's hidden layer."""
    per_layer: tuple[str, ...] = dataclasses.field(default=("*",), kw_only=True)

    def init(self, key):
        H, F = self.dims.heads, self.hidden
        w, p, a = jax.random.split(key, 3)
        first = (2 * H) ** -0.5 * jax.random.uniform(w, (2 * H + 1, F), minval=-1)
        last = F**-0.5 * jax.random.uniform(jax.random.fold_in(w, 1), (F, H), minval=-1)
        mlp = {"w1": first[1:], "b1": first[0], "w2": last}
        kerple = {"p": 2 * jax.random.uniform(p, (H,)), "a": jax.random.uniform(a, (H,))}
        return mlp | kerple if self.prior == "kerple_log" else mlp

    def logits(self, params, logits, q, k, q_pos, k_pos):
        b, z = prior_bias(self, params, q_pos, k_pos), jnp.where(seen(logits), logits, 0.0)

        @jax.checkpoint
        def adapted(x):  # of one query, [S, 2H]
            h = jax.nn.leaky_relu(x @ params["w1"] + params["b1"][None])
            return h @ params["w2"]

        x = jnp.moveaxis(jnp.concatenate([z, b]), 0, -1)
        f = jax.lax.map(adapted, x, batch_size=QUERIES)
        return logits + b + jnp.moveaxis(f, -1, 0)
