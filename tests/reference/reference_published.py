"""Encodings published in 2024 and 2025, by their papers' formulas.

As in reference.py, whose REFERENCES take these in: NumPy in float64, loops, without pe_jax. K is
the head size. Where a paper leaves something to its code, or the two differ, the docstring says so.
"""

import itertools
import math

import numpy as np
from reference_biases import biased, rotated
from reference_case import alibi_slopes, attention, dape_prior


def softplus(x):
    return np.logaddexp(0.0, x)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def resonance(e, params, case):
    """Wang et al. (2024), algorithm 1: RoPE with w'_c = 2 pi / round(2 pi / w_c), w of RoPE."""
    K = case.q.shape[-1]
    wavelengths = [2 * math.pi * e.base ** (2 * c / K) for c in range(K // 2)]
    w = [2 * math.pi / round(length) for length in wavelengths]
    return rotated(case, [(c, c + K // 2) for c in range(K // 2)], w)


def fope(e, params, case):
    """Hua et al. (2025), eq. 11-13: RoPE, f_c(i) in place of e^{i w_c}, for queries and for keys.

    f_c(i) = 1 where w_c < 2 pi / L, L the training length; else sum_d cos[d, c] cos(i w_d) + i
    sum_d sin[d, c] sin(i w_d), over the frequencies w_d that are left (appendix B drops the others
    before it sums). The matrices, one of each a head, hold the 1 of e^{i w_c} itself on their
    diagonal. Appendix B also divides columns by their sums: eq. 13 and the experiments do not.
    """
    K = case.q.shape[-1]
    w = [e.base ** (-2 * c / K) for c in range(K // 2)]
    kept = [c for c in range(K // 2) if w[c] >= 2 * math.pi / e.dims.train_len]
    q, k = (x[..., : K // 2] + 1j * x[..., K // 2 :] for x in (case.q, case.k))

    def f(i, h, c):
        if c not in kept:
            return 1.0
        real = sum(params["cos"][h, d, c] * math.cos(case.pos[i] * w[d]) for d in kept)
        imaginary = sum(params["sin"][h, d, c] * math.sin(case.pos[i] * w[d]) for d in kept)
        return complex(real, imaginary)

    def logit(i, j, h):
        turned = [q[i, h, c] * f(i, h, c) * np.conj(k[j, h, c] * f(j, h, c)) for c in range(K // 2)]
        return sum(turned).real / math.sqrt(K)

    return {"attend": attention(case, logit)}


def pope(e, params, case):
    """Gopalakrishnan et al. (2025), eq. 3 and 6: sum_c softplus(q_c) softplus(k_c) cos((j - i) w_c
    + delta_c), over all K components, w_c = base^(-c/K), delta held within -2 pi .. 0.

    The softplus takes q as it is: K^-1/2, on the sum, is no part of eq. 6.
    """
    K = case.q.shape[-1]
    w = np.array([e.base ** (-c / K) for c in range(K)])
    delta = np.clip(params["delta"], -2 * math.pi, 0)

    def logit(i, j, h):
        magnitude = softplus(case.q[i, h]) * softplus(case.k[j, h])
        return magnitude @ np.cos(-case.distance(i, j) * w + delta[h]) / math.sqrt(K)

    return {"attend": attention(case, logit)}


def grape_a(e, params, case):
    """Zhang et al. (2025), 4.1, key-gated: q_i . k_j / sqrt(K) + (i - j) omega u . k_j.

    By their code, which it takes to be a penalty: omega is -softplus(omega_h) m_h, m ALiBi's
    slopes, and the gate softplus(u_h . k_j / sqrt(K)), u_h of length 1 (divided by 1e-6 or more).
    """
    K, slopes = case.k.shape[-1], alibi_slopes(e.dims.heads)

    def b(i, j, h):
        u = params["u"][h] / max(np.linalg.norm(params["u"][h]), 1e-6)
        gate = softplus(u @ case.k[j, h] / math.sqrt(K))
        return -abs(case.distance(i, j)) * softplus(params["omega"][h]) * slopes[h] * gate

    return biased(case, b)


def stick_breaking(e, params, case):
    """Tan et al. (2025), eq. 1: o_i = sum_{j < i} w_ij v_j, w_ij = beta_ij prod_{j < t < i} (1 -
    beta_it), beta = sigmoid(q_i . k_j / sqrt(K)). What is left of the stick, for the first query
    all of it, goes to nothing.
    """

    def normalize(s):
        beta = sigmoid(s)  # the last is the query's own key
        own = len(s) - 1
        return np.array([beta[j] * np.prod(1 - beta[j + 1 : own]) for j in range(own)] + [0.0])

    return {"attend": attention(case, case.dot, normalize=normalize)}


def dape_v2(e, params, case):
    """Zheng et al. (2025): DAPE whose f is two convolutions of 1 x kernel over the keys, across the
    heads, a LeakyReLU (0.01) between: w1 [kernel, 2H, F], b1 [F], w2 [kernel, F, H].

    By their code tap t meets key j + t - kernel // 2, and z and b of keys after the query are 0.
    Here what is hidden of these keys is 0 as well, as there in the last row, whatever follows the
    query. As in dape, no last bias.
    """
    H = e.dims.heads

    def convolved(rows, w):
        out = np.zeros((len(rows), w.shape[-1]))
        for j, t in itertools.product(range(len(rows)), range(e.kernel)):
            near = j + t - e.kernel // 2
            if 0 <= near < len(rows):
                out[j] += rows[near] @ w[t]
        return out

    def row(i):
        keys = range(i + 1 if case.causal else len(case.x))
        z = np.array([[case.dot(i, j, h) for h in range(H)] for j in keys])
        b = np.array(
            [[dape_prior(e, params, case.distance(i, j), h) for h in range(H)] for j in keys]
        )
        hidden = convolved(np.concatenate([z, b], axis=1), params["w1"]) + params["b1"]
        return z + b + convolved(np.where(hidden > 0, hidden, 0.01 * hidden), params["w2"])

    logits = [row(i) for i in range(len(case.x))]
    return {"attend": attention(case, lambda i, j, h: logits[i][j, h])}


REFERENCES = {
    function.__name__: function
    for function in (
        resonance,
        fope,
        pope,
        grape_a,
        stick_breaking,
        dape_v2,
    )
}
