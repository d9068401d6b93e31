"""Recursive positions: x_k + p_k, p_{k+1} = tanh(W p_k + b) (Su, 2021; kexue.fm/archives/8130).

Learned: p_0, [D], from N(0, 1), b, and a, [D, D], with W = exp(a - a^T). Beyond the training length
the recursion goes on: that it could is the idea. Its author leaves the cell open; here W is a
rotation (arXiv:1901.08428), so that no step enlarges a difference: a free W can become chaotic in
training, and far positions rounding errors. tanh shrinks p_k; without b, as k^(-1/2).

Positions are states after whole steps: as many as the sequence has tokens (`at`); others are NaN
(with `randomized`, set `length` to its max). In generation each token recomputes all of them.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.fields import Count
from pe_jax.geometry import lookup


@dataclasses.dataclass(frozen=True)
class RNN(Encoding):
    """x_k + p_k, p_{k+1} = tanh(W p_k + b)."""

    length: Count | None = None
    """Positions computed; None: as many as there are tokens, the training length in training."""

    def at(self, length):
        return self if self.length else dataclasses.replace(self, length=length)

    def limit(self):
        return self.length

    def init(self, key):
        start, turn = jax.random.split(key)
        D = self.dims.model
        a = D**-0.5 * jax.random.normal(turn, (D, D))  # angles up to 2.8 a step
        return {"start": jax.random.normal(start, (D,)), "turn": a, "bias": jnp.zeros(D)}

    def embed(self, params, x, tokens, pos):
        w = _rotation(params["turn"])

        def step(p, _):
            return jnp.tanh(w @ p + params["bias"]), p

        count = self.length or self.dims.train_len
        _, states = jax.lax.scan(step, params["start"], length=count)
        return x + lookup(states, pos).astype(x.dtype)


def _rotation(a):
    # exp(a - a^T): the series of exp to order 8 at 1 / 64 of it, squared six times.
    # Products of matrices alone, so that its gradient is fast.
    s, w = (a - a.T) / 64, jnp.eye(len(a))
    for n in range(8, 0, -1):
        w = jnp.eye(len(a)) + s @ w / n
    for _ in range(6):
        w = w @ w
    return w
