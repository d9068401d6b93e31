"""Encodings published since 2024, by their papers' formulas.

As in reference.py: NumPy in float64, loops, without pe_jax. K is the head size, L the training
length, x the layer's normalised input. Where a paper leaves something to its code, or the two
differ, the docstring says so.
"""

import itertools
import math

import numpy as np
from reference_case import (
    alibi_slopes,
    attention,
    biased,
    complex_pairs,
    dape_prior,
    frequencies,
    rope_frequencies,
    rotated,
    turned,
    turned_components,
)


def softplus(x):
    return np.logaddexp(0.0, x)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def resonance(e, params, case):
    """Wang et al. (2024), algorithm 1: RoPE with w'_c = 2 pi / round(2 pi / w_c), w of RoPE."""
    w = [2 * math.pi / round(2 * math.pi / x) for x in rope_frequencies(e)]
    return rotated(case, w)


def fope(e, params, case):
    """Hua et al. (2025), eq. 11-13: RoPE, f_c(i) in place of e^{i w_c}, for queries and for keys.

    f_c(i) = 1 where w_c < 2 pi / L, L the training length; else sum_d cos[d, c] cos(i w_d) + i
    sum_d sin[d, c] sin(i w_d), over the frequencies w_d that are left (appendix B drops the others
    before it sums). The matrices, one of each a head, hold the 1 of e^{i w_c} itself on their
    diagonal. Appendix B also divides columns by their sums: eq. 13 and the experiments do not.
    """
    w = rope_frequencies(e)
    half = len(w)
    kept = [c for c in range(half) if w[c] >= 2 * math.pi / e.dims.train_len]
    q, k = complex_pairs(case, half)

    def f(i, h, c):
        if c not in kept:
            return 1.0
        real = sum(params["cos"][h, d, c] * math.cos(case.pos[i] * w[d]) for d in kept)
        imaginary = sum(params["sin"][h, d, c] * math.sin(case.pos[i] * w[d]) for d in kept)
        return complex(real, imaginary)

    def logit(i, j, h):
        turned = [q[i, h, c] * f(i, h, c) * np.conj(k[j, h, c] * f(j, h, c)) for c in range(half)]
        rest = case.q[i, h, 2 * half :] @ case.k[j, h, 2 * half :]
        return (sum(turned).real + rest) / math.sqrt(case.q.shape[-1])

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


def silu(x):
    return x * sigmoid(x)


def convolved(rows, taps):
    """sum_d taps[d] rows[t - d] at every t, zeros before the first row."""
    out = np.zeros(rows.shape)
    for t in range(len(rows)):
        for d in range(min(t + 1, len(taps))):
            out[t] += taps[d] * rows[t - d]
    return out


def path(e, params, case):
    """Yang et al. (2025), 2.2: k_j^T H_{j+1} .. H_i q_i / sqrt(K), H_t = I - beta_t w_t w_t^T.

    beta = 2 sigmoid(u . x + b). Footnote 2: w is x through a linear layer of low rank, a
    convolution of 3 tokens, and an L2 normalisation (their code's epsilon is 1e-6, within the
    root); their code's convolution ends in a SiLU.
    """
    x = case.x.astype(np.float64)
    w = np.einsum("lr,rhk->lhk", x @ params["low"], params["high"])
    w = convolved(w, params["taps"])
    w = silu(w) if e.variant == "code" else w
    w = w / np.sqrt((w**2).sum(-1, keepdims=True) + 1e-6)
    beta = 2 * sigmoid(x @ params["u"] + params["b"])
    eye = np.eye(case.q.shape[-1])

    def logit(i, j, h):
        product = eye
        for t in range(j + 1, i + 1):
            product = product @ (eye - beta[t, h] * np.outer(w[t, h], w[t, h]))
        return case.k[j, h] @ product @ case.q[i, h] / math.sqrt(len(eye))

    return {"attend": attention(case, logit)}


def added_up(steps):
    """The sum of all steps up to each token, with its own."""
    return np.array([sum(steps[: m + 1]) for m in range(len(steps))])


def carope(e, params, case):
    """Veisi et al. (2025), 2: the phase of pair i is sum_{t <= m} f(x_t)_h^i, with f(x) = 1 /
    (softplus(x W) + 1). The b within the softplus, for a start as RoPE, is this project's.
    """
    x = case.x.astype(np.float64)
    f = 1 / (np.logaddexp(0, x @ params["w"] + params["b"]) + 1)
    powers = np.arange(case.q.shape[-1] // 2)
    return turned(case, added_up(f[..., None] ** powers))


def mapformer(e, params, case):
    """Rambaud et al. (2025), A.7: theta = omega sum_t Delta_t, Delta = W_out W_in x, by heads."""
    x = case.x.astype(np.float64)
    steps = np.zeros((len(x), *params["omega"].shape))
    for t, h in np.ndindex(steps.shape[:2]):
        steps[t, h] = params["out"][h].T @ (params["into"][:, h].T @ x[t]) * params["omega"][h]
    return turned(case, added_up(steps))


def selective_rope(e, params, case):
    """Movahedi et al. (2025), figure 4 and 4.3: temp cumsum(gate silu(conv1d(W x))), x divided by
    its L2 norm (epsilon 1e-6, within the root), and temp_i = base^(-2i/K), as in their code.
    """
    x = case.x.astype(np.float64)
    x = x / np.sqrt((x**2).sum(-1, keepdims=True) + 1e-6)
    phi = np.einsum("lr,rhc->lhc", x @ params["low"], params["high"])
    phi = silu(convolved(phi, params["taps"]))
    gate = sigmoid(x @ params["u"] + params["b"])
    temperature = np.array(rope_frequencies(e))
    return turned(case, temperature * added_up(gate[..., None] * phi))


def repo(e, params, case):
    """Li et al. (2025), their code: RoPE at the positions W_z (silu(W_g x) * W_c x), one a head."""
    x = case.x.astype(np.float64)
    z = (silu(x @ params["gate"]) * (x @ params["content"])) @ params["final"]
    return turned(case, z[..., None] * rope_frequencies(e))


def mobius(e, params, case):
    """Bae (2026): RoPE with w_i = pi (2i + 1) / N, N the training length, in a quarter of the
    heads, here the first.
    """
    H, K = case.q.shape[1], turned_components(e)
    count = max(1, math.floor(e.part * H))
    odd = math.pi * (2 * np.arange(K // 2) + 1) / e.dims.train_len
    w = np.array([odd if h < count else frequencies(K, e.base) for h in range(H)])
    return turned(case, case.pos[:, None, None] * w)


def jordan_rope(e, params, case):
    """Jordan-RoPE (2026), the matrix of one block: A(d) = e^((-c/L + i w) d) [[1, eta d / L],
    [0, 1]], and Re q^H A(d) k, d the distance from the key to the query.

    A block is the complex pairs b and b + K/4, w_b = base^(-2b/K); pairs are (x_c, x_{c + K/2}),
    turned by minus the angle as in RoPE. bounded: eta (tau(i) - tau(j)), tau(p) = p / (1 + p / L).
    """
    K, L = case.q.shape[-1], e.dims.train_len
    q, k = complex_pairs(case)

    def logit(i, j, h):
        d, out = case.distance(i, j), 0.0
        for b in range(K // 4):
            c = softplus(params["decay"][h, b])
            eta = e.eta_max * math.tanh(params["shear"][h, b]) if e.shear else 0.0
            if e.bounded:
                shear = eta * sum(
                    s * p / (1 + p / L) for s, p in ((1, case.pos[i]), (-1, case.pos[j]))
                )
            else:
                shear = eta * d / L
            A = np.exp((-c / L - 1j * e.base ** (-2 * b / K)) * d) * np.array([[1, shear], [0, 1]])
            block = [b, b + K // 4]
            out += (np.conj(q[i, h, block]) @ A @ k[j, h, block]).real
        return out / math.sqrt(K)

    return {"attend": attention(case, logit)}


def pj_bias(e, params, case):
    """PJ-RoPE (2026), the scalar kernel: of each order r the real part of a complex amplitude
    a_r (u_r + i v_r) times (d/L)^r / r! e^{(i w - delta / L) d}, resp. beta^r e^{i w phi}; the line
    is -s d / L; gates weigh the three parts.
    """
    L, names = e.dims.train_len, [n for n in ("jets", "line", "lightcone") if getattr(e, n)]

    def positive(x):
        return np.exp(x) / np.exp(x).sum()

    def waves(name, h, angle, power):
        a = positive(params[f"{name}_orders"][h])
        zeta = a * (params[f"{name}_u"][h] + 1j * params[f"{name}_v"][h])
        return sum(
            (zeta[r] * power(r) * np.exp(1j * params["frequency"][h] * angle)).real
            for r in range(e.order + 1)
        )

    def b(i, j, h):
        d = abs(case.distance(i, j))
        parts = {}
        if e.jets:
            decay = math.exp(-softplus(params["damping"][h]) * d / L)
            parts["jets"] = decay * waves("jets", h, d, lambda r: (d / L) ** r / math.factorial(r))
        if e.line:
            parts["line"] = -softplus(params["slope"][h]) * d / L
        if e.lightcone:
            beta = d / math.sqrt(d**2 + L**2)
            parts["lightcone"] = waves("lightcone", h, L * math.asinh(d / L), lambda r: beta**r)
        gates = positive(params["gates"][h]) if len(names) > 1 else [1.0]
        return sum(gate * parts[name] for gate, name in zip(gates, names, strict=True))

    return biased(case, b)


def bam(e, params, case):
    """Bianchessi et al. (2025) by their code: -(|n| + 1e-5)^shape e^scale."""
    return biased(
        case,
        lambda i, j, h: (
            -((abs(case.distance(i, j)) + 1e-5) ** params["shape"][h])
            * math.exp(params["scale"][h])
        ),
    )


def tisa(e, params, case):
    """Wennberg and Henter (2021), eq. 5: sum_s a_s exp(-|b_s| (n - c_s)^2)."""
    a, b, c = (params[name] for name in ("amplitude", "sharpness", "centre"))

    def bumps(i, j, h):
        n = case.distance(i, j)
        return sum(a[h, s] * math.exp(-abs(b[h, s]) * (n - c[h, s]) ** 2) for s in range(e.kernels))

    return biased(case, bumps)


def evq_cosh(e, params, case):
    """w = base^-phi, phi = 1 - asinh((1 - u) sinh tau) / tau, u = (c + 1/2) / (K/2)."""
    half = turned_components(e) // 2
    tau = e.tau or 2 * half / math.sqrt(e.dims.train_len)
    us = [(c + 0.5) / half for c in range(half)]
    w = [e.base ** (math.asinh((1 - u) * math.sinh(tau)) / tau - 1) for u in us]
    return rotated(case, w)


def lerope(e, params, case):
    """Karypis et al. (2026), 3.1: RoPE with the frequencies e^alpha_c base^(-2c/K)."""
    return rotated(case, np.exp(params["alpha"]) * frequencies(case.q.shape[-1], e.base))


def relative_projection(e, params, case):
    """x-transformers: (x_i W + c) . bank[:, n]; 0 where n < 0 or beyond the bank."""
    size = e.distances or e.dims.train_len

    def b(i, j, h):
        n = case.distance(i, j)
        if not 0 <= n < size:
            return 0.0
        return (case.x[i] @ params["w"][:, h] + params["c"][h]) @ params["bank"][:, n]

    return biased(case, b)


def grape_ap(e, params, case):
    """Zhang et al. (2025) by their code: m_h sum_{l=j+1..i} log sigmoid(<p_i, R_l p'_l> / P), p'
    of unit mean square, R_l a turn of all pairs (x_c, x_{c + P/2}) by l.
    """
    P, slope = e.size, alibi_slopes(e.dims.heads)
    p = np.einsum("ld,dhp->lhp", case.x, params["w"])

    def match(i, t, h):
        unit = p[t, h] / math.sqrt((p[t, h] ** 2).mean())
        turned = (unit[: P // 2] + 1j * unit[P // 2 :]) * np.exp(1j * case.pos[t])
        value = p[i, h] @ np.concatenate([turned.real, turned.imag]) / P
        return -softplus(-value)

    return biased(case, lambda i, j, h: slope[h] * sum(match(i, t, h) for t in range(j + 1, i + 1)))
