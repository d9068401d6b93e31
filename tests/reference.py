"""What each encoding is, by its paper's formula: NumPy in float64, with loops, without pe_jax.

One function an encoding, named as in ENCODINGS and entered in REFERENCES. It gets the encoding (for
its fields and dims), its parameters and a Case, and returns what the encoding decides, by site:

    "embed"      the input [L, D]
    "attend"     the output [L, H, K] of the attention of every query over every key
    "positions"  a function of `train`: all outcomes, equally likely, each a tuple of L numbers, or
                 a function that draws one by a NumPy generator

The logits are scaled by K^-1/2 for every encoding, also where its paper does not (T5).
"""

import itertools
import math
from typing import NamedTuple

import numpy as np


class Case(NamedTuple):
    """A tiny example: x [L, D], tokens [L], positions [L]; queries, keys and values [L, H, K]."""

    x: np.ndarray
    tokens: np.ndarray
    pos: np.ndarray
    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    causal: bool = True

    def dot(self, i, j, h):
        return self.q[i, h] @ self.k[j, h] / math.sqrt(self.q.shape[-1])

    def distance(self, i, j):
        return self.pos[i] - self.pos[j]


def softmax(s):
    w = np.exp(s - s.max())
    return w / w.sum()


def attention(case, logit, seen=None, normalize=softmax, gate=None, value=None):
    """o_ih = sum_j w_ijh gate(i, j, h) (v_jh + value(i, j, h)), w_i.h = normalize(logit(i, ., h)).

    j runs over the keys that query i sees: seen(i, j), and none after it where the case is causal.
    """
    L, H, _ = case.v.shape
    out = np.zeros(case.v.shape)
    for i, h in itertools.product(range(L), range(H)):
        keys = [j for j in range(L) if (seen is None or seen(i, j)) and (j <= i or not case.causal)]
        weights = normalize(np.array([logit(i, j, h) for j in keys]))
        for j, w in zip(keys, weights, strict=True):
            w = w if gate is None else w * gate(i, j, h)
            out[i, h] += w * (case.v[j, h] if value is None else case.v[j, h] + value(i, j, h))
    return out


def nope(e, params, case):
    """Haviv et al. (2022): softmax(q_i . k_j / sqrt(K)), and nothing else."""
    return {"embed": case.x, "attend": attention(case, case.dot)}


def learned(e, params, case):
    """Gehring et al. (2017): x_i + P[i]. Beyond P: not a number, or its last row where clipped."""
    table = params["table"]
    beyond = table[-1] if e.clip else np.nan
    return {
        "embed": np.array(
            [
                x + (table[p] if p < len(table) else beyond)
                for x, p in zip(case.x, case.pos, strict=True)
            ]
        )
    }


def sinusoid(pos, size, base=10000.0):
    """Vaswani et al. (2017), 3.5: PE[2i] = sin(pos / base^(2i/size)), PE[2i + 1] the cosine."""
    out = np.zeros(size)
    for i in range(size // 2):
        angle = pos / base ** (2 * i / size)
        out[2 * i], out[2 * i + 1] = math.sin(angle), math.cos(angle)
    return out


def sinusoidal(e, params, case):
    """Vaswani et al. (2017): x_i + PE(i)."""
    size = e.dims.model
    rows = [x + sinusoid(p, size, e.base) for x, p in zip(case.x, case.pos, strict=True)]
    return {"embed": np.array(rows)}


def rope(e, params, case):
    """Su et al. (2021), eq. 14-16: Re sum_c q_c conj(k_c) e^{i (m - n) w_c}, w_c = base^(-2c/K).

    The complex number c is (x_c, x_{c + K/2}).
    """
    K = case.q.shape[-1]
    w = np.array([e.base ** (-2 * c / K) for c in range(K // 2)])
    q, k = (x[..., : K // 2] + 1j * x[..., K // 2 :] for x in (case.q, case.k))

    def logit(i, j, h):
        turned = q[i, h] * np.conj(k[j, h]) * np.exp(1j * case.distance(i, j) * w)
        return turned.sum().real / math.sqrt(K)

    return {"attend": attention(case, logit)}


def pi(e, params, case):
    """Chen et al. (2023), 3.2: f'(x, m) = f(x, m L / L'), RoPE at positions times L / L'."""
    return rope(e, params, case._replace(pos=case.pos / (e.factor or 1)))


def bucket(n, buckets, max_distance, causal=True):
    """T5's bucket of n = i - j, by integers alone (Raffel et al., 2020, 2.1, and their code).

    With e exact buckets and r = buckets - e others, floor(ln(n / e) / ln(m / e) r) is the largest b
    with (m / e)^b <= (n / e)^r, that is m^b e^(r - b) <= n^r. Keys after the query take the second
    half of the buckets.
    """
    if not causal:
        half = buckets // 2
        return bucket(abs(n), half, max_distance) + (half if n < 0 else 0)
    n, e = max(int(n), 0), buckets // 2
    if n < e:
        return n
    r, b = buckets - e, 0
    while b + 1 < r and max_distance ** (b + 1) * e ** (r - b - 1) <= n**r:
        b += 1
    return e + b


def t5(e, params, case):
    """Raffel et al. (2020): q_i . k_j + table[h, bucket(i - j)].

    max_distance is 128 in the paper; here, unless given, the training length where that is less,
    but always more than the buckets that are exact.
    """
    exact = (e.buckets if case.causal else e.buckets // 2) // 2
    furthest = e.max_distance or max(exact + 1, min(128, e.dims.train_len))

    def logit(i, j, h):
        n = case.distance(i, j)
        return case.dot(i, j, h) + params["table"][h, bucket(n, e.buckets, furthest, case.causal)]

    return {"attend": attention(case, logit)}


def transformer_xl(e, params, case):
    """Dai et al. (2019), 3.3: [(q_i + u) . k_j + (q_i + v) . (W_r R_{i-j})] / sqrt(K).

    R_n = (sin(n w_0), .. sin(n w_{D/2-1}), cos(n w_0), ..), w_c = base^(-2c/D),
    and n is clamped where `clamp` is given.
    """
    D, K = e.dims.model, case.q.shape[-1]
    w = np.array([e.base ** (-2 * c / D) for c in range(D // 2)])

    def logit(i, j, h):
        n = case.distance(i, j)
        if e.clamp is not None:
            n = max(-e.clamp, min(n, e.clamp))
        r = np.concatenate([np.sin(n * w), np.cos(n * w)]) @ params["r"][:, h]
        content = (case.q[i, h] + params["u"][h]) @ case.k[j, h]
        return (content + (case.q[i, h] + params["v"][h]) @ r) / math.sqrt(K)

    return {"attend": attention(case, logit)}


def alibi_slopes(heads):
    """Press et al. (2022): 2^(-8h/H) for a power of two; else the rule of the authors' code."""
    if heads & (heads - 1) == 0:
        return [2 ** (-8 * h / heads) for h in range(1, heads + 1)]
    power = 2 ** math.floor(math.log2(heads))
    return alibi_slopes(power) + alibi_slopes(2 * power)[0::2][: heads - power]


def alibi(e, params, case):
    """Press et al. (2022): q_i . k_j - m_h |i - j|."""
    slope = alibi_slopes(e.dims.heads)

    def logit(i, j, h):
        return case.dot(i, j, h) - slope[h] * abs(case.distance(i, j))

    return {"attend": attention(case, logit)}


def randomized(e, params, case):
    """Ruoss et al. (2023): L of the positions 0 .. max - 1, without repetition, ascending."""
    most = e.max or 32 * e.dims.train_len
    return {"positions": lambda train: list(itertools.combinations(range(most), len(case.pos)))}


def window(e, params, case):
    """Xiao et al. (2023): the last `window` keys, with the query's own, and the first `sinks`."""
    window = e.dims.train_len if e.window is None else e.window

    def seen(i, j):
        return abs(i - j) < window or j < e.sinks

    return {"attend": attention(case, case.dot, seen)}


REFERENCES = {
    function.__name__: function
    for function in (
        nope,
        learned,
        sinusoidal,
        rope,
        pi,
        t5,
        transformer_xl,
        alibi,
        randomized,
        window,
    )
}
