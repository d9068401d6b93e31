"""What each encoding that acts on the model's input is, as in reference.py, whose format it has."""

import itertools
import math

import numpy as np
import scipy.linalg
from reference_case import sinusoid


def _rows(case, row):
    """The input with row(x_i, position, place) in place of each row x_i."""
    return {"embed": np.array([row(case.x[i], p, i) for i, p in enumerate(case.pos)])}


def integer(e, params, case):
    """The naive baseline: the index itself is a feature, x_i + i w."""
    return _rows(case, lambda x, p, i: x + p * params["w"])


def normalized(e, params, case):
    """The naive baseline scaled to the sequence: x_i + (i / length) w.

    `length` is that of the whole sequence, in training the training length.
    """
    length = e.dims.train_len if e.length is None else e.length
    return _rows(case, lambda x, p, i: x + p / length * params["w"])


def binary(e, params, case):
    """x_i + sum_b bit_b(i) v_b: the binary digits 0 and 1 of the index, the lowest first.

    An index of more digits than the table has rows: not a number.
    """

    def row(x, p, i):
        for b, vector in enumerate(params["table"]):
            x = x + (int(p) // 2**b % 2) * vector
        return x if p < 2 ** len(params["table"]) else np.full(len(x), np.nan)

    return _rows(case, row)


def hierarchical(e, params, case):
    """Su (2020), kexue.fm/archives/7947: q_{(i-1) n + j} = a u_i + (1 - a) u_j, counted from 1.

    u_i = (p_i - a p_1) / (1 - a), so that q_k = p_k for the n rows of the table; counted from 0,
    position k has i = k div n and j = k mod n. n^2 positions; beyond them, not a number, or the
    last of them where clipped.
    """
    table, a = params["table"], e.alpha
    n = len(table)

    def u(i):
        return (table[i] - a * table[0]) / (1 - a)

    def row(x, p, i):
        p = min(p, n * n - 1) if e.clip else p
        return x + (a * u(p // n) + (1 - a) * u(p % n) if p < n * n else np.nan)

    return _rows(case, row)


def sinusoidal(e, params, case):
    """Vaswani et al. (2017): x_i + PE(i); or both side by side, [x_i, PE(i)], and a learned
    projection back to D; or Su (2021), kexue.fm/archives/8130, by components, x_i PE(i).

    Deviation from Su's article, as in his code (bert4keras): x_i (1 + PE(i)), for PE(0) has zeros.
    """

    def row(x, p, i):
        pe = sinusoid(p, e.dims.model, e.base, e.variant)
        if e.merge == "multiply":
            return x * (1 + pe)
        if e.merge == "concatenate":
            return np.concatenate([x, pe]) @ params["project"]
        return x + pe

    return _rows(case, row)


def multiplicative(e, params, case):
    """Su (2021), kexue.fm/archives/8130, as in his code: x_i (1 + p_i), by components.

    With `additive` a second learned table is added, x_i (1 + p_i) + s_i. Beyond: not a number.
    """

    def at(name, p):
        return params[name][p] if p < len(params[name]) else np.nan

    return _rows(
        case, lambda x, p, i: x * (1 + at("table", p)) + (at("shift", p) if e.additive else 0)
    )


def rnn(e, params, case):
    """Su (2021), kexue.fm/archives/8130: p_{k+1} = f(p_k), f a recurrent cell, and x_i + p_i.

    Su leaves f open. Here p_{k+1} = tanh(W p_k + b), Elman's cell without an input, from a learned
    p_0, and W is the rotation exp(a - a^T) (Lezcano-Casado and Martinez-Rubio, 2019). As many
    states as the sequence is long, in training the training length; beyond, not a number.
    """
    w = scipy.linalg.expm(params["turn"] - params["turn"].T)
    count = e.dims.train_len if e.length is None else e.length

    def row(x, p, i):
        state = params["start"]
        for _ in range(p):
            state = np.tanh(w @ state + params["bias"])
        return x + (state if p < count else np.nan)

    return _rows(case, row)


def floater(e, params, case):
    """Liu et al. (2020): p(t) = p(s) + integral_s^t h(tau, p(tau)) dtau, and x_i + p(t_i).

    t_i = i delta, p(0) learned, h([p; tau]) = tanh([p; tau] W_1 + b_1) W_2 + b_2, and from one
    token's time to the next the classical Runge-Kutta method of order 4 in `steps` steps. delta is
    0.01 in their code, for 255 tokens: unless given, 2.55 / the training length.
    """
    delta = 2.55 / e.dims.train_len if e.delta is None else e.delta

    def h(tau, p):
        hidden = np.tanh(np.append(p, tau) @ params["w1"] + params["b1"])
        return hidden @ params["w2"] + params["b2"]

    def row(x, position, i):
        p, times = params["start"], [0.0, *(delta * other for other in case.pos[: i + 1])]
        for s, t in itertools.pairwise(times):
            dt = (t - s) / e.steps  # also where positions are left out between s and t
            for tau in (s + step * dt for step in range(e.steps)):
                k1 = h(tau, p)
                k2 = h(tau + dt / 2, p + dt / 2 * k1)
                k3 = h(tau + dt / 2, p + dt / 2 * k2)
                k4 = h(tau + dt, p + dt * k3)
                p = p + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return x + p

    return _rows(case, row)


def conv(e, params, case):
    """Gehring et al. (2017), 3.2: [A B] = W [h_{t-k+1}; ..; h_t] + b, v([A B]) = A sigmoid(B).

    h is v + h from the layer before, times sqrt(0.5) to keep the variance (3.4). Left of the first
    token the input is 0, so that no later one is seen (in their decoder; in their encoder as many
    tokens on both sides, h_{t-k/2} to h_{t+k/2}): that padding is all that tells positions.
    """
    h, k, D = case.x, e.kernel, e.dims.model
    first = -(k - 1) if case.causal else -(k // 2)
    for kernel, bias in zip(params["kernel"], params["bias"], strict=True):
        new = np.zeros(h.shape)
        for t in range(len(h)):
            both = bias
            for s in range(k):
                if 0 <= t + first + s < len(h):
                    both = both + h[t + first + s] @ kernel[s * D : (s + 1) * D]
            new[t] = (both[:D] / (1 + np.exp(-both[D:])) + h[t]) * math.sqrt(0.5)
        h = new
    return {"embed": h}


def complex(e, params, case):
    """Wang et al. (2020): f(j, pos) = r_j e^{i (w_j pos + theta_j)}, by dimensions.

    w, r and theta are the word's. Its embedding x has r and theta both: D/2 complex numbers
    r e^{i theta}, as which the pairs (x_c, x_{c + D/2}) are read.
    """

    def row(x, p, i):
        half = len(x) // 2
        z = x[:half] + 1j * x[half:]
        r, theta, w = np.abs(z), np.angle(z), params["frequency"][case.tokens[i]]
        f = r * np.exp(1j * (w * p + theta))
        return np.concatenate([f.real, f.imag])

    return _rows(case, row)
