"""Biases, rotations, position maps and temperatures by their papers' formulas.

As in reference.py: NumPy in float64, loops, without pe_jax.
"""

import math

import numpy as np
from reference_case import (
    alibi_slopes,
    attention,
    biased,
    frequencies,
    rope_frequencies,
    rotated,
    turned_components,
)


def alibi(e, params, case):
    """Press et al. (2022), 3: q_i . k_j - c m_h |i - j|; learned: c m_h = exp(log_slopes_h) > 0.

    c, which the paper does not have, is `e.slope_scale`.
    """
    slope = e.slope_scale * np.array(alibi_slopes(e.dims.heads, e.variant))
    slope = np.exp(params["log_slopes"]) if e.learned else slope
    return biased(case, lambda i, j, h: -slope[h] * abs(case.distance(i, j)))


LEAST = 0.01  # r_1, r_2 > 0 in the paper; the authors' code holds them at 0.01 or more


def kerple_log(e, params, case):
    """Chi et al. (2022a), logarithmic: -r_1 ln(1 + r_2 |m - n|), r_1 = p and r_2 = a."""
    p, a = (np.maximum(params[name], LEAST) for name in "pa")
    return biased(case, lambda i, j, h: -p[h] * math.log(1 + a[h] * abs(case.distance(i, j))))


def kerple_power(e, params, case):
    """Chi et al. (2022a), power: -r_1 |m - n|^r_2, r_1 = a > 0 and 0 < r_2 = p <= 2."""
    a, p = np.maximum(params["a"], LEAST), np.clip(params["p"], LEAST, 2)
    return biased(case, lambda i, j, h: -a[h] * abs(case.distance(i, j)) ** p[h])


def sandwich(e, params, case):
    """Chi et al. (2022b): (H / 8h) [sum_{i=1}^{D/2} cos(n / 10000^{2i/D}) - D/2], h = 1 .. H.

    The product of two sinusoids, its largest value taken away, compressed by 8h / H. D, `e.size`,
    is 128 in the paper whatever the model's size; 10000 is `e.base`.
    """
    H, D = e.dims.heads, e.size

    def b(i, j, h):
        n = case.distance(i, j)
        product = sum(math.cos(n / e.base ** (2 * c / D)) for c in range(1, D // 2 + 1))
        return H / (8 * (h + 1)) * (product - D / 2)

    return biased(case, b)


def fire(e, params, case):
    """Li et al. (2024): f(psi(i - j) / psi(max(L, i))), psi(x) = ln(|c x| + 1).

    f is an MLP 1 - 32 - H with a ReLU; L = |m L_init|, m learned. i is the query's position. As in
    their listing 1e-6 is added to the divisor. Deviations: L_init, 512 in the paper for training at
    2048, is the training length unless `e.threshold` gives it; the last layer of f has no bias.
    """
    longest = abs(params["m"] * (e.threshold or e.dims.train_len))

    def psi(x):
        return math.log(abs(params["c"] * x) + 1)

    def b(i, j, h):
        x = psi(abs(case.distance(i, j))) / (psi(max(longest, case.pos[i])) + 1e-6)
        hidden = np.maximum(x * params["w1"][0] + params["b1"], 0)
        return hidden @ params["w2"][:, h]

    return biased(case, b)


def cpb(e, params, case):
    """Liu et al. (2022, Swin V2): MLP(sign(n) ln(1 + |n|)), `e.depth` hidden ReLU layers, in the
    paper one; the last layer without a bias, as in their code.

    variant="code": 16 sigmoid(MLP(sign(n) log2(1 + 8 |n| / (L - 1)) / log2 8)), L the window there,
    here the training length.
    """

    def scaled(n):
        if e.variant == "code":
            return math.copysign(math.log2(1 + 8 * abs(n) / (e.dims.train_len - 1)) / 3, n)
        return math.copysign(math.log(1 + abs(n)), n)

    def b(i, j, h):
        x = np.array([scaled(case.distance(i, j))])
        for layer in range(1, e.depth + 1):
            x = np.maximum(x @ params[f"w{layer}"] + params[f"b{layer}"], 0)
        x = x @ params[f"w{e.depth + 1}"][:, h]
        return 16 / (1 + math.exp(-x)) if e.variant == "code" else x

    return biased(case, b)


def p_rope(e, params, case):
    """Barbero et al. (2025): RoPE whose lowest frequencies are 0; the p K/2 highest stay.

    w_c = base^(-2c/K) for c < floor(p K / 2). As for rope, c is (x_c, x_{c + K/2}).
    """
    kept = int(e.p * turned_components(e) / 2)
    return rotated(case, [w if c < kept else 0.0 for c, w in enumerate(rope_frequencies(e))])


def partial_rope(e, params, case):
    """Black et al. (2022, GPT-NeoX): RoPE on the first R = rotary_pct K components alone.

    w_c = base^(-2c/R), c is (x_c, x_{c + R/2}); R is even.
    """
    return rotated(case, rope_frequencies(e))


def xpos(e, params, case):
    """Sun et al. (2023): Re sum_c q_c conj(k_c) e^{i n w_c} zeta_c^{n / B}.

    zeta_c = (c / (K/2) + gamma) / (1 + gamma). B, `e.scale_base`, is 512 in their code for lengths
    of 1024: unless given, half the training length.
    """
    K = turned_components(e)
    every = e.scale_base or e.dims.train_len / 2
    zeta = [(2 * c / K + e.gamma) / (1 + e.gamma) for c in range(K // 2)]
    decay = [z ** (1 / every) for z in zeta]
    return rotated(case, frequencies(K, e.base), decay=decay)


def shape(e, params, case):
    """Kiyono et al. (2021): PE(i + k), in training k uniform in 0 .. K, else 0.

    K, `e.max_shift`, is 500 in the paper for sentences: unless given, 8 times the training length.
    """
    most = 8 * e.dims.train_len if e.max_shift is None else e.max_shift

    def outcomes(train):
        return [tuple(int(p) + k for p in case.pos) for k in range(most + 1 if train else 1)]

    return {"positions": outcomes}


def cape(e, params, case):
    """Likhomanenko et al. (2021): lambda (pos_i + Delta + eps_i).

    ln lambda ~ U(-ln lambda_max, ln lambda_max), Delta ~ U(-Delta_max, Delta_max), each one for a
    sequence, eps_i ~ U(-eps_max, eps_max): `e.max_scale`, `e.max_shift` (unless given, the training
    length) and `e.max_jitter`. In training alone; else the positions as they are. `e.centred`:
    their mean taken away first, always.
    """
    pos = [float(p) for p in case.pos]
    if e.centred:
        pos = [p - sum(pos) / len(pos) for p in pos]
    most = e.dims.train_len if e.max_shift is None else e.max_shift
    log_scale = math.log(e.max_scale)

    def draw(rng):
        scale, shift, *jitter = rng.uniform(-1, 1, 2 + len(pos)).tolist()
        scale, shift = math.exp(log_scale * scale), most * shift
        return [scale * (p + shift + e.max_jitter * j) for p, j in zip(pos, jitter, strict=True)]

    return {"positions": lambda train: draw if train else [tuple(pos)]}


def tempered(case, temperature):
    """softmax(temperature(n, h) q_i . k_j / sqrt(K)), n = i + 1 with the first position 0."""

    def logit(i, j, h):
        return temperature(case.pos[i] + 1, h) * case.dot(i, j, h)

    return {"attend": attention(case, logit)}


def log_n(e, params, case):
    """Su (2021, kexue.fm/archives/8823; 9708): max(1, ln n / ln L), L `e.length`, unless
    given the training length.
    """
    L = e.length or e.dims.train_len
    return tempered(case, lambda n, h: max(1.0, math.log(n) / math.log(L)))


def ssmax(e, params, case):
    """Nakanishi (2025): n^{s z} = e^{s ln(n) z}, n the number of keys; (s ln n + b) z."""
    s, b = params["s"], params.get("b", np.zeros(e.dims.heads))
    return tempered(case, lambda n, h: s[h] * math.log(n) + b[h])
