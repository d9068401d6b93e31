"""The bias of PJ-RoPE: damped oscillations of the distance and their products with its powers, a
line, and oscillations of a distance that grows like a logarithm (Zhang, 2026;
arXiv:2606.05345).

With d = |i - j| and L the training length, for each head

    b(d) =   g_1 sum_r a_r (d / L)^r / r! e^(-delta d / L) (u_r cos wd - v_r sin wd)     jets
           - g_2 s d / L                                                               line
           + g_3 sum_r a'_r beta^r (u'_r cos w phi - v'_r sin w phi),             light cone

r = 0 .. order, beta = d / sqrt(d^2 + L^2) < 1, phi = L asinh(d / L). Learned in each layer: the
frequency w, from 2 pi / L (1 turn in the training length) in the first head to 17 turns in the
last; u, v, u', v' from N(0, 0.02^2); and delta, s, the gates g and a, a', which are positive by
softplus or softmax. Gates and a sum to 1 over parts and orders; the line begins with the largest
gate. Beyond the training length the line goes on, jets grow as d^order until e^(-delta d / L)
outweighs them, and the light cone turns ever slower.

jets=False and lightcone=False leave the line alone, -s d / L: ALiBi with learned slopes that begin
at 2 / L in every head, which is what the paper compares with as ALiBi. The authors' models are all
causal, and their d is 0 at later keys. Values and initial values follow their code.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp

from pe_jax.encoding import Encoding
from pe_jax.fields import Natural, Positive
from pe_jax.geometry import inverse_softplus

CYCLES = 1.0, 17.0  # turns within the training length of the first and the last head
GATES = {"jets": -2.0, "line": 2.0, "lightcone": -2.0}  # logits at the start


@dataclasses.dataclass(frozen=True)
class PJBias(Encoding):
    """Jets, a line and a light cone of the distance, weighed by gates."""

    jets: bool = True
    line: bool = True
    lightcone: bool = True
    order: Natural = 3
    """The highest power r of jets and light cone."""
    slope: Positive = 2.0
    """s at the start of training, in nats per training length."""
    per_layer: tuple[str, ...] = dataclasses.field(default=("*",), kw_only=True)

    def __post_init__(self):
        if not self._parts:
            raise ValueError("pj_bias needs one of jets, line and lightcone")
        if self.order > 20:
            raise ValueError(f"pj_bias's order must be at most 20, got {self.order}: float32 ends")

    @property
    def _parts(self):
        return [part for part in GATES if getattr(self, part)]

    def init(self, key):
        H, orders = self.dims.heads, self.order + 1
        params = {}
        if len(self._parts) > 1:
            params["gates"] = jnp.tile(jnp.array([GATES[part] for part in self._parts]), (H, 1))
        if self.line:
            params["slope"] = jnp.full(H, inverse_softplus(self.slope))
        if self.jets:
            params["damping"] = jnp.full(H, -2.0)
        if self.jets or self.lightcone:
            cycles = jnp.linspace(*CYCLES, H) if H > 1 else jnp.array([CYCLES[1]])
            params["frequency"] = 2 * math.pi * cycles / self.dims.train_len
        for part in (part for part in self._parts if part != "line"):
            draws = jax.random.normal(jax.random.fold_in(key, [*GATES].index(part)), (2, H, orders))
            u, v = 0.02 * draws
            params |= {f"{part}_u": u, f"{part}_v": v, f"{part}_orders": jnp.zeros((H, orders))}
        return params

    def relative_bias(self, params, n):
        L = self.dims.train_len
        x = jnp.abs(n).astype(jnp.float32)[None] / L
        orders = range(self.order + 1)
        gates = jax.nn.softmax(params["gates"], -1) if "gates" in params else jnp.ones((1, 1))
        bias = 0.0
        for part, gate in zip(self._parts, gates.T[..., None], strict=True):
            if part == "line":
                bias = bias - gate * jax.nn.softplus(params["slope"])[:, None] * x
            elif part == "jets":
                damped = jnp.exp(-jax.nn.softplus(params["damping"])[:, None] * x)
                powers = [x**r / float(math.factorial(r)) for r in orders]
                bias = bias + gate * damped * self._waves(params, part, L * x, powers)
            else:
                beta = x / jnp.sqrt(x**2 + 1)
                powers = [beta**r for r in orders]
                bias = bias + gate * self._waves(params, part, L * jnp.arcsinh(x), powers)
        return bias

    def _waves(self, params, part, phase, powers):
        """sum_r a_r powers[r] (u_r cos(w phase) - v_r sin(w phase)), [H, N]."""
        weight, rows = jax.nn.softmax(params[f"{part}_orders"], -1), jnp.concatenate(powers)
        u, v = (jnp.einsum("hr,rn->hn", weight * params[f"{part}_{x}"], rows) for x in "uv")
        angle = params["frequency"][:, None] * phase
        return u * jnp.cos(angle) - v * jnp.sin(angle)
