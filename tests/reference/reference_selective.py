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


REFERENCES = {function.__name__: function for function in (path,)}
