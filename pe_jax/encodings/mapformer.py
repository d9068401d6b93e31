"""MapFormer, its working memory: rotations that integrate the movements which tokens stand for
(Rambaud et al., 2025; arXiv:2511.19279).

In head h the pair i of token m is turned by omega_hi sum_{t <= m} Delta_thi, Delta_t = W_out W_in
x_t, of rank r in each head: a token may move forth, back or not at all, and between two tokens lies
the path from one to the other. Learned, in each layer: W_in, [D, H, r], W_out, [H, r, K / 2], and
omega, [H, K / 2], which falls at first in equal ratios from below `omega` to 2 pi / n, so that the
slowest pair goes round once in a distance of n. Beyond the training length a path may lead further
than any in training, or come back.

By the paper's appendices A.7 and A.8, where the exponent has the sign by which omega would grow,
against its own bounds. The authors find `omega` from 1 to 2 pi to work; they take rank 1 or 2 for
grids, with n the size of the grid, and 4 for text, with n the length. How W begins they do not say:
here it is U(-1, 1) / sqrt(inputs), as in PyTorch. Their angles come from the token embeddings, and
all layers may share them; here each layer computes its own from its normalised input, which is the
embedding in the first one alone. Their episodic memory, a product of two logits, is not here.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp

from pe_jax.encodings.rotary import Turned
from pe_jax.fields import Count, Positive
from pe_jax.geometry import uniform


@dataclasses.dataclass(frozen=True)
class MapFormer(Turned):
    """Rotations by the sums of W_in x, which `locate` computes."""

    rank: Count = 4
    omega: Positive = 2 * math.pi
    longest: Count | None = None
    """n. None: the training length."""
    per_layer: tuple[str, ...] = dataclasses.field(default=("*",), kw_only=True)

    def init(self, key):
        d, half = self.dims, self.dims.head // 2
        into, out = jax.random.split(key)
        slowest = 2 * math.pi / (self.longest or d.train_len)
        falling = (slowest / self.omega) ** (jnp.arange(1, half + 1) / half)
        return {
            "into": uniform(into, (d.model, d.heads, self.rank), d.model),
            "out": uniform(out, (d.heads, self.rank, half), self.rank),
            "omega": jnp.tile(self.omega * falling[None], (d.heads, 1)),
        }

    def locate(self, params, x, pos, before):
        sums = jnp.cumsum(jnp.einsum("ld,dhr->lhr", x, params["into"]), axis=0)
        return sums if before is None else sums + before[None]

    def _angles(self, params, pos):
        return jnp.einsum("lhr,hrc->lhc", pos, params["out"]) * params["omega"][None]
