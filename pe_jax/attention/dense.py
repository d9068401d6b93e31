"""Attention of one sequence with any encodings, all queries and keys at once. The formulas that
every module of this room refers to are these.

For query i and key j, in this order; a name in `...` is a hook of the contract (encoding.py):

    q'       = q K^-1/2 scale                `scale`
    q'', k'' = qk(q', k)                     `qk`
    s_ij     = q''_i . k''_j                 the dot product
             + q'_i . r_{i-j}                `relative_keys` gives r
             + r'_{i-j} . k_j                `relative_queries` gives r'
             + b_{i-j}                       `relative_bias`
             + bias_ij                       `bias`
    s        = hide(logits(hide(s), q', k))  `logits`: each hook in turn, hidden again after each
    w_ij     = normalize(s)_ij               `normalize`: the softmax, or what replaces it
             * gate_ij c_{i-j}               `gate`; `relative_gate` gives c
    o_i      = sum_j w_ij (v_j + r^V_{i-j})  `relative_values` gives r^V

So the terms of content read queries and keys as they were before `qk`: with rotated ones, the terms
of the distance would depend on absolute positions. `hide` puts HIDDEN where a query does not see a
key (`rows.visible`); the weights of hidden keys are set to 0 after `normalize`. Subscripts i - j
mean the difference of positions. Logits, weights and sums are float32 whatever dtype q, k and v
have.

Axes: T queries, S keys, H heads, K head size.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from pe_jax.attention.bound import Bound
from pe_jax.attention.relative import Relative, relative_terms
from pe_jax.attention.rows import Keys, Queries, Rows, visible
from pe_jax.encoding import HIDDEN


def attend(
    pe: Bound,
    q: Float[Array, "T H K"],
    k: Float[Array, "S H K"],
    v: Float[Array, "S H K"],
    queries: Rows,
    keys: Rows,
) -> Float[Array, "T H K"]:
    """The attention output of every query, in v's dtype. Memory is O(H T S).

    `queries` and `keys` say where the rows of q and of k, v stand. In a causal model no query may
    come after the last key: queries stand among the keys.
    """
    all_queries, all_keys = prepare(pe, q, k, v, queries, keys)
    terms = relative_terms(pe, queries.pos, keys.pos)
    return attend_whole_rows(pe, all_queries, all_keys, terms).astype(v.dtype)


def prepare(pe: Bound, q, k, v, queries: Rows, keys: Rows) -> tuple[Queries, Keys]:
    """What is computed once for each query and each key: q', and q'' and k''."""
    scale = jnp.asarray(pe.scale(queries.coords), jnp.float32) * q.shape[-1] ** -0.5
    q = (q * (scale[..., None] if scale.ndim else scale)).astype(q.dtype)
    rotated_q, rotated_k = pe.qk(q, k, queries.coords, keys.coords)
    return Queries(q, rotated_q, queries), Keys(k, rotated_k, v, keys)


def attend_whole_rows(
    pe: Bound, queries: Queries, keys: Keys, terms: Relative
) -> Float[Array, "T H K"]:
    """The outputs, float32, of queries that have all their keys at hand."""
    seen = visible(pe, queries.rows.idx, keys.rows.idx)[None]
    s = masked_logits(pe, queries, keys, terms, seen)
    w = jnp.where(seen, pe.normalize(s), 0.0)
    return gated_sum(pe, w, queries, keys, terms)


def masked_logits(
    pe: Bound, queries: Queries, keys: Keys, terms: Relative, seen: Bool[Array, "1 T S"]
) -> Float[Array, "H T S"]:
    """s, after the last `logits` hook: HIDDEN where a query does not see a key."""
    q_coords, k_coords = queries.rows.coords, keys.rows.coords

    def hide(logits):
        return jnp.where(seen, logits, HIDDEN)

    s = jnp.einsum(
        "thk,shk->hts", queries.rotated, keys.rotated, preferred_element_type=jnp.float32
    )
    s = s + terms.scores(pe, queries, keys) + pe.bias(q_coords, k_coords)
    return pe.logits(hide(s), queries.q, keys.k, q_coords, k_coords, hide)


def gated_sum(
    pe: Bound, w: Float[Array, "H T S"], queries: Queries, keys: Keys, terms: Relative
) -> Float[Array, "T H K"]:
    """sum_j w_ij gate_ij c_{i-j} (v_j + r^V_{i-j}), of weights before the gates. It is linear in
    these, so they may still lack their normaliser.
    """
    v = keys.v
    w = w * pe.gate(queries.rows.coords, keys.rows.coords) * terms.gate(pe, queries, keys)
    out = jnp.einsum("hts,shk->thk", w.astype(v.dtype), v, preferred_element_type=jnp.float32)
    return out + terms.values(pe, w, queries, keys)
