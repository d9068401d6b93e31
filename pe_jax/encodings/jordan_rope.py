"""Jordan-RoPE: pairs that turn and decay, and a shear by the distance between pairs of one
frequency (Zhang, 2026; arXiv:2605.04217).

The head's K / 2 complex pairs form K / 4 blocks (z_0, z_1) of one frequency
w_b = base^(-2b / K), b < K / 4, and with d = i - j, L the training length

    logit_ij = Re sum_b e^((i w_b - c_b / L) d) conj(k_b) . (I + eta_b (d / L) N) q_b / sqrt(K),

where N takes z_0 of the query to its z_1: the kernel has e^(iwd) and d e^(iwd). Learned, for each
layer, head and block: c = softplus(decay) > 0 and eta = eta_max tanh(shear), from 0 on. shear=False
leaves N out: damped RoPE. Beyond the training length all products go on fading out as e^(-cd / L),
so that far keys come to differ by neither content nor position.

bounded=True is the authors' stabilised form: eta (tau(i) - tau(j)), tau(p) = p / (1 + p / L), in
place of eta d / L, which depends on both positions and not on their distance alone. Its shear is in
tokens, up to eta L, and they begin it with c = 0.1 at L = 1024. Their c / L is the softplus of a
parameter, which learns more slowly than this c. Blocks of more than two pairs are not here.

As xPos: q_i and k_j are scaled by e^(-+c (p - m) / L), so only causal models, `at` puts m in the
middle of what is served, and where a factor leaves float32 positions are NaN.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.encodings.rotary import Turned
from pe_jax.fields import NotNegative, Positive
from pe_jax.geometry import angles, bounded_exp, inverse_softplus, inverse_timescales


@dataclasses.dataclass(frozen=True)
class JordanRoPE(Turned):
    """q and k rotated, scaled and sheared by their positions."""

    causal_only = "later keys would grow"
    base: Positive = 10000.0
    c: Positive = 1.0
    """The decay over one training length at the start of training, in nats."""
    shear: bool = True
    """Whether the pairs of a block are sheared."""
    eta_max: Positive = 0.1
    """The largest shear, per training length; with bounded=True per token."""
    bounded: bool = False
    """Whether positions are bounded by the training length where they shear."""
    middle: NotNegative | None = None
    """m. None: half the length served."""
    per_layer: tuple[str, ...] = dataclasses.field(default=("*",), kw_only=True)

    def __post_init__(self):
        if self.dims.head % 4:
            raise ValueError(
                f"jordan_rope takes a head's components in fours, got {self.dims.head}; "
                "change lm.model or lm.heads"
            )

    def at(self, length):
        return self if self.middle is not None else dataclasses.replace(self, middle=length / 2)

    def init(self, key):
        shape = self.dims.heads, self.dims.head // 4
        decay = {"decay": jnp.full(shape, inverse_softplus(self.c))}
        return decay | ({"shear": jnp.zeros(shape)} if self.shear else {})

    def _angles(self, params, pos):
        w = inverse_timescales(self.dims.head, self.base)
        return angles(pos, jnp.tile(w[: self.dims.head // 4], 2))

    def qk(self, params, q, k, q_pos, k_pos):
        turned = super().qk(params, q, k, q_pos, k_pos)
        q, k = (x.astype(jnp.float32).reshape(*x.shape[:2], 2, 2, -1) for x in turned)
        if self.shear:
            q = q.at[..., 1, :].add(self._sheared(params, q_pos) * q[..., 0, :])
            k = k.at[..., 0, :].add(-self._sheared(params, k_pos) * k[..., 1, :])
        q, k = q * self._decayed(params, q_pos, -1), k * self._decayed(params, k_pos, 1)
        return tuple(
            x.reshape(given.shape).astype(given.dtype)
            for x, given in zip((q, k), turned, strict=True)
        )

    def _sheared(self, params, pos):
        """eta times the position, [L, H, 1, K / 4]."""
        L, p = self.dims.train_len, pos.astype(jnp.float32)[:, None, None, None]
        eta = self.eta_max * jnp.tanh(params["shear"])[None, :, None]
        return eta * (p / (1 + jnp.abs(p) / L) if self.bounded else p / L)

    def _decayed(self, params, pos, sign):
        """e^(sign c (p - m) / L), [L, H, 1, 1, K / 4]."""
        L = self.dims.train_len
        middle = L / 2 if self.middle is None else self.middle
        power = ((pos - middle) / L)[:, None, None] * jax.nn.softplus(params["decay"])[None]
        return bounded_exp(sign * power)[:, :, None, None]
