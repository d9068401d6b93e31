"""The references of encodings that read content or weigh it.

As in reference.py: by each paper's formula, in NumPy with loops. n = i - j is the distance of key j
from query i; where a paper counts j - i, its index is turned round. K is the head size, and K^-1/2
stands on every logit, whatever a paper leaves out.
"""

import math

import numpy as np
from reference_case import attention, bucket, dape_prior, sinusoid


def clipped(n, k):
    return max(-k, min(int(n), k))


def signed_row(n, rows, causal):
    """The row of distance n: causal, 0 .. k, of k + 1 rows; else -k .. k, of 2k + 1."""
    if causal:
        return min(max(int(n), 0), rows - 1)
    return clipped(n, rows // 2) + rows // 2


def shaw(e, params, case):
    """Shaw et al. (2018), 3.1 and 3.2: e_ij = q_i . (k_j + a^K_ij) / sqrt(K), o_i = sum_j w_ij
    (v_j + a^V_ij); a_ij is the row of j - i clipped to -k .. k.

    A causal model has no rows for keys after the query. e.values=False leaves a^V out.
    """

    def a(name, i, j):
        return params[name][signed_row(case.distance(i, j), len(params[name]), case.causal)]

    def logit(i, j, h):
        return case.q[i, h] @ (case.k[j, h] + a("keys", i, j)) / math.sqrt(case.q.shape[-1])

    value = (lambda i, j, h: a("values", i, j)) if e.values else None
    return {"attend": attention(case, logit, value=value)}


def nezha(e, params, case):
    """Wei et al. (2019), 3.1: Shaw's sums with a_ij[2c] = sin(m / base^(2c/K)) and a_ij[2c + 1] =
    cos(m / base^(2c/K)), m = j - i clipped to -k .. k.

    variant="code": m is the row of their table, k more. Unless given, k is 64, or one less than the
    training length where that is less.
    """
    K = case.q.shape[-1]
    k = e.clip or min(64, e.dims.train_len - 1)

    def a(i, j):
        m = clipped(-case.distance(i, j), k)
        return sinusoid(m + k if e.variant == "code" else m, K, e.base)

    def logit(i, j, h):
        return case.q[i, h] @ (case.k[j, h] + a(i, j)) / math.sqrt(K)

    return {"attend": attention(case, logit, value=lambda i, j, h: a(i, j))}


def tupe(e, params, case):
    """Ke et al. (2021), TUPE-R: (x_i W_Q . x_j W_K + p_i U_Q . p_j U_K) / sqrt(2 K) + b_{j - i}.

    p is layer-normed as in their code, without gain and offset (epsilon 1e-5, PyTorch's); b is
    T5's buckets, with the reach of `t5`. Beyond the table p is not a number.
    """
    K, table, bias = case.q.shape[-1], params["table"], params["bias"]
    buckets = bias.shape[1]
    exact = (buckets if case.causal else buckets // 2) // 2
    furthest = e.max_distance or max(exact + 1, min(128, e.dims.train_len))

    def p(i):
        row = table[case.pos[i]] if case.pos[i] < len(table) else np.full(table.shape[1], np.nan)
        return (row - row.mean()) / math.sqrt(row.var() + 1e-5)

    def logit(i, j, h):
        content = case.q[i, h] @ case.k[j, h]
        place = (p(i) @ params["query"][:, h]) @ (p(j) @ params["key"][:, h])
        b = bias[h, bucket(case.distance(i, j), buckets, furthest, case.causal)]
        return (content + place) / math.sqrt(2 * K) + b

    return {"attend": attention(case, logit)}


def deberta(e, params, case):
    """He et al. (2021), eq. 4: (Qc_i . Kc_j + Qc_i . Kr_d(i,j) + Kc_j . Qr_d(j,i)) / sqrt(3 K).

    d(i, j), eq. 3: 0 where i - j <= -k, 2k - 1 where i - j >= k, else i - j + k. Kr and Qr are a
    table of 2k rows through projections, here of its own: the paper's are W_K and W_Q.
    """
    K, k = case.q.shape[-1], len(params["table"]) // 2

    def delta(i, j):
        n = int(case.distance(i, j))
        n = log_distance(n, k) if e.variant == "v2" else n
        return 0 if n <= -k else 2 * k - 1 if n >= k else n + k

    def logit(i, j, h):
        key = params["table"][delta(i, j)] @ params["key"][:, h]
        query = params["table"][delta(j, i)] @ params["query"][:, h]
        q, c = case.q[i, h], case.k[j, h]
        return (q @ c + q @ key + c @ query) / math.sqrt(3 * K)

    return {"attend": attention(case, logit)}


def log_distance(n, k):
    """DeBERTa v2 (its code, make_log_bucket_position) with k buckets for 2k positions: n to the
    middle m = k // 2, then sign(n) (m + ceil(ln(|n| / m) / ln((2k - 1) / m) (m - 1))).
    """
    m = k // 2
    if abs(n) <= m:
        return n
    return int(math.copysign(m + math.ceil(math.log(abs(n) / m, (2 * k - 1) / m) * (m - 1)), n))


def urpe(e, params, case):
    """Luo et al. (2022), 4: o_i = sum_j softmax(q_i . k_j / sqrt(K)) C_ij v_j, C_ij = c_{i - j}, a
    Toeplitz matrix for each head. Distances beyond the table take its last entry.
    """
    c = params["c"]

    def gate(i, j, h):
        return c[h, signed_row(case.distance(i, j), c.shape[1], case.causal)]

    return {"attend": attention(case, case.dot, gate=gate)}


def cope(e, params, case):
    """Golovneva et al. (2024), 4: g_ij = sigmoid(q_i . k_j), p_ij = sum_{t = j .. i} g_it, and
    q_i . (k_j + e[p_ij]), e between two whole positions by interpolation, p at most the last.

    K^-1/2 scales q . k, in the gates too, as in their listing, and q . e, which there it does not.
    """
    table, last = params["table"], len(params["table"]) - 1

    def logit(i, j, h):
        keys = range(j, i + 1)
        p = min(sum(1 / (1 + math.exp(-case.dot(i, t, h))) for t in keys), last)
        low, high = table[math.floor(p)], table[math.ceil(p)]
        part = p - math.floor(p)
        vector = (1 - part) * low + part * high
        return case.dot(i, j, h) + case.q[i, h] @ vector / math.sqrt(case.q.shape[-1])

    return {"attend": attention(case, logit)}


def dape(e, params, case):
    """Zheng et al. (2024), 3.2: z + b + f([z; b]), f an MLP of the 2H numbers that the heads have
    for one pair, LeakyReLU (0.01) between, b the prior. Deviation: the last layer of f has no bias,
    which the softmax would not see.
    """
    H = e.dims.heads

    def logit(i, j, h):
        z = [case.dot(i, j, g) for g in range(H)]
        b = [dape_prior(e, params, case.distance(i, j), g) for g in range(H)]
        hidden = np.array(z + b) @ params["w1"] + params["b1"]
        hidden = np.where(hidden > 0, hidden, 0.01 * hidden)
        return z[h] + b[h] + hidden @ params["w2"][:, h]

    return {"attend": attention(case, logit)}


def forget_gate(e, params, case):
    """Lin et al. (2025), 3: q_i . k_j / sqrt(K) + sum_{t = j+1 .. i} ln f_t,
    f_t = sigmoid(w . x_t + b), x the layer's normalised input.
    """
    gates = 1 / (1 + np.exp(-(case.x.astype(np.float64) @ params["w"] + params["b"])))

    def logit(i, j, h):
        return case.dot(i, j, h) + sum(math.log(gates[t, h]) for t in range(j + 1, i + 1))

    return {"attend": attention(case, logit)}
