"""What carries RoPE over to longer texts, by the papers' formulas.

As in reference.py, whose REFERENCES take these in: NumPy in float64, loops, without pe_jax. K is
the head size, L the length at which RoPE was trained, and s the factor to the longer one: where an
encoding is not told of a text's length, it is made for texts of the training length.
"""

import math

import numpy as np
from reference_biases import rotated
from reference_case import attention


def trained_at(e):
    return e.length or e.dims.train_len


def longer_by(e):
    return e.factor or max(1, e.dims.train_len / trained_at(e))


def rope_frequencies(e, base=None):
    K = e.dims.head
    return [(base or e.base) ** (-2 * c / K) for c in range(K // 2)]


def turned(case, w, temperature=1.0):
    """RoPE with these frequencies, queries multiplied by the temperature."""
    K = case.q.shape[-1]
    return rotated(
        case._replace(q=temperature * case.q), [(c, c + K // 2) for c in range(K // 2)], w
    )


def pi(e, params, case):
    """Chen et al. (2023), 3.2: f'(x, m) = f(x, m L / L'), RoPE at positions times L / L'."""
    s = longer_by(e)
    return turned(case._replace(pos=case.pos / s), rope_frequencies(e))


def ntk(e, params, case):
    """Peng et al. (2023), definition 1: b' = b s^(|D| / (|D| - 2))."""
    K = e.dims.head
    return turned(case, rope_frequencies(e, e.base * longer_by(e) ** (K / (K - 2))))


def dynamic_ntk(e, params, case):
    """Hugging Face's `dynamic`: b' = b (f l / L - (f - 1))^(K / (K - 2)), l the text's length."""
    K, L = e.dims.head, trained_at(e)
    served = max(e.served or e.dims.train_len, L)
    grown = e.factor * served / L - (e.factor - 1)
    return turned(case, rope_frequencies(e, e.base * grown ** (K / (K - 2))))


def by_parts(w, s, gamma):
    return [(1 - g) * x / s + g * x for x, g in zip(w, gamma, strict=True)]


def linear(x, low, high):
    return 0.0 if x < low else 1.0 if x > high else (x - low) / (high - low)


def yarn(e, params, case):
    """Peng et al. (2023), definitions 2 and 3: gamma of r = L / wavelength, and
    sqrt(1/t) = 0.1 ln s + 1.

    By the authors' code gamma falls from 1 to 0 between two dimensions c, that of beta turns
    rounded down and that of alpha turns rounded up, held within 0 .. K - 1 and 0.001 apart.
    """
    K, L, s, w = e.dims.head, trained_at(e), longer_by(e), rope_frequencies(e)
    if e.variant == "paper":
        gamma = [linear(L * x / (2 * math.pi), e.alpha, e.beta) for x in w]
    else:

        def dimension(turns):
            return K * math.log(L / (turns * 2 * math.pi)) / (2 * math.log(e.base))

        low = max(math.floor(dimension(e.beta)), 0)
        high = min(math.ceil(dimension(e.alpha)), K - 1)
        high = low + 0.001 if high <= low else high
        gamma = [1 - linear(c, low, high) for c in range(K // 2)]
    root = e.attention_factor or 0.1 * math.log(s) + 1
    return turned(case, by_parts(w, s, gamma), root**2)


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
    return turned(case, scaled)


def longrope(e, params, case):
    """Ding et al. (2024), eq. 2: position n, of pair c, counts n / lambda_c, and n where n < n-hat;
    Hugging Face's code for the temperature, sqrt(1 + ln s / ln L) on cosines and sines.
    """
    K, L, s = e.dims.head, trained_at(e), longer_by(e)
    beyond = (e.served or e.dims.train_len) > L
    lambdas = (e.long or [s] * (K // 2)) if beyond else (e.short or [1] * (K // 2))
    w = rope_frequencies(e)
    q, k = (x[..., : K // 2] + 1j * x[..., K // 2 :] for x in (case.q, case.k))

    def angle(p):
        return np.array(
            [p * x / (1 if p < e.first else f) for x, f in zip(w, lambdas, strict=True)]
        )

    def logit(i, j, h):
        n = angle(case.pos[i]) - angle(case.pos[j])
        dot = (q[i, h] * np.conj(k[j, h]) * np.exp(1j * n)).sum().real
        return dot * (1 + math.log(s) / math.log(L)) / math.sqrt(K)

    return {"attend": attention(case, logit)}


REFERENCES = {
    function.__name__: function for function in (pi, ntk, dynamic_ntk, yarn, llama3, longrope)
}
