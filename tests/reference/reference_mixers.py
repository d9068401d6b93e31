"""The references of mixers, which take the place of attention: recurrences, token by token.

As in reference.py: by each paper's formula, in NumPy with loops. "mix" is what a layer adds to its
residual stream, [L, D].
"""

import math

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


def softplus(x):
    return np.log1p(np.exp(x))


def short(taps, rows, t):
    """silu(sum_d taps_d rows_{t - d}), zeros before the first row."""
    return silu(sum(tap * rows[t - d] for d, tap in enumerate(taps) if t >= d))


def root_mean_square(o, scale):
    return o / math.sqrt((o**2).mean() + 1e-5) * scale


def unit(x):
    return x / math.sqrt((x**2).sum() + 1e-6)


def heads_out(params, case, output):
    """sum_h W_o,h output(t, h)."""
    L, D = case.x.shape
    out = np.zeros((L, D))
    for h in range(params["out_kernel"].shape[0]):
        for t, o in enumerate(output(h)):
            out[t] += o @ params["out_kernel"][h]
    return {"mix": out}


def delta(params, case, decay, gate):
    """S = S Diag(a) - b (S Diag(a) k) k^T + b v k^T; o = S q / sqrt(K), S [values, keys].

    With one decay for a head this is Yang et al. (2024), eq. 10, S a (I - b k k^T) + b v k^T; with
    one for each component Zhang et al. (2025), eq. 1, transposed.
    """

    def output(h):
        rows = np.einsum("ld,dpk->lpk", case.x, params["qkv_kernel"][:, :, h])
        S = np.zeros((rows.shape[-1],) * 2)
        for t, x in enumerate(case.x):
            q, k, v = short(params["taps"][:, :, h], rows, t)
            q, k = unit(q) / math.sqrt(len(q)), unit(k)
            a, b = decay(x, h), sigmoid(x @ params["beta"][:, h])
            S = S * a
            S = S + b * np.outer(v - S @ k, k)
            yield root_mean_square(S @ q, params["scale"]) * gate(x, h)

    return heads_out(params, case, output)


def gated_delta(e, params, case):
    """Yang et al. (2024): a = exp(-exp(r) softplus(w . x + c)), the gate a SiLU."""

    def decay(x, h):
        step = softplus(x @ params["decay"][:, h] + params["decay_bias"][h])
        return math.exp(-math.exp(params["rate"][h]) * step)

    return delta(params, case, decay, lambda x, h: silu(x @ params["gate_kernel"][:, h]))


def kimi_delta(e, params, case):
    """Zhang et al. (2025): the decay of each component and the gate by maps of low rank."""

    def decay(x, h):
        low = x @ params["decay_low"] @ params["decay_high"][:, h]
        return np.exp(-math.exp(params["rate"][h]) * softplus(low + params["decay_bias"][h]))

    def gate(x, h):
        low = x @ params["gate_low_kernel"] @ params["gate_high_kernel"][:, h]
        return sigmoid(low + params["gate_bias"][h])

    return delta(params, case, decay, gate)


def retention(e, params, case):
    """Sun et al. (2023), eq. 5: o_t = sum_j g^(t - j) Re(q_t conj(k_j) e^(i (t - j) w)) v_j."""
    K = e.dims.head
    w = np.array([e.base ** (-2 * c / K) for c in range(K // 2)])

    def output(h):
        decay = 1 - 2.0 ** (-5 - h)
        q, k, v = np.einsum("ld,dpk->plk", case.x, params["qkv_kernel"][:, :, h])
        q, k = (a[:, : K // 2] + 1j * a[:, K // 2 :] for a in (q, k))
        for t, x in enumerate(case.x):
            o = np.zeros(K)
            for j in range(t + 1):
                pairs = q[t] * np.conj(k[j]) * np.exp(1j * (t - j) * w)
                o = o + decay ** (t - j) * pairs.real.sum() / math.sqrt(K) * v[j]
            yield root_mean_square(o, params["scale"]) * silu(x @ params["gate_kernel"][:, h])

    return heads_out(params, case, output)


def short_conv(e, params, case):
    """The convolution before queries, keys and values in Gu and Dao (2023), then a map."""
    rows = [short(params["taps"], case.x, t) @ params["out_kernel"] for t in range(len(case.x))]
    return {"mix": np.array(rows)}


def recurrent(e, params, case):
    """Feng et al. (2024), 3.1: h = (1 - z) h + z W x, z = sigmoid(V x + b); in front x + U h."""
    h, out = np.zeros(case.x.shape[1]), []
    for x in case.x:
        z = sigmoid(x @ params["gate_kernel"] + params["bias"])
        h = (1 - z) * h + z * (x @ params["in_kernel"])
        out.append(h @ params["out_kernel"])
    return {"embed": case.x + out, "mix": np.array(out)}
