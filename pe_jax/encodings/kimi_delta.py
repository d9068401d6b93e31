"""Kimi Delta Attention in place of attention (Zhang et al., 2025; arXiv:2510.26692).

S_t = (I - b_t k_t k_t^T) Diag(a_t) S_{t-1} + b_t k_t v_t^T and o_t = S_t^T q_t / sqrt(K), for each
head: as gated_delta, but with a decay of each component of the keys, a_t = exp(-e^r softplus(F x_t
+ c)), F a map of rank K, and with another gate: the layer adds W_o (rmsnorm(o_t) * sigmoid(G x_t +
g)), G of rank K. Kimi Linear has it in three of four layers and attention without positions in the
fourth: `kimi_delta[0:3]+nope[3]`.

It reads the order of tokens and no position. Beyond the training length nothing is undefined.

Learned, in each layer: the maps of q, k and v, [D, 3, H, K], and of the output, [H, K, D]; taps,
[kernel, 3, H, K]; the factors of F and of G, [D, K] and [K, H, K]; u of b_t = sigmoid(u . x_t), [D,
H]; r, [H]; c and g, [H, K]; a scale, [K]. Deviations from the code of fla: F, u and the taps have
no weight decay, and c starts as in gated_delta, where softplus(c) is from 0.001 to 0.1; theirs is
0, with which a head forgets most of its state at each token.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.encodings import recurrences
from pe_jax.fields import AtLeastTwo


@dataclasses.dataclass(frozen=True)
class KimiDelta(Encoding):
    """The gated delta rule with a decay for each component."""

    kernel: AtLeastTwo = 4
    """Tokens that the convolution sees."""
    per_layer: tuple[str, ...] = dataclasses.field(default=("*",), kw_only=True)

    def init(self, key):
        D, H, K = self.dims[0:3]
        of_maps, of_decay, *keys = jax.random.split(key, 7)
        low, high = (D, K), (K, H, K)
        sizes = {"decay_low": low, "decay_high": high, "gate_low_kernel": low}
        sizes |= {"gate_high_kernel": high, "beta": (D, H)}
        small = {
            name: size[0] ** -0.5 * jax.random.normal(key, size)
            for (name, size), key in zip(sizes.items(), keys, strict=True)
        }
        small |= recurrences.draw_decay(of_decay, H, (K,)) | {"gate_bias": jnp.zeros((H, K))}
        return recurrences.draw(of_maps, self.dims, self.kernel) | small

    def mix(self, params, x, state):
        before, S = (None, None) if state is None else state
        qkv = recurrences.linear(x, params["qkv_kernel"])
        qkv, rows = recurrences.convolved(params["taps"], qkv, before)
        q, k = map(recurrences.unit, (qkv[:, 0], qkv[:, 1]))
        decay, gate = (
            jnp.tensordot(recurrences.linear(x, params[low]), params[high], 1)
            for low, high in (("decay_low", "decay_high"), ("gate_low_kernel", "gate_high_kernel"))
        )
        decay = recurrences.log_decay(params, decay)
        beta = jax.nn.sigmoid(recurrences.linear(x, params["beta"]))
        o, S = recurrences.recurrence(q * self.dims.head**-0.5, k, qkv[:, 2], decay, beta, S)
        o = recurrences.normed(params, o) * jax.nn.sigmoid(gate + params["gate_bias"][None])
        return recurrences.out(params, o, x), (rows, S)
