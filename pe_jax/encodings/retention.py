"""Retention in place of attention (Sun et al., 2023; arXiv:2307.08621).

S_t = g_h S_{t-1} + k_t v_t^T and o_t = S_t^T q_t / sqrt(K): key j has the weight g_h^(t - j) q_t .
k_j, without a softmax. Queries and keys are rotated as in RoPE, by the number of tokens so far
(this is the paper's xPos with the decay g_h), and g_h = 1 - 2^(-5 - h), h = 0 .. H - 1. The layer
adds W_o (rmsnorm(o_t) * silu(W_g x_t)).

It counts tokens by itself: no member of a spec moves its positions. Beyond the training length a
far key fades as before, and the state has a constant size.

Learned, in each layer: the maps of q, k and v, [D, 3, H, K], of the gate, [D, H, K], and of the
output, [H, K, D]; a scale, [K]. Deviations: values have the size of keys, not twice as many
components; the norm is a root mean square, as in the code of fla, and the factors that it cancels
are left out.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.encodings import recurrences
from pe_jax.fields import AboveOne
from pe_jax.geometry import angles, inverse_timescales, rotate


@dataclasses.dataclass(frozen=True)
class Retention(Encoding):
    """A state that decays at a constant rate for each head."""

    base: AboveOne = 10000.0
    """Of the rotation."""
    per_layer: tuple[str, ...] = dataclasses.field(default=("*",), kw_only=True)
    even = "head"

    def init(self, key):
        D, H, K = self.dims[0:3]
        of_maps, of_gate = jax.random.split(key)
        gate = D**-0.5 * jax.random.normal(of_gate, (D, H, K))
        return recurrences.draw(of_maps, self.dims) | {"gate_kernel": gate}

    def mix(self, params, x, state):
        L, H = len(x), self.dims.heads
        count, S = (jnp.int32(0), None) if state is None else state
        qkv = recurrences.linear(x, params["qkv_kernel"])
        turn = angles(count + jnp.arange(L), inverse_timescales(self.dims.head, self.base))
        q, k = (rotate(qkv[:, part], turn) for part in (0, 1))
        decay = jnp.log1p(-(2.0 ** (-5.0 - jnp.arange(H))))
        decay = jnp.broadcast_to(decay[None, :, None], (L, H, 1))
        o, S = recurrences.recurrence(q * self.dims.head**-0.5, k, qkv[:, 2], decay, None, S)
        gate = jax.nn.silu(recurrences.linear(x, params["gate_kernel"]))
        o = recurrences.normed(params, o) * gate
        return recurrences.out(params, o, x), (count + L, S)
