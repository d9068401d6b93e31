"""Bilevel positions, BiPE: the place within a segment, added to the input, and the number of the
segment, for another encoding (He et al., 2024; arXiv:2401.16421).

A segment ends with a token of `ends`, in bytes the end of a line and the full stop, as in the
authors' code. The token after it has place 0, and place p adds P[p] to the input. All tokens of a
segment have one position, `stride` times its number, which counts from 0; the other encoding reads
them. bipe+rope is the authors' BiPE-RoPE, and bipe(stride=96)+alibi their BiPE-ALiBi, whose slopes
are 96 times ALiBi's. Learned: P, [rows, D], from N(0, 0.02^2). Beyond the training length segments
are as long as in training, and only their numbers are new. Places beyond P take its last row.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.fields import Count
from pe_jax.geometry import lookup


@dataclasses.dataclass(frozen=True)
class BiPE(Encoding):
    """x + P[place in the segment]; compose it with another encoding: bipe+rope, bipe+alibi."""

    per_sequence = True

    ends: tuple[int, ...] = (10, 46)
    """The tokens that end a segment."""
    stride: Count = 1
    """How far apart the positions of neighbouring segments are."""
    rows: Count | None = None
    """Rows of P, 1024 in their code. None: the training length."""

    def __post_init__(self):
        if not self.ends or min(self.ends) < 0:
            raise ValueError(
                f"bipe's ends must be numbers of tokens, 0 or above, got {self.ends}; name at "
                "least one, such as (10,)"
            )

    def init(self, key):
        return {"table": 0.02 * jax.random.normal(key, (self.trained_from(), self.dims.model))}

    def trained_from(self):  # or later: segments end
        return self.rows or self.dims.train_len

    def positions(self, tokens, pos, key, train):
        end = self._is_end(tokens).astype(jnp.int32)
        return self.stride * (jnp.cumsum(end) - end)

    def embed(self, params, x, tokens, pos):
        index = jnp.arange(len(tokens))
        after = self._is_end(tokens) | (tokens < 0)  # the next token begins a segment
        start = jax.lax.cummax(jnp.where(after, index + 1, 0))
        start = jnp.concatenate([jnp.zeros(1, start.dtype), start[:-1]])
        return x + lookup(params["table"], index - start, clip=True).astype(x.dtype)

    def _is_end(self, tokens):
        return jnp.isin(tokens, jnp.array(self.ends))
