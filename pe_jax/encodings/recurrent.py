"""A recurrent network in front of the layers, or in place of attention: a minimal gated unit (Feng
et al., 2024; arXiv:2410.01201).

h_t = (1 - z_t) * h_{t-1} + z_t * W x_t, z_t = sigmoid(V x_t + b), h = 0 before the first token; its
output is U h_t. `recurrent` adds this once to the model's input: with an RNN in front, no encoding
is needed. `recurrent[0:]` takes the place of attention in these layers. z does not depend on h, so
the steps of all tokens are one associative scan. In front no state is kept: each decoded token
computes the whole text again.

Learned: W, V and U, [D, D], and b, [D]; each layer has its own. It reads the order of tokens and no
position. A token n steps back has faded by (1 - z)^n, at any length. Deviations: U is added, and b
is drawn so that 1 / z is log-uniform from 2 to the training length at x = 0 (Tallec and Ollivier,
2018, arXiv:1804.11188).
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.encodings import recurrences


@dataclasses.dataclass(frozen=True)
class Recurrent(Encoding):
    """A minimal gated unit, by an associative scan."""

    per_layer: tuple[str, ...] = dataclasses.field(default=("*",), kw_only=True)

    def init(self, key):
        D, (*keys, of_bias) = self.dims.model, jax.random.split(key, 4)
        w, v, u = (D**-0.5 * jax.random.normal(key, (D, D)) for key in keys)
        longest = jnp.log(max(4.0, self.dims.train_len))
        steps = jnp.exp(jax.random.uniform(of_bias, (D,), minval=jnp.log(2.0), maxval=longest))
        u = u * (2 * self.dims.layers) ** -0.5
        return {"in_kernel": w, "gate_kernel": v, "bias": -jnp.log(steps - 1), "out_kernel": u}

    def embed(self, params, x, tokens, pos):
        real = (tokens >= 0)[:, None]
        return x + jnp.where(real, self.mix(params, jnp.where(real, x, 0), None)[0], 0)

    def mix(self, params, x, state):
        z = jax.nn.sigmoid(recurrences.linear(x, params["gate_kernel"]) + params["bias"][None])
        new = z * recurrences.linear(x, params["in_kernel"])
        if state is not None:
            new = new.at[0].add((1 - z[0]) * state)

        def both(first, second):
            return first[0] * second[0], second[0] * first[1] + second[1]

        _, h = jax.lax.associative_scan(both, (1 - z, new))
        out = recurrences.linear(h.astype(x.dtype), params["out_kernel"])
        return out.astype(x.dtype), h[-1]
