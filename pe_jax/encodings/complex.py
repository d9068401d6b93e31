"""Complex words: r_jc e^{i (w_jc pos + t_jc)} for word j and component c, in real form (Wang et
al., 2020; arXiv:1912.12333).

A token embedding's halves are taken as the real and imaginary parts of D / 2 numbers r e^{it}: its
amplitude r and phase t, which the paper learns, are the embedding's polar coordinates, so that
[r cos(w pos + t); r sin(w pos + t)] is the embedding with its pairs (x_c, x_{c + D/2}) turned by
w_jc pos. Learned here: the frequencies w, [V, D / 2], at first base^(-2c / D) for every word, as in
the authors' code. Beyond the training length words reach angles that were never seen.

Deviations: the network after it is real, theirs complex; their code has the amplitude alone and no
phase. It acts on token embeddings, so on the model's input alone.
"""

import dataclasses

import jax.numpy as jnp

from pe_jax.encoding import Encoding, acts_once
from pe_jax.fields import Positive
from pe_jax.geometry import inverse_timescales, rotate


@dataclasses.dataclass(frozen=True)
class Complex(Encoding):
    """The pairs of a token's embedding turned by its own frequencies times its position."""

    even = "model"
    base: Positive = 10000.0

    def __post_init__(self):
        if not acts_once(self):
            raise ValueError(
                "complex turns token embeddings, so it acts on the model's input alone: leave out "
                f"its layers, got {self.layers!r}"
            )

    def init(self, key):
        w = inverse_timescales(self.dims.model, self.base)
        return {"frequency": jnp.tile(w[None], (self.dims.vocab, 1))}

    def embed(self, params, x, tokens, pos):
        angle = pos.astype(jnp.float32)[:, None] * params["frequency"][tokens]
        return rotate(x[:, None], angle)[:, 0]
