"""Encodings for tests alone: together they use every site of the contract, each beside its formula.

A formula is a function of a reference_case.Case, as in reference.py: plain NumPy with loops.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
from reference_case import attention

from pe_jax.encoding import Encoding


def _draw(key, *shape):
    return 0.3 * jax.random.normal(key, shape)


def _distance(q_pos, k_pos):
    return q_pos[:, None] - k_pos[None, :]


@dataclasses.dataclass(frozen=True)
class Clipped(Encoding):
    """Shaw et al. (2018): q_i . (k_j + a_n), v_j + b_n, n clipped."""

    clip: int = 4

    def init(self, key):
        a, b = jax.random.split(key)
        shape = (2 * self.clip + 1, self.dims.head)
        return {"keys": _draw(a, *shape), "values": _draw(b, *shape)}

    def _rows(self, table, n):
        r = table[jnp.clip(jnp.round(n).astype(jnp.int32), -self.clip, self.clip) + self.clip]
        return jnp.broadcast_to(r[None], (self.dims.heads, *r.shape))

    def relative_keys(self, params, n):
        return self._rows(params["keys"], n)

    def relative_values(self, params, n):
        return self._rows(params["values"], n)


def clipped(e, params, case, dot=None, gate=None):
    def row(i, j):
        return int(np.clip(case.distance(i, j), -e.clip, e.clip)) + e.clip

    def logit(i, j, h):
        q = case.q[i, h] / math.sqrt(e.dims.head)
        return (dot or case.dot)(i, j, h) + q @ params["keys"][row(i, j)]

    return attention(case, logit, gate=gate, value=lambda i, j, h: params["values"][row(i, j)])


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
class Toeplitz(Encoding):
    """Luo et al. (2022), URPE: weights times c[h, n]."""

    size: int = 16

    def init(self, key):
        return {"c": 1.0 + _draw(key, self.dims.heads, self.size)}

    def gate(self, params, q_pos, k_pos):
        n = jnp.abs(_distance(q_pos, k_pos))
        return params["c"][:, jnp.minimum(n, self.size - 1)]


def toeplitz(e, params, case):
    def gate(i, j, h):
        return params["c"][h, min(abs(case.distance(i, j)), e.size - 1)]

    return attention(case, case.dot, gate=gate)


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
class LogScale(Encoding):
    """Logits times s_h max(1, ln(i + 1) / ln 4)."""

    def init(self, key):
        return {"s": 1.0 + _draw(key, self.dims.heads)}

    def scale(self, params, q_pos):
        grown = jnp.maximum(1.0, jnp.log(q_pos + 1.0) / math.log(4))
        return grown[:, None] * params["s"][None]


def log_scale(e, params, case):
    def logit(i, j, h):
        return case.dot(i, j, h) * params["s"][h] * max(1, math.log(case.pos[i] + 1) / math.log(4))

    return attention(case, logit)


@dataclasses.dataclass(frozen=True)
class Forget(Encoding):
    """Lin et al. (2025), FoX: logits + sum_{t = j+1 .. i} ln sigmoid(w_h . x_t)."""

    def init(self, key):
        return {"w": _draw(key, self.dims.model, self.dims.heads)}

    def locate(self, params, x, pos, before):
        c = jnp.cumsum(jax.nn.log_sigmoid(x @ params["w"]), axis=0)
        return c if before is None else c + before[None]

    def bias(self, params, q_pos, k_pos):
        return q_pos.T[:, :, None] - k_pos.T[:, None, :]


def forget(e, params, case):
    fade = -np.log1p(np.exp(-case.x @ params["w"]))

    def logit(i, j, h):
        between = fade[min(i, j) + 1 : max(i, j) + 1, h].sum()
        return case.dot(i, j, h) + (between if i >= j else -between)

    return attention(case, logit)


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
class Contextual(Encoding):
    """Golovneva et al. (2024), CoPE: logits + q_i . e[count], count = sum_{t = j .. i} of gates."""

    whole_rows = True
    most: int = 5

    def init(self, key):
        return {"e": _draw(key, self.most, self.dims.head)}

    def logits(self, params, logits, q, k, q_pos, k_pos):
        gates = jax.nn.sigmoid(logits)
        count = jnp.minimum(jnp.cumsum(gates[..., ::-1], axis=-1)[..., ::-1], self.most - 1.0)
        below = jnp.floor(count)
        part = count - below
        at = jnp.einsum("thk,nk->htn", q, params["e"])
        low = jnp.take_along_axis(at, below.astype(jnp.int32), -1)
        high = jnp.take_along_axis(at, jnp.ceil(count).astype(jnp.int32), -1)
        return logits + (1.0 - part) * low + part * high


def contextual(e, params, case):
    last = e.most - 1

    def logit(i, j, h):
        keys = range(j, i + 1 if case.causal else len(case.x))
        count = min(sum(1 / (1 + math.exp(-case.dot(i, t, h))) for t in keys), last)
        below, above = math.floor(count), math.ceil(count)
        vector = (1 - count + below) * params["e"][below] + (count - below) * params["e"][above]
        return case.dot(i, j, h) + case.q[i, h] @ vector / math.sqrt(e.dims.head)

    return attention(case, logit)


@dataclasses.dataclass(frozen=True)
class MixHeads(Encoding):
    """As in Zheng et al. (2024), DAPE: s_g + sum_h m_gh tanh(s_h)."""

    def init(self, key):
        return {"m": _draw(key, self.dims.heads, self.dims.heads)}

    def logits(self, params, logits, q, k, q_pos, k_pos):
        return logits + jnp.einsum("gh,hts->gts", params["m"], jnp.tanh(logits))


def mix_heads(e, params, case):
    def logit(i, j, h):
        s = [math.tanh(case.dot(i, j, g)) for g in range(e.dims.heads)]
        return case.dot(i, j, h) + params["m"][h] @ s

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
        s = jnp.tanh(jnp.where(logits < -1e29, 0.0, logits))
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


@dataclasses.dataclass(frozen=True)
class StickBreaking(Encoding):
    """Tan et al. (2025): w_j = sigmoid(s_j) prod_{t > j} (1 - sigmoid(s_t))."""

    def normalize(self, params, logits):
        rest = jax.nn.log_sigmoid(-logits)
        after = jnp.cumsum(rest[..., ::-1], axis=-1)[..., ::-1] - rest
        return jnp.exp(jax.nn.log_sigmoid(logits) + after)


def stick_breaking(e, params, case):
    def normalize(s):
        broken = 1 / (1 + np.exp(-s))
        return np.array([broken[j] * np.prod(1 - broken[j + 1 :]) for j in range(len(s))])

    return attention(case, case.dot, normalize=normalize)


@dataclasses.dataclass(frozen=True)
class Jittered(Encoding):
    """As in Likhomanenko et al. (2021), CAPE: 1.25 pos + uniform noise, in training; floats."""

    def positions(self, tokens, pos, key, train):
        if not train:
            return 1.25 * pos
        return 1.25 * pos + jax.random.uniform(key, pos.shape, minval=-0.4, maxval=0.4)


EXOTIC = {
    "clipped": (Clipped, clipped),
    "answered": (Answered, answered),
    "toeplitz": (Toeplitz, toeplitz),
    "pair_gate": (PairGate, pair_gate),
    "log_scale": (LogScale, log_scale),
    "forget": (Forget, forget),
    "selective": (Selective, selective),
    "contextual": (Contextual, contextual),
    "mix_heads": (MixHeads, mix_heads),
    "capped": (Capped, capped),
    "mix_keys": (MixKeys, mix_keys),
    "stick_breaking": (StickBreaking, stick_breaking),
}
