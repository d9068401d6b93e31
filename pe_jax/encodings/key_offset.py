"""Partial key offset: in a part of each head a query meets the key of the token before (Dial, 2025;
modded-nanogpt, pull request 169).

The last part * K components of k_j, rounded down, are taken from k_{j-1}; the first token keeps its
own. A query that matches one token then finds the value of the next: one layer continues a pattern
that the text has shown, where attention needs two. `rope(rotary_pct=0.5)+key_offset` turns the
first half of a head and offsets the other one, as the author does in the layers with the widest
window. The offset stands after norms of keys. Nothing is learned, and nothing depends on the
length.

Read: train_gpt.py of modded-nanogpt (commit f411b3d), where the first token of a document gets the
key of the document before; experiments/grug/moe/model.py of marin (commit 0080498; issue 4802),
where it gets zeros, and keys are normalised after the offset. Here a text begins with its own key,
in a segment memory, too.
"""

import dataclasses

import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.fields import Fraction


@dataclasses.dataclass(frozen=True)
class KeyOffset(Encoding):
    """The last components of each key from the token before; beside `rope(rotary_pct=0.5)`."""

    from_zero = True
    keys_before = 1

    part: Fraction = 0.5
    """The part of each head that is offset."""

    def qk(self, params, q, k, q_pos, k_pos):
        kept = k.shape[-1] - int(self.part * self.dims.head)
        before = jnp.concatenate([k[:1], k[:-1]])
        before = jnp.where(k_pos[:, None, None] == 0, k, before)
        return q, jnp.concatenate([k[..., :kept], before[..., kept:]], axis=-1)
