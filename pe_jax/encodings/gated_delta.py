"""Gated DeltaNet in place of attention (Yang et al., 2024; arXiv:2412.06464).

S_t = a_t S_{t-1} (I - b_t k_t k_t^T) + b_t v_t k_t^T and o_t = S_t q_t / sqrt(K), for each head.
q, k and v are maps of the layer's normalised input, a causal convolution over the last `kernel`
tokens, each component by itself, and a SiLU; q and k then have length 1. Of the state
a_t = exp(-e^r softplus(w . x_t + c)) is kept; v_t replaces the share b_t = sigmoid(u . x_t) of the
value stored under k_t. The layer adds W_o (rmsnorm(o_t) * silu(W_g x_t)).

It reads the order of tokens and no position. The state has a constant size, at any length; beyond
the training length nothing is undefined, and a longer past decays at the learned rates.

Learned, in each layer: the maps of q, k and v, [D, 3, H, K], of the gate, [D, H, K], and of the
output, [H, K, D]; taps, [kernel, 3, H, K]; w and u, [D, H]; r and c, [H]; a scale, [K]. Deviations
from the authors' code: values have the size of keys, not twice as many components, r starts at
ln U(1, 16), where theirs is ln U(0, 16), and w, u and the taps have no weight decay.
"""

import dataclasses

import jax

from pe_jax.encoding import Encoding
from pe_jax.encodings import recurrences
from pe_jax.fields import AtLeastTwo


@dataclasses.dataclass(frozen=True)
class GatedDelta(Encoding):
    """A state that forgets, and is corrected by the delta rule."""

    kernel: AtLeastTwo = 4
    """Tokens that the convolution sees."""
    per_layer: tuple[str, ...] = dataclasses.field(default=("*",), kw_only=True)

    def init(self, key):
        D, H, K = self.dims[0:3]
        of_maps, of_decay, *keys = jax.random.split(key, 5)
        sizes = {"gate_kernel": (D, H, K), "decay": (D, H), "beta": (D, H)}
        small = {
            name: D**-0.5 * jax.random.normal(key, size)
            for (name, size), key in zip(sizes.items(), keys, strict=True)
        }
        decay = recurrences.draw_decay(of_decay, H, ())
        return recurrences.draw(of_maps, self.dims, self.kernel) | decay | small

    def mix(self, params, x, state):
        before, S = (None, None) if state is None else state
        qkv = recurrences.linear(x, params["qkv_kernel"])
        qkv, rows = recurrences.convolved(params["taps"], qkv, before)
        q, k = map(recurrences.unit, (qkv[:, 0], qkv[:, 1]))
        decay = recurrences.log_decay(params, recurrences.linear(x, params["decay"]))
        beta = jax.nn.sigmoid(recurrences.linear(x, params["beta"]))
        q = q * self.dims.head**-0.5
        o, S = recurrences.recurrence(q, k, qkv[:, 2], decay[..., None], beta, S)
        gate = jax.nn.silu(recurrences.linear(x, params["gate_kernel"]))
        return recurrences.out(params, recurrences.normed(params, o) * gate, x), (rows, S)
