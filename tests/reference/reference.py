"""What each encoding is, by its paper's formula: NumPy in float64, with loops, without pe_jax.

One function an encoding, named as in ENCODINGS, here or in a file of its family. It gets the
encoding (for its fields and dims), its parameters and a Case, and returns the values by site:

    "embed"      the input [L, D]
    "attend"     the output [L, H, K] of the attention of every query over every key
    "mix"        what a mixer in place of attention adds to the residual stream, [L, D]
    "positions"  a function of `train`: all outcomes, equally likely, each a tuple of L numbers, or
                 a function that draws one by a NumPy generator

The logits are scaled by K^-1/2 for every encoding, also where its paper does not (T5).
"""

import itertools
import math

import numpy as np
import reference_absolute
import reference_biases
import reference_content
import reference_mixers
import reference_published
import reference_scalings
import reference_tokens
from reference_case import attention, bucket, complex_pairs, rope_frequencies, rotated, softmax


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


def rope(e, params, case):
    """Su et al. (2021), eq. 14-16."""
    return rotated(case, rope_frequencies(e))


def t5(e, params, case):
    """Raffel et al. (2020), 2.1: q_i . k_j + table[h, bucket(i - j)].

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


def rope_pp(e, params, case):
    """Liu et al. (2025): Re sum_c q_c conj(k_c) e^{i n w_c} in the first half of the heads, and in
    the others Im of that sum of the first, second, .. head.
    """
    w, H = np.array(rope_frequencies(e)), case.q.shape[1]
    half, real = len(w), H - H // 2
    q, k = complex_pairs(case, half)

    def logit(i, j, h):
        own = h if h < real else h - real
        turns = np.exp(1j * case.distance(i, j) * w)
        total = (q[i, own] * np.conj(k[j, own]) * turns).sum()
        rest = case.q[i, own, 2 * half :] @ case.k[j, own, 2 * half :]
        return ((total.real if h < real else total.imag) + rest) / math.sqrt(case.q.shape[-1])

    return {"attend": attention(case, logit)}


def key_offset(e, params, case):
    """modded-nanogpt's train_gpt.py (2025): k[1:, .., m:] = k[:-1, .., m:], in each text. A text
    begins where the position is 0.
    """
    m = case.q.shape[-1] - int(e.part * case.q.shape[-1])
    k = case.k.copy()
    for j in range(1, len(k)):
        if case.pos[j] != 0:
            k[j, :, m:] = case.k[j - 1, :, m:]
    case = case._replace(k=k)
    return {"attend": attention(case, case.dot)}


def temperature_tuning(e, params, case):
    """Llama 4 (2025), by Hugging Face's code: q_i (1 + c ln(floor((i + 1) / f) + 1))."""
    f = e.length or e.dims.train_len

    def logit(i, j, h):
        return (1 + e.slope * math.log((int(case.pos[i]) + 1) // f + 1)) * case.dot(i, j, h)

    return {"attend": attention(case, logit)}


def learned_sinks(e, params, case):
    """gpt-oss (2025): the softmax over the logits of the keys and b_h, whose weight is dropped."""
    H = case.q.shape[1]
    out = np.zeros(case.v.shape)
    for h in range(H):
        one = case._replace(q=case.q[:, h : h + 1], k=case.k[:, h : h + 1], v=case.v[:, h : h + 1])

        def normalize(s, b=params["b"][h]):
            return softmax(np.append(s, b))[:-1]

        out[:, h : h + 1] = attention(one, one.dot, normalize=normalize)
    return {"attend": out}


def pose(e, params, case):
    """Zhu et al. (2023), 3.2, two chunks: PE(i) = i in the first, i + u in the second, u uniform in
    0 .. T - L, the first of 1 .. L - 1 tokens.
    """
    most, L = e.target or 4 * e.dims.train_len, len(case.pos)

    def outcomes(train):
        every = itertools.product(range(1, L), range(max(0, most - L) + 1)) if train else [(L, 0)]
        return [
            tuple(int(p) + (skip if i >= cut else 0) for i, p in enumerate(case.pos))
            for cut, skip in every
        ]

    return {"positions": outcomes}


FAMILIES = (
    *(reference_absolute, reference_biases, reference_content, reference_mixers),
    *(reference_published, reference_scalings, reference_tokens),
)
REFERENCES = globals() | {k: v for family in FAMILIES for k, v in vars(family).items()}
"""The functions by their names."""
