"""Attention of one sequence with any encodings: dense, and blockwise in memory linear in the
length.

    q'       = q K^-1/2 scale
    q'', k'' = qk(q', k)
    s_ij     = q''_i . k''_j + q'_i . r_{i-j} + r'_{i-j} . k_j + b_{i-j} + bias_ij
    w_ij     = gate_ij c_{i-j} normalize(logits(mask(s)))_ij
    o_i      = sum_j w_ij (v_j + r^V_{i-j})

The mask is made of indices alone: causality and the encodings' `reach`; a key of an index below 0
is not there. With contiguous positions the relative hooks are evaluated once, at the distances that
occur, and shifted into place; with others pairwise, a few queries at a time. Logits, weights and
sums are float32.

Axes: T queries, S keys, H heads, K head size, N distances.
"""

from __future__ import annotations

import functools
import itertools
import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Num

from pe_jax.blocks import cut, meetings, pad
from pe_jax.bound import Bound
from pe_jax.encoding import HIDDEN
from pe_jax.relative import Rows, Tables


def rows(
    pe: Bound, x: Float[Array, "L D"], idx: Int[Array, "L"], pos: Num[Array, "L"], before=None
) -> Rows:
    """Rows with the coordinates that the encodings locate in a layer's normalised input x."""
    return Rows(idx, pos, pe.locate(x, pos, before))


def visible(pe: Bound, q_idx: Int[Array, "T"], k_idx: Int[Array, "S"]) -> Bool[Array, "T S"]:
    """Which keys each query may see: present, not after it (causal), and within every `reach`."""
    i, j = q_idx[:, None], k_idx[None, :]
    seen = jnp.broadcast_to(j >= 0, (len(q_idx), len(k_idx)))
    if pe.causal:
        seen &= j <= i
    for window, sinks in pe.reach:
        seen &= (jnp.abs(i - j) < window) | (j < sinks)
    return seen


def attend(
    pe: Bound,
    q: Float[Array, "T H K"],
    k: Float[Array, "S H K"],
    v: Float[Array, "S H K"],
    queries: Rows,
    keys: Rows,
) -> Float[Array, "T H K"]:
    """All queries and keys at once: memory O(H T S).

    In a causal model no query may come after the last key: queries stand among the keys.
    """
    q = _scaled(pe, q, queries)
    tables = Tables.of(pe, queries.pos, keys.pos)
    rotated = pe.qk(q, k, queries.coords, keys.coords)
    return _whole_rows(pe, (q, k), rotated, v, queries, keys, tables).astype(v.dtype)


def attend_blockwise(
    pe: Bound,
    q: Float[Array, "T H K"],
    k: Float[Array, "S H K"],
    v: Float[Array, "S H K"],
    queries: Rows,
    keys: Rows,
    block: int = 128,
) -> Float[Array, "T H K"]:
    """The same, by blocks of `block` queries and keys: memory O(T + S), gradients too.

    A running (maximum, normaliser, sum) over key blocks; blocks that the mask empties are skipped,
    and with a window W only O(W) keys a query are looked at (pe_jax/blocks.py): queries stand among
    the keys, whichever way the model sees. The normaliser sums before `gate`, the output after it.
    An encoding that needs whole rows, or replaces the softmax, gets all keys of a block of queries;
    in a causal model whose queries are its keys, those up to its quarter's end.
    """
    T, S = q.shape[0], k.shape[0]
    tables = Tables.of(pe, queries.pos, keys.pos, room=block)
    q = _scaled(pe, q, queries)
    rotated_q, rotated_k = pe.qk(q, k, queries.coords, keys.coords)
    padded, all_keys = pad((q, rotated_q, queries), block), (k, rotated_k, v, keys)
    count = padded[0].shape[0] // block
    blocks = jnp.arange(count), cut(padded, block)
    if pe.whole_rows:
        quarters = pe.causal and T == S and count >= 8
        ends = [count * part // 4 for part in (1, 2, 3) if quarters]
        parts = itertools.pairwise([0, *ends, count])
        out = jnp.concatenate(
            [_blocks_of_whole_rows(pe, blocks, all_keys, tables, *part) for part in parts]
        )
    else:
        own, met = meetings(pe, all_keys, padded[2], tables, block)

        @jax.checkpoint
        def one(here):
            (i, (q, rotated_q, queries)), own = here
            return _online(pe, q, rotated_q, queries, met(i, own))

        out = jax.lax.map(one, (blocks, own))
    return out.reshape(-1, *out.shape[2:])[:T].astype(v.dtype)


def _blocks_of_whole_rows(pe, blocks, keys, tables: Tables, begin: int, end: int):
    """The blocks of queries from `begin` to `end`, with all keys, or those up to an earlier end."""
    count, block = blocks[1][0].shape[:2]
    size = keys[0].shape[0] if end == count else end * block
    blocks = jax.tree.map(lambda a: a[begin:end], blocks)
    k, rotated_k, v, keys = jax.tree.map(lambda a: a[:size], keys)

    @jax.checkpoint
    def one(here):
        i, (q, rotated_q, queries) = here
        columns = tables.cut(i * block, block, k.shape[0])
        return _whole_rows(pe, (q, k), (rotated_q, rotated_k), v, queries, keys, columns)

    return jax.lax.map(one, blocks)


def _whole_rows(pe, plain, rotated, v, queries, keys, tables):
    """Queries with all keys: `plain` and `rotated` are (q, k) before and after `qk`."""
    seen = visible(pe, queries.idx, keys.idx)[None]
    s = _scores(pe, plain, rotated, tables, queries, keys)
    s = _reread(pe, s, seen, plain, queries, keys)
    w = jnp.where(seen, pe.normalize(s), 0.0)
    w = w * pe.gate(queries.coords, keys.coords) * tables.gate(queries, keys)
    return _weigh(w, v, tables, queries, keys)


def _online(pe, q, rotated_q, queries, met):
    """One block of queries, and scans over the blocks of keys that it meets.

    A residual of `cond` is kept at every step, so what enters it must not be the whole of k, v or
    a table: these are cut before.
    """
    block, H, K = q.shape

    def absorb(far, carry, here):
        top, total, out = carry
        (k, rotated_k, v, keys), tile = here
        columns = Tables(pe, tile, 0, block)
        columns = columns.constant() if far else columns
        seen = visible(pe, queries.idx, keys.idx)[None]
        s = _scores(pe, (q, k), (rotated_q, rotated_k), columns, queries, keys)
        s = _reread(pe, s, seen, (q, k), queries, keys)
        # The output does not depend on the maximum. Its gradient would compare logits that the
        # backward pass computes anew, by other roundings, and divide by the number that are equal.
        new = jax.lax.stop_gradient(jnp.maximum(top, s.max(-1)))
        w = jnp.where(seen, jnp.exp(s - new[..., None]), 0.0)
        fade = jnp.exp(top - new)
        total = total * fade + w.sum(-1)
        w = w * pe.gate(queries.coords, keys.coords) * columns.gate(queries, keys)
        out = out * fade.T[..., None] + _weigh(w, v, columns, queries, keys)
        return new, total, out

    near, far = (jax.checkpoint(functools.partial(absorb, far)) for far in (False, True))
    kinds = [lambda carry, _: carry, near] + [far] * (pe.constant_from is not None)

    def step(carry, here):
        return jax.lax.switch(_kind(pe, queries.idx, here[0][3].idx), kinds, carry, here), None

    carry = jnp.full((H, block), HIDDEN), jnp.zeros((H, block)), jnp.zeros((block, H, K))
    for blocks in met:
        carry, _ = jax.lax.scan(step, carry, blocks)
    _, total, out = carry
    return out / jnp.where(total > 0, total, 1.0).T[..., None]


def _kind(pe: Bound, q_idx, k_idx):
    """Of two blocks of consecutive indices, from their ends alone: 0 where the mask leaves no pair,
    2 where all pairs are so far apart that the relative hooks are constant, else 1.
    """
    first, last = jnp.min(jnp.where(k_idx >= 0, k_idx, 2**30)), jnp.max(k_idx)
    q_first, q_last = q_idx[0], jnp.max(q_idx)
    seen = last >= 0
    if pe.causal:
        seen &= first <= q_last
    for window, sinks in pe.reach:
        near = (last > q_first - window) & (first < q_last + window)
        seen &= near | (first < sinks)
    if pe.constant_from is None:
        return seen.astype(int)
    apart = jnp.maximum(q_first - last, first - q_last)
    return jnp.where(seen, 1 + (apart >= pe.constant_from), 0)


def _scaled(pe: Bound, q, queries: Rows):
    scale = jnp.asarray(pe.scale(queries.coords), jnp.float32) * q.shape[-1] ** -0.5
    return (q * (scale[..., None] if scale.ndim else scale)).astype(q.dtype)


def _scores(
    pe: Bound, plain, rotated, tables: Tables, queries: Rows, keys: Rows
) -> Float[Array, "H T S"]:
    q, k = plain
    s = jnp.einsum("thk,shk->hts", *rotated, preferred_element_type=jnp.float32)
    return s + tables.scores(q, k, queries, keys) + pe.bias(queries.coords, keys.coords)


def _reread(pe: Bound, s, seen, plain, queries: Rows, keys: Rows):
    """The mask, and the `logits` hooks between two masks."""

    def hide(logits):
        return jnp.where(seen, logits, HIDDEN)

    q, k = plain
    return pe.logits(hide(s), q, k, queries.coords, keys.coords, hide)


def _weigh(w, v, tables: Tables, queries: Rows, keys: Rows) -> Float[Array, "T H K"]:
    out = jnp.einsum("hts,shk->thk", w.astype(v.dtype), v, preferred_element_type=jnp.float32)
    return out + tables.values(w, queries, keys)


def choose(form: str, pe: Bound, batch: int, queries: int, keys: int):
    """attend or attend_blockwise, for lm.attention.

    "auto" is dense while the logits of one layer fit 8 MiB on CPU, whose caches they would else
    overrun, or 1 GiB on an accelerator, unless windows hide most of them; and for one query, which
    blocks would pad to many.
    """
    if form == "auto":
        heads = pe.encodings[0].dims.heads if pe.encodings else 1
        budget = 2**23 if jax.default_backend() == "cpu" else 2**30
        small = 4 * batch * heads * queries * keys <= budget
        hidden = any(keys > 4 * (window + sinks) for window, sinks in pe.reach)
        form = "dense" if queries == 1 or (small and not hidden) else "blockwise"
    if form == "dense":
        return attend
    reach = min((window for window, _ in pe.reach), default=keys)
    block = min(512, max(64, 2 ** math.ceil(math.log2(max(1, min(keys // 32, reach))))))
    if pe.whole_rows:  # such a block holds all keys: it must not grow with them
        block = 64
    return functools.partial(attend_blockwise, block=block)
