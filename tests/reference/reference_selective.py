"""Encodings of 2025 and 2026, most of which let the tokens decide positions, by their papers.

As in reference.py, whose REFERENCES take these in: NumPy in float64, loops, without pe_jax. K is
the head size, x the layer's normalised input.
"""

import math

import numpy as np
from reference_case import attention


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


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


def turned(case, angles):
    """Re q_i conj(k_j) e^{i (angles_i - angles_j)} / sqrt(K), angles [L, H, K / 2]."""
    half = case.q.shape[-1] // 2
    q, k = (x[..., :half] + 1j * x[..., half:] for x in (case.q, case.k))

    def logit(i, j, h):
        product = q[i, h] * np.conj(k[j, h]) * np.exp(1j * (angles[i, h] - angles[j, h]))
        return product.sum().real / math.sqrt(2 * half)

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
    half = case.q.shape[-1] // 2
    x = case.x.astype(np.float64)
    x = x / np.sqrt((x**2).sum(-1, keepdims=True) + 1e-6)
    phi = np.einsum("lr,rhc->lhc", x @ params["low"], params["high"])
    phi = silu(convolved(phi, params["taps"]))
    gate = sigmoid(x @ params["u"] + params["b"])
    temperature = e.base ** (-np.arange(half) / half)
    return turned(case, temperature * added_up(gate[..., None] * phi))


def repo(e, params, case):
    """Li et al. (2025), their code: RoPE at the positions W_z (silu(W_g x) * W_c x), one a head."""
    half = case.q.shape[-1] // 2
    x = case.x.astype(np.float64)
    z = (silu(x @ params["gate"]) * (x @ params["content"])) @ params["final"]
    return turned(case, z[..., None] * e.base ** (-np.arange(half) / half))


def mobius(e, params, case):
    """Bae (2026): RoPE with w_i = pi (2i + 1) / N, N the training length, in a quarter of the
    heads, here the first.
    """
    H, K = case.q.shape[1:]
    count = max(1, math.floor(e.part * H))
    w = [
        [math.pi * (2 * i + 1) / e.dims.train_len if h < count else e.base ** (-2 * i / K)]
        for h in range(H)
        for i in range(K // 2)
    ]
    w = np.array(w).reshape(H, K // 2)
    return turned(case, case.pos[:, None, None] * w)


REFERENCES = {
    function.__name__: function
    for function in (path, carope, mapformer, selective_rope, repo, mobius)
}
