"""Recursive positions: x_k + p_k, p_{k+1} = tanh(W p_k + b) (Su, 2021; kexue.fm/archives/8130).

Learned: the start p_0, [D], from N(0, 1), the bias b, and W, [D, D]. Beyond the training length the
recursion goes on: that it could is the idea.

The author leaves the cell open. Here W = (I - A)^-1 (I + A), A = a - a^T with a learned, is a
rotation (the Cayley transform; Helfrich et al., 2018, arXiv:1707.09520), so that a step never
enlarges a difference: with a free W training can make the recursion chaotic, and far positions
are then rounding errors. Its angles start spread over (-pi, pi). tanh shrinks p_k, without b as
k^(-1/2), so far positions are quieter.

Positions are states after whole steps. As many are computed as the sequence has tokens (`at`), and
positions beyond these are NaN: beside `randomized`, give `length` its max. In generation the whole
recursion runs again for every token.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.geometry import lookup


@dataclasses.dataclass(frozen=True)
class RNN(Encoding):
    """x_k + p_k, p_{k+1} = tanh(W p_k + b)."""

    length: int | None = None
    """Positions computed; None: as many as there are tokens, the training length in training."""

    def at(self, length):
        return self if self.length else dataclasses.replace(self, length=length)

    def limit(self):
        return self.length

    def init(self, key):
        start, turn = jax.random.split(key)
        D = self.dims.model
        return {
            "start": jax.random.normal(start, (D,)),
            "turn": D**-0.5 * jax.random.normal(turn, (D, D)),
            "bias": jnp.zeros(D),
        }

    def embed(self, params, x, tokens, pos):
        one, skew = jnp.eye(self.dims.model), params["turn"] - params["turn"].T
        w = jnp.linalg.solve(one - skew, one + skew)

        def step(p, _):
            return jnp.tanh(w @ p + params["bias"]), p

        count = self.length or self.dims.train_len
        _, states = jax.lax.scan(step, params["start"], length=count)
        return x + lookup(states, pos).astype(x.dtype)
