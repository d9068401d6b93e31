"""Encodings published in 2025 and 2026, by their papers' formulas.

As in reference.py, whose REFERENCES take these in: NumPy in float64, loops, without pe_jax. K is
the head size, L the training length.
"""

import math

import numpy as np
from reference_biases import biased, rotated
from reference_case import alibi_slopes, attention
from reference_published import softplus


def jordan_rope(e, params, case):
    """Jordan-RoPE (2026), the matrix of one block: A(d) = e^((-c/L + i w) d) [[1, eta d / L],
    [0, 1]], and Re q^H A(d) k, d the distance from the key to the query.

    A block is the complex pairs b and b + K/4, w_b = base^(-2b/K); pairs are (x_c, x_{c + K/2}),
    turned by minus the angle as in RoPE. bounded: eta (tau(i) - tau(j)), tau(p) = p / (1 + p / L).
    """
    K, L = case.q.shape[-1], e.dims.train_len
    q, k = (x[..., : K // 2] + 1j * x[..., K // 2 :] for x in (case.q, case.k))

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
    half = case.q.shape[-1] // 2
    tau = e.tau or 2 * half / math.sqrt(e.dims.train_len)
    us = [(c + 0.5) / half for c in range(half)]
    w = [e.base ** (math.asinh((1 - u) * math.sinh(tau)) / tau - 1) for u in us]
    return rotated(case, [(c, c + half) for c in range(half)], w)


def lerope(e, params, case):
    """Karypis et al. (2026), 3.1: RoPE with the frequencies e^alpha_c base^(-2c/K)."""
    half = case.q.shape[-1] // 2
    w = [math.exp(params["alpha"][c]) * e.base ** (-c / half) for c in range(half)]
    return rotated(case, [(c, c + half) for c in range(half)], w)


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


REFERENCES = {
    function.__name__: function
    for function in (
        jordan_rope,
        pj_bias,
        bam,
        tisa,
        evq_cosh,
        lerope,
        relative_projection,
        grape_ap,
    )
}
