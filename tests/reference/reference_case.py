"""What references share: a tiny example, attention by loops, and what two papers define alike."""

import itertools
import math
from typing import NamedTuple

import numpy as np


class Case(NamedTuple):
    """A tiny example: x [L, D], tokens [L], positions [L]; queries, keys and values [L, H, K]. Of a
    case whose values are None `attention` returns the logits.
    """

    x: np.ndarray
    tokens: np.ndarray
    pos: np.ndarray
    q: np.ndarray
    k: np.ndarray
    v: np.ndarray | None
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
    Without values the logits [H, L, L], NaN for keys that the query does not see.
    """
    L, H, _ = case.q.shape
    out = np.full((H, L, L), np.nan) if case.v is None else np.zeros(case.v.shape)
    for i, h in itertools.product(range(L), range(H)):
        keys = [j for j in range(L) if (seen is None or seen(i, j)) and (j <= i or not case.causal)]
        logits = np.array([logit(i, j, h) for j in keys])
        if case.v is None:
            out[h, i, keys] = logits
            continue
        weights = normalize(logits)
        for j, w in zip(keys, weights, strict=True):
            w = w if gate is None else w * gate(i, j, h)
            out[i, h] += w * (case.v[j, h] if value is None else case.v[j, h] + value(i, j, h))
    return out


def biased(case, b):
    """softmax(q_i . k_j / sqrt(K) + b(i, j, h)), with i and j the places in the sequence."""
    return {"attend": attention(case, lambda i, j, h: case.dot(i, j, h) + b(i, j, h))}


def frequencies(size, base):
    """Su et al. (2021), 3.2.2: w_c = base^(-2c/K) of the K/2 pairs of a head."""
    return [base ** (-2 * c / size) for c in range(size // 2)]


def turned_components(e):
    """r, which frequencies and scalings count: int(partial_rotary_factor K) in Hugging Face's code,
    here an even number.
    """
    return int(e.rotary_pct * e.dims.head) // 2 * 2


def rope_frequencies(e, base=None):
    """Those of the components that turn (Black et al., 2022, GPT-NeoX)."""
    return frequencies(turned_components(e), base or e.base)


def complex_pairs(case, pairs=None):
    """Queries and keys as complex numbers, (x_c, x_{c + pairs}), by default K/2 of them."""
    half = pairs or case.q.shape[-1] // 2
    return (x[..., :half] + 1j * x[..., half : 2 * half] for x in (case.q, case.k))


def turned(case, angles):
    """Re q_i conj(k_j) e^{i (angles_i - angles_j)} / sqrt(K), angles [L, H, m]; components from 2m
    on are not turned.
    """
    half = angles.shape[-1]
    q, k = complex_pairs(case, half)

    def logit(i, j, h):
        product = q[i, h] * np.conj(k[j, h]) * np.exp(1j * (angles[i, h] - angles[j, h]))
        out = product.sum().real + case.q[i, h, 2 * half :] @ case.k[j, h, 2 * half :]
        return out / math.sqrt(case.q.shape[-1])

    return {"attend": attention(case, logit)}


def rotated(case, w, temperature=1.0, decay=None, distance=None, seen=None):
    """Su et al. (2021), eq. 14-16: Re sum_c q_c conj(k_c) e^{i n w_c} decay_c^n / sqrt(K).

    The complex number c is (x_c, x_{c + m}), m the number of frequencies; components from 2m on are
    not turned. n = distance(i, j), unless given that of the positions.
    """
    half, decay = len(w), np.ones(len(w)) if decay is None else np.array(decay)
    q, k = complex_pairs(case, half)

    def logit(i, j, h):
        n = (distance or case.distance)(i, j)
        out = (q[i, h] * np.conj(k[j, h]) * np.exp(1j * n * np.array(w)) * decay**n).real.sum()
        out += case.q[i, h, 2 * half :] @ case.k[j, h, 2 * half :]
        return temperature * out / math.sqrt(case.q.shape[-1])

    return {"attend": attention(case, logit, seen)}


def sinusoid(pos, size, base=10000.0, variant="paper"):
    """Vaswani et al. (2017), 3.5: PE[2i] = sin(pos / base^(2i/size)), PE[2i + 1] the cosine.

    "t2t", their code: all sines, then all cosines, and the frequencies fall from 1 to 1 / base
    itself, pos / base^(i / (size/2 - 1)), which the paper's never reach.
    """
    half = size // 2
    out = np.zeros(size)
    for i in range(half):
        if variant == "t2t":
            angle = pos / base ** (i / (half - 1))
            out[i], out[half + i] = math.sin(angle), math.cos(angle)
        else:
            angle = pos / base ** (2 * i / size)
            out[2 * i], out[2 * i + 1] = math.sin(angle), math.cos(angle)
    return out


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


def alibi_slopes(heads, variant="code"):
    """Press et al. (2022), 3: 2^(-8h/H), h = 1 .. H. Where H is no power of two their code has the
    slopes of the next lower one, then every other of twice as many.
    """
    if variant == "paper" or heads & (heads - 1) == 0:
        return [2 ** (-8 * h / heads) for h in range(1, heads + 1)]
    power = 2 ** math.floor(math.log2(heads))
    return alibi_slopes(power) + alibi_slopes(2 * power)[0::2][: heads - power]


def dape_prior(e, params, n, h):
    """What DAPE adapts: -m_h |n|, or -p_h ln(1 + a_h |n|), p and a at least 0.01."""
    if e.prior == "alibi":
        return -alibi_slopes(e.dims.heads)[h] * abs(n)
    p, a = (max(params[name][h], 0.01) for name in ("p", "a"))
    return -p * math.log(1 + a * abs(n))
