"""FLOATER: positions on the path of a learned differential equation (Liu et al., 2020;
arXiv:2003.09229).

x_i + p(t_i), t_i = delta pos_i, p(0) = p_0, dp/dt = h(t, p) = W_2 tanh(W_1 [p; t] + b_1) + b_2. The
path goes from token to token, each time in `steps` steps of the fourth-order Runge-Kutta method,
with gradients through them: positions need be neither whole nor consecutive, but a large gap takes
no more steps than a small one. Learned: p_0, [D], and h. Beyond the training length the path goes
on, and since h is bounded, at most linearly. The paper's form is
`floater(per_layer=("start",))[0:]`: a p_0 for each layer, h shared.

Deviations: the paper adds a p each to q, k and v of a block, for which there is no hook; here p
enters the residual stream, and stays. The authors' code adds a sinusoid too; has ReLU, and t
in both layers of h, so that p may grow exponentially; serves 255 tokens at delta = 0.01; takes 5
steps (1 is as good to 1e-5 here); and gives h a gradient in one of 400 updates.
"""

import dataclasses

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.fields import Count, Positive


@dataclasses.dataclass(frozen=True)
class Floater(Encoding):
    """x_i + p(t_i), dp/dt = h(t, p)."""

    delta: Positive | None = None
    """Time from a position to the next. None: 2.55 / the training length, since the authors' code
    takes 2.55 for its 255 tokens.
    """
    steps: Count = 1
    """Runge-Kutta steps from a token to the next."""

    def init(self, key):
        D = self.dims.model
        shapes = {"start": (D,), "w1": (D + 1, D), "w2": (D, D), "b1": (D,), "b2": (D,)}
        scales = {"start": 1.0, "w1": D**-0.5, "w2": D**-0.5, "b1": 0.0, "b2": 0.0}
        keys = dict(zip(shapes, jax.random.split(key, len(shapes)), strict=True))
        return {n: scales[n] * jax.random.normal(keys[n], shapes[n]) for n in shapes}

    def embed(self, params, x, tokens, pos):
        def h(t, p):
            inner = jnp.append(p, t) @ params["w1"] + params["b1"]
            return jnp.tanh(inner) @ params["w2"] + params["b2"]

        def move(carry, t):
            (begun, p), size = carry, (t - carry[0]) / self.steps
            for at in (begun + step * size for step in range(self.steps)):
                a = h(at, p)
                b = h(at + size / 2, p + size / 2 * a)
                c = h(at + size / 2, p + size / 2 * b)
                p += size / 6 * (a + 2 * b + 2 * c + h(at + size, p + size * c))
            return (t, p), p

        delta = 2.55 / self.dims.train_len if self.delta is None else self.delta
        _, path = jax.lax.scan(move, (0.0, params["start"]), delta * pos.astype(jnp.float32))
        return x + path.astype(x.dtype)
