"""Dense attention: the formulas of the package (`__init__.py`) for all queries and keys at once.
Blockwise attention calls the functions below `attend` for its blocks.

Axes: T queries, S keys, H heads, K head size.
"""

from __future__ import annotations

import jax
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
    """The output of every query, in v's dtype. Memory is O(H T S).

    `queries` and `keys` are the rows of q and of k and v. In a causal model no query may come after
    the last key.
    """
    all_queries, all_keys = prepare(pe, q, k, v, queries, keys)
    terms = relative_terms(pe, queries.pos, keys.pos)
    out = attend_whole_rows(pe, all_queries.heads_first(), all_keys.heads_first(), terms)
    return out.astype(v.dtype)


def prepare(pe: Bound, q, k, v, queries: Rows, keys: Rows) -> tuple[Queries, Keys]:
    """q', q'' and k'', the last two for far pairs, too."""
    scale = jnp.asarray(pe.scale(queries.coords), jnp.float32) * q.shape[-1] ** -0.5
    q = (q * (scale[..., None] if scale.ndim else scale)).astype(q.dtype)
    coords = queries.coords, keys.coords
    rotated_q, rotated_k = pe.qk(q, k, *coords)
    far_q, far_k = pe.qk(q, k, *coords, far=True) if pe.has("far") else (None, None)
    return Queries(q, rotated_q, far_q, queries), Keys(k, rotated_k, far_k, v, keys)


def attend_whole_rows(
    pe: Bound, queries: Queries, keys: Keys, terms: Relative
) -> Float[Array, "T H K"]:
    """The output, float32, of queries with all their keys at once; both heads first."""
    seen = visible(pe, queries.rows.idx, keys.rows.idx)[None]
    s = masked_logits(pe, queries, keys, terms, seen)
    w = jnp.where(seen, pe.normalize(s), 0.0)
    return gated_sum(pe, w, queries, keys, terms).swapaxes(0, 1)


def masked_logits(
    pe: Bound, queries: Queries, keys: Keys, terms: Relative, seen: Bool[Array, "1 T S"]
) -> Float[Array, "H T S"]:
    """s after the last `logits` hook, HIDDEN where a query does not see a key; heads first."""
    q_coords, k_coords = queries.rows.coords, keys.rows.coords

    def hide(logits):
        return jnp.where(seen, logits, HIDDEN)

    s = _products(pe, queries, keys, seen)
    s = s + terms.scores(pe, queries, keys) + pe.bias(q_coords, k_coords)
    return pe.logits(hide(s), queries.q, keys.k, q_coords, k_coords, hide)


# The dot products of near and far pairs, each computed only if some pair needs it: in most tiles of
# blockwise attention one of the two.
def _products(
    pe: Bound, queries: Queries, keys: Keys, seen: Bool[Array, "1 T S"]
) -> Float[Array, "H T S"]:
    def product(q, k):
        return jnp.einsum("htk,hsk->hts", q, k, preferred_element_type=jnp.float32)

    def of_near():
        return product(queries.rotated, keys.rotated)

    def of_far():
        return product(queries.far, keys.far)

    if queries.far is None:
        return of_near()
    far = pe.far(queries.rows.coords, keys.rows.coords)[None]
    some, only = (far & seen).any(), (far | ~seen).all()
    branches = of_near, lambda: jnp.where(far, of_far(), of_near()), of_far
    return jax.lax.switch(some.astype(int) + only, branches)


def gated_sum(
    pe: Bound, w: Float[Array, "H T S"], queries: Queries, keys: Keys, terms: Relative
) -> Float[Array, "H T K"]:
    """sum_j w_ij gate_ij c_{i-j} (v_j + r^V_{i-j}), float32; keys with heads first. The online
    softmax calls it with weights w that are not yet normalised.
    """
    w, v = gated(pe, w, queries, keys, terms), keys.v
    out = jnp.einsum("hts,hsk->htk", w.astype(v.dtype), v, preferred_element_type=jnp.float32)
    return out + terms.values(pe, w, queries, keys)


def gated(
    pe: Bound, w: Float[Array, "H T S"], queries: Queries, keys: Keys, terms: Relative
) -> Float[Array, "H T S"]:
    """w_ij gate_ij c_{i-j}."""
    return w * pe.gate(queries.rows.coords, keys.rows.coords) * terms.gate(pe, queries, keys)
