"""Encodings for tests alone, with what none of the table does at a site, each beside its formula.

A formula is a function of a reference_case.Case, as in reference.py: plain NumPy with loops.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
from reference_case import attention

from pe_jax.encoding import Encoding, seen


def _draw(key, *shape):
    return 0.3 * jax.random.normal(key, shape)


@dataclasses.dataclass(frozen=True)
class Answered(Encoding):
    """As Huang et al. (2020), method 4, has it: r_n . k_j in the logits; weights times c_n."""

    clip: int = 4

    def init(self, key):
        r, c = jax.random.split(key)
        H, rows = self.dims.heads, 2 * self.clip + 1
        return {"r": _draw(r, H, rows, self.dims.head), "c": 1.0 + _draw(c, H, rows)}

    def _row(self, n):
        return jnp.clip(jnp.round(n).astype(jnp.int32), -self.clip, self.clip) + self.clip

    def relative_queries(self, params, n):
        return params["r"][:, self._row(n)]

    def relative_gate(self, params, n):
        return params["c"][:, self._row(n)]


def answered(e, params, case):
    def row(i, j):
        return int(np.clip(case.distance(i, j), -e.clip, e.clip)) + e.clip

    def logit(i, j, h):
        return case.dot(i, j, h) + params["r"][h, row(i, j)] @ case.k[j, h]

    return attention(case, logit, gate=lambda i, j, h: params["c"][h, row(i, j)])


@dataclasses.dataclass(frozen=True)
class PairGate(Encoding):
    """Weights times 1 + sin(a_h i) cos(b_h j) / 2: not a function of the distance."""

    def init(self, key):
        return {"a": _draw(key, self.dims.heads), "b": 1.0 + _draw(key, self.dims.heads)}

    def gate(self, params, q_pos, k_pos):
        a = jnp.sin(params["a"][:, None] * q_pos[None])
        b = jnp.cos(params["b"][:, None] * k_pos[None])
        return 1.0 + 0.5 * a[:, :, None] * b[:, None, :]


def pair_gate(e, params, case):
    def gate(i, j, h):
        i, j = case.pos[i], case.pos[j]
        return 1 + math.sin(params["a"][h] * i) * math.cos(params["b"][h] * j) / 2

    return attention(case, case.dot, gate=gate)


@dataclasses.dataclass(frozen=True)
class Selective(Encoding):
    """Rotations that the tokens choose: Re q_i conj(k_j) e^{i (c_i - c_j)}, c = cumsum(x W)."""

    def init(self, key):
        return {"w": _draw(key, self.dims.model, self.dims.heads * self.dims.head // 2)}

    def locate(self, params, x, pos, before):
        turn = jnp.cumsum(x @ params["w"], axis=0)
        turn = turn if before is None else turn + before["turn"][None]
        return {"turn": turn}

    def _turned(self, x, coords):
        cos, sin = (f(coords["turn"]).reshape(*x.shape[:2], -1) for f in (jnp.cos, jnp.sin))
        a, b = jnp.split(x.astype(jnp.float32), 2, axis=-1)
        return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1).astype(x.dtype)

    def qk(self, params, q, k, q_pos, k_pos):
        return self._turned(q, q_pos), self._turned(k, k_pos)


def selective(e, params, case):
    half = e.dims.head // 2
    c = np.cumsum(case.x @ params["w"], axis=0).reshape(-1, e.dims.heads, half)
    q, k = (a[..., :half] + 1j * a[..., half:] for a in (case.q, case.k))

    def logit(i, j, h):
        turned = q[i, h] * np.conj(k[j, h]) * np.exp(1j * (c[i, h] - c[j, h]))
        return turned.sum().real / math.sqrt(e.dims.head)

    return attention(case, logit)


@dataclasses.dataclass(frozen=True)
class Capped(Encoding):
    """3 tanh(s / 3): a hook that brings hidden logits back among the others."""

    def logits(self, params, logits, q, k, q_pos, k_pos):
        return 3.0 * jnp.tanh(logits / 3.0)


def capped(e, params, case):
    return attention(case, lambda i, j, h: 3 * math.tanh(case.dot(i, j, h) / 3))


@dataclasses.dataclass(frozen=True)
class MixKeys(Encoding):
    """As in Zheng et al. (2024), DAPE-V2: s_j + sum_d m_d tanh(s_{j+d}), d = -1 .. 1; hidden: 0."""

    whole_rows = True

    def init(self, key):
        return {"m": _draw(key, 3)}

    def logits(self, params, logits, q, k, q_pos, k_pos):
        s = jnp.tanh(jnp.where(seen(logits), logits, 0.0))
        s = jnp.pad(s, [(0, 0), (0, 0), (1, 1)])
        keys = logits.shape[-1]
        return logits + sum(params["m"][d] * s[..., d : d + keys] for d in range(3))


def mix_keys(e, params, case):
    def logit(i, j, h):
        last = i if case.causal else len(case.x) - 1
        near = [(d, j + d - 1) for d in range(3) if 0 <= j + d - 1 <= last]
        return case.dot(i, j, h) + sum(
            params["m"][d] * math.tanh(case.dot(i, t, h)) for d, t in near
        )

    return attention(case, logit)


EXOTIC = {
    "answered": (Answered, answered),
    "pair_gate": (PairGate, pair_gate),
    "selective": (Selective, selective),
    "capped": (Capped, capped),
    "mix_keys": (MixKeys, mix_keys),
}
