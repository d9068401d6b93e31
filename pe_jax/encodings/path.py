"""PaTH attention: positions as products of matrices that the tokens decide (Yang et al., 2025;
arXiv:2505.16381).

logit_ij = q_i^T H_i H_{i-1} .. H_{j+1} k_j / sqrt(K), H_t = I - beta_t w_t w_t^T: each token after
the key, up to the query itself, takes the share beta_t of the query's component along w_t away, or
reverses that component where beta_t is near 2. w_t, of length 1, is made of the layer's normalised
input by a linear map of low rank and a convolution over the last three tokens, for each component
apart; beta_t = 2 sigmoid(u . x_t + b) is a number for each head. Learned, in each layer: the two
factors of the map, [D, rank] and [rank, H, K], the taps, [3, H, K], u, [D, H], and b, [H], 0 at
first, so that every token begins as a projection. Beyond the training length nothing is undefined.

The authors' code has a SiLU after the convolution, which the paper does not mention: it stays, and
variant="paper" leaves it out. The rank, 32, is theirs. Where heads share keys their map has full
rank and the sharing heads one w; here each head has its own, of low rank.

The product is over all tokens between, also those that a window hides. It takes q and k before
`qk`, so another member that rotates acts on the plain product alone. forget_gate+path is the
authors' PaTH-FoX.
"""

import dataclasses
import math
from typing import Literal

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding, seen
from pe_jax.encodings.convolved import convolved, draw, gate
from pe_jax.fields import Count
from pe_jax.geometry import inverse

TAPS = 3  # tokens that the convolution sees
CHUNK = 32  # keys whose products are one triangular system


@dataclasses.dataclass(frozen=True)
class PaTH(Encoding):
    """`locate` gives w and beta of each token; `logits` takes their products along the keys."""

    causal_only = "its products are over the tokens since the key"
    whole_rows = True
    rank: Count = 32
    variant: Literal["code", "paper"] = "code"
    per_layer: tuple[str, ...] = dataclasses.field(default=("*",), kw_only=True)

    def init(self, key):
        return draw(key, self.dims, self.rank, TAPS, self.dims.head)

    def locate(self, params, x, pos, before):
        w, rows = convolved(params, x, None if before is None else before["rows"])
        w = jax.nn.silu(w) if self.variant == "code" else w
        w = w * jax.lax.rsqrt((w**2).sum(-1, keepdims=True) + 1e-6)
        return {"w": w, "beta": 2 * gate(params, x), "rows": rows}

    def logits(self, params, logits, q, k, q_pos, k_pos):
        places = jnp.arange(logits.shape[-1])
        own = jnp.max(jnp.where(seen(logits[0]), places[None], -1), axis=-1)
        taken = _taken(q.astype(jnp.float32), k.astype(jnp.float32), own, k_pos)
        return logits - taken


def _taken(q, k, own, of_keys):
    # What the products take out of q_i . k_j, [H, T, S]; `own` is the number of each query's key.
    # Keys are gone through in chunks, from the last to the first. Within one, what token t takes
    # out of a query, c_t = beta_t w_t . (q - sum_{r > t} c_r w_r), solves a triangular system, and
    # key j has lost sum_{r > j} c_r (k_j . w_r).
    S, size = len(k), min(CHUNK, 2 ** math.ceil(math.log2(len(k))))

    def chunks(a):
        a = jnp.pad(a, [(0, -S % size)] + [(0, 0)] * (a.ndim - 1))
        return a.reshape(-1, size, *a.shape[1:])

    def step(gone, chunk):
        k, w, beta, places = chunk
        passed = places[:, None] <= own[None]
        given = jnp.einsum("chk,thk->hct", w, q - gone) * beta.T[..., None]
        system = jnp.triu(jnp.einsum("chk,rhk->hcr", w, w) * beta.T[..., None], 1)
        taken = inverse(system + jnp.eye(size)[None]) @ jnp.where(passed[None], given, 0.0)
        lost = jnp.triu(jnp.einsum("chk,rhk->hcr", k, w), 1) @ taken
        lost = jnp.einsum("thk,chk->htc", gone, k) + jnp.swapaxes(lost, 1, 2)
        return gone + jnp.einsum("hct,chk->thk", taken, w), lost

    given = (k, of_keys["w"], of_keys["beta"], jnp.arange(S))
    _, lost = jax.lax.scan(step, jnp.zeros_like(q), jax.tree.map(chunks, given), reverse=True)
    return jnp.moveaxis(lost, 0, 2).reshape(*lost.shape[1:3], -1)[..., :S]
