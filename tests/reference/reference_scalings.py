"""What carries RoPE over to longer texts, by the papers' formulas.

As in reference.py: NumPy in float64, loops, without pe_jax. K is
the head size, L the length at which RoPE was trained, and s the factor to the longer one: where an
encoding is not told of a text's length, it is made for texts of the training length.
"""

import math

import numpy as np
from reference_case import attention, rope_frequencies, rotated, turned, turned_components


def trained_at(e):
    return e.length or e.dims.train_len


def longer_by(e):
    return e.factor or max(1, e.dims.train_len / trained_at(e))


def pi(e, params, case):
    """Chen et al. (2023), 3.2: f'(x, m) = f(x, m L / L'), RoPE at positions times L / L'."""
    s = longer_by(e)
    return rotated(case._replace(pos=case.pos / s), rope_frequencies(e))


def ntk(e, params, case):
    """Peng et al. (2023), definition 1: b' = b s^(|D| / (|D| - 2))."""
    K = turned_components(e)
    return rotated(case, rope_frequencies(e, e.base * longer_by(e) ** (K / (K - 2))))


def dynamic_ntk(e, params, case):
    """Hugging Face's `dynamic`: b' = b (f l / L - (f - 1))^(K / (K - 2)), l the text's length."""
    K, L = turned_components(e), trained_at(e)
    served = max(e.served or e.dims.train_len, L)
    grown = e.factor * served / L - (e.factor - 1)
    return rotated(case, rope_frequencies(e, e.base * grown ** (K / (K - 2))))


def by_parts(w, s, gamma):
    return [(1 - g) * x / s + g * x for x, g in zip(w, gamma, strict=True)]


def linear(x, low, high):
    return 0.0 if x < low else 1.0 if x > high else (x - low) / (high - low)


def yarn(e, params, case):
    """Peng et al. (2023), definitions 2 and 3: gamma of r = L / wavelength, and
    sqrt(1/t) = 0.1 ln s + 1.

    By the authors' code (find_correction_range, linear_ramp_mask) gamma falls from 1 to 0 between
    two dimensions c, that of beta turns rounded down, at least 0, and that of alpha turns rounded
    up, at most K - 1; 0.001 is added to the second where they are equal. Where all pairs turn more
    often than beta, or all less often than alpha, the second is the lower one. With truncate=False
    (Hugging Face's code) neither is rounded.
    """
    K, L, s, w = turned_components(e), trained_at(e), longer_by(e), rope_frequencies(e)
    if e.variant == "paper":
        gamma = [linear(L * x / (2 * math.pi), e.alpha, e.beta) for x in w]
    else:
        low, high = yarn_ends(e, e.truncate)
        span = 0.001 if high == low else high - low
        gamma = [1 - min(max((c - low) / span, 0), 1) for c in range(K // 2)]
    return sharpened(e, case, by_parts(w, s, gamma))


def yarn_ends(e, truncate=True):
    K, L = turned_components(e), trained_at(e)

    def dimension(turns):
        return K * math.log(L / (turns * 2 * math.pi)) / (2 * math.log(e.base))

    low, high = dimension(e.beta), dimension(e.alpha)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    return max(low, 0), min(high, K - 1)


def sharpened(e, case, w):
    """DeepSeek-V2's code: cosines and sines times m(mscale) / m(mscale_all_dim), m(c) = c ln s + 1,
    and all logits times m(mscale_all_dim)^2, which in YaRN is 1.
    """
    s = longer_by(e)
    of_all = e.mscale_all_dim * math.log(s) + 1
    ratio = e.attention_factor or (e.mscale * math.log(s) + 1) / of_all
    r = 2 * len(w)
    q, k = (np.concatenate([x[..., :r] * ratio, x[..., r:]], -1) for x in (case.q, case.k))
    return rotated(case._replace(q=q, k=k), w, of_all**2)


def mrrope(e, params, case):
    """Tian et al. (2026), by their code: w_c / s^p, p = q (q + 1) / (n (n + 1)), uni: q / n, of the
    q-th pair after the low end of YaRN's code; p = 0 before it and 1 from the high end on. Tail:
    TailSpline (2026), p = q (3 n^2 + 3 n + 1 - q^2) / (n (n + 1) (2 n + 1)).
    """
    s, (low, high) = longer_by(e), yarn_ends(e)
    n, w = max(1, high - low), []
    for c, x in enumerate(rope_frequencies(e)):
        q = min(max(c - low, 0), n)
        exponents = {
            "uni": q / n,
            "pro": q * (q + 1) / (n * (n + 1)),
            "tail": q * (3 * n**2 + 3 * n + 1 - q**2) / (n * (n + 1) * (2 * n + 1)),
        }
        w.append(x / s ** exponents[e.variant])
    return sharpened(e, case, w)


def llama3(e, params, case):
    """Meta's code for Llama 3.1: by the wavelength, L / high and L / low as bounds."""
    L, w, s = trained_at(e), rope_frequencies(e), longer_by(e)
    scaled = []
    for x in w:
        wavelength = 2 * math.pi / x
        if wavelength < L / e.high:
            scaled.append(x)
        elif wavelength > L / e.low:
            scaled.append(x / s)
        else:
            smooth = (L / wavelength - e.low) / (e.high - e.low)
            scaled.append((1 - smooth) * x / s + smooth * x)
    return rotated(case, scaled)


def longrope(e, params, case):
    """Ding et al. (2024), eq. 2: position n, of pair c, counts n / lambda_c, and n where n < n-hat;
    Hugging Face's code for the temperature, sqrt(1 + ln s / ln L) on cosines and sines.
    """
    K, L, s = turned_components(e), trained_at(e), longer_by(e)
    beyond = (e.served or e.dims.train_len) > L
    lambdas = (e.long or [s] * (K // 2)) if beyond else (e.short or [1] * (K // 2))
    w = np.array(rope_frequencies(e))
    angles = np.array([p * w / np.where(p < e.first, 1, lambdas) for p in case.pos])
    sharper = 1 + math.log(s) / math.log(L)
    if e.attention_factor is not None:
        sharper = e.attention_factor**2
    heads, q = case.q.shape[1], case.q.copy()
    q[..., :K] *= sharper
    return turned(case._replace(q=q), angles[:, None].repeat(heads, 1))


def at_distance(case, e, f, seen=None):
    """Re sum_c q_c conj(k_c) e^{i f(i, j) w_c}: RoPE at the distance f of two positions."""

    def distance(i, j):
        return f(int(case.pos[i]), int(case.pos[j]))

    return rotated(case, rope_frequencies(e), distance=distance, seen=seen)


def half(e):
    return max(1, e.dims.train_len // 2)


def rerope(e, params, case):
    """Su (2023): distance min(n, w)."""
    return at_distance(case, e, lambda i, j: min(i - j, e.window or half(e)))


def leaky_rerope(e, params, case):
    """Su (2023): distance n up to w, then w + (n - w) / k."""
    w, k = e.window or half(e), e.factor or 1
    return at_distance(case, e, lambda i, j: i - j if i - j < w else w + (i - j - w) / k)


def self_extend(e, params, case):
    """Jin et al. (2024), algorithm 1: n below W, else i // G - j // G + W - W // G."""
    W, G = e.window or max(1, e.dims.train_len // 4), e.group or 1
    return at_distance(case, e, lambda i, j: i - j if i - j < W else i // G - j // G + W - W // G)


def lm_infinite(e, params, case):
    """Han et al. (2023), 4.1: min(n, L_pretrain), of the last L_pretrain keys and the first
    n_global.
    """
    L = e.window or e.dims.train_len

    def seen(i, j):
        return i - j < L or j < e.sinks

    return at_distance(case, e, lambda i, j: min(i - j, L), seen)


def clipped_rope(e, params, case):
    """Li et al. (2026), by their code: the slowest n pairs times (1 + cos theta) / 2, theta from 0
    to pi in even steps; n by default those with 2 pi / w > L.
    """
    w = rope_frequencies(e)
    slow = [c for c, x in enumerate(w) if 2 * math.pi / x > e.dims.train_len]
    n = len(slow) if e.pairs is None else min(e.pairs, len(w))
    for t in range(1, n):
        w[len(w) - n + t] *= (1 + math.cos(math.pi * t / (n - 1))) / 2
    return rotated(case, w)


def string(e, params, case):
    """An et al. (2024b): distance n below S, n - S + W from there on."""
    S = e.shift or max(1, e.dims.train_len // 3)
    W = e.window or min(128, max(1, S // 2))
    return at_distance(case, e, lambda i, j: i - j if i - j < S else i - j - S + W)


def streaming(e, params, case):
    """Xiao et al. (2023), 3.2: positions in the cache, which holds the first keys and the last."""
    window = e.window or max(1, e.dims.train_len - e.sinks)

    def in_cache(i, j):
        if i < e.sinks + window:
            return i - j
        return e.sinks + window - 1 - j if j < e.sinks else i - j

    return at_distance(case, e, in_cache, lambda i, j: i - j < window or j < e.sinks)


def chunk(e, params, case):
    """An et al. (2024), 3: positions of keys j mod s; of queries i mod s to keys of their chunk,
    min(s + i mod s, c - 1) to those of the one before, and c - 1 to earlier ones.
    """
    s = e.chunk or max(1, 3 * e.dims.train_len // 4)
    c = s + (e.local or max(1, e.dims.train_len - s))

    def f(i, j):
        chunks = i // s - j // s
        query = i % s if chunks == 0 else min(s + i % s, c - 1) if chunks == 1 else c - 1
        return query - j % s

    return at_distance(case, e, f)


def drope(e, params, case):
    """Gelberg et al. (2025): no rotation; q_i . k_j (1 + c ln s) / sqrt(K)."""
    sharper = 1 + e.c * math.log(longer_by(e))
    return {"attend": attention(case, lambda i, j, h: sharper * case.dot(i, j, h))}
