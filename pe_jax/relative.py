"""Relative terms: functions of the distance, evaluated once where they can be, laid out over pairs.

With contiguous positions the `relative_*` hooks are evaluated at the distances that occur and
shifted into place; with others pair by pair, a few queries at a time. No tensor [T, S, K] is ever
made.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Num

from pe_jax.bound import Bound
from pe_jax.encoding import RELATIVE
from pe_jax.geometry import shift, unshift


class Rows(NamedTuple):
    """What attention knows of a run of tokens, besides their vectors."""

    idx: Int[Array, "L"]
    """Place in the sequence, consecutive; it makes the mask. Below 0: not there."""
    pos: Num[Array, "L"]
    """Positions after every `positions` hook."""
    coords: tuple[Any, ...]
    """For each encoding, what its `locate` made of them."""

    def take(self, start, size: int) -> Rows:
        return jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, start, size), self)


class Tables(NamedTuple):
    """The relative hooks' values: at every distance that occurs (contiguous), else asked for pair
    by pair.

    Column c of a table holds distance n_max - c; n_max is the distance of the last query from the
    first key. A table of one column serves all pairs.
    """

    pe: Bound
    of_hook: dict[str, Any]  # [H, N] or [H, N, K], of the hooks that are there
    first: int  # the column at which they begin: `cut` may overhang both ends
    queries: int

    @classmethod
    def of(cls, pe: Bound, q_pos, k_pos, room: int = 0) -> Tables:
        """`room`: columns of padding for blocks that overhang, in padded rows and in the hidden
        future.

        One query's columns are cut from those of all the keys, which no query changes: a loop over
        tokens evaluates them once.
        """
        if not pe.contiguous:
            return cls(pe, {}, 0, 0)
        T, S = q_pos.shape[0], k_pos.shape[0]
        if T == 1 < S and not room:
            return cls.of(pe, k_pos, k_pos, room=1).cut(q_pos[0] - k_pos[0], 1, S)
        n = q_pos[-1] - k_pos[0] - jnp.arange(S if pe.causal else T + S - 1)
        values = {hook: pe.relative(hook, n) for hook in RELATIVE}
        tables = {hook: value for hook, value in values.items() if isinstance(value, jax.Array)}

        def pad(table):
            return jnp.pad(table, [(0, 0), (room, T + room)] + [(0, 0)] * (table.ndim - 2))

        return cls(pe, jax.tree.map(pad, tables) if room else tables, room, T)

    def cut(self, start, queries: int, keys: int) -> Tables:
        """The columns of a block of queries from `start` (traced or not) and of the first keys."""
        begin = self.first + self.queries - start - queries

        def part(table):
            return jax.lax.dynamic_slice_in_dim(table, begin, queries + keys - 1, axis=1)

        return Tables(self.pe, jax.tree.map(part, self.of_hook), 0, queries)

    def tiles(self, block: int, queries: int, keys: int, start: Any = 0) -> dict[str, Any]:
        """The columns of each pair of blocks: [U, H, 2 block, ...] by hook.

        Block i of the Q blocks of queries meets block j of keys, counted from key `start` on, in
        tile Q - 1 - i + j. The last column of a tile serves no pair: with it XLA's CPU divides by
        a power of two for each logit that it shifts into place, which is eight times as fast.
        """
        begin = self.first + self.queries - queries + start
        count = (queries + keys) // block - 1

        def overlapping(table):
            used = jax.lax.dynamic_slice_in_dim(table, begin, (count + 1) * block, axis=1)
            pieces = jnp.moveaxis(used.reshape(used.shape[0], -1, block, *used.shape[2:]), 1, 0)
            return jnp.concatenate([pieces[:-1], pieces[1:]], axis=2)

        return jax.tree.map(overlapping, self.of_hook)

    def constant(self) -> Tables:
        """One column, that of the first query and the first key, for all pairs."""
        at = self.queries - 1
        return self._replace(of_hook=jax.tree.map(lambda t: t[:, at : at + 1], self.of_hook))

    def scores(self, q, k, queries: Rows, keys: Rows):
        """q_i . r_{i-j} + r'_{i-j} . k_j + b_{i-j}: [H, T, S], or what broadcasts to it."""
        if not self.pe.contiguous:
            return self._pairwise_scores(q, k, queries, keys)
        T, S, columns, out = q.shape[0], k.shape[0], 0.0, 0.0
        if "relative_keys" in self.of_hook:
            r = self.of_hook["relative_keys"].astype(q.dtype)
            columns += jnp.einsum("thk,hnk->htn", q, r, preferred_element_type=jnp.float32)
        if "relative_bias" in self.of_hook:
            columns += self.of_hook["relative_bias"][:, None]
        if isinstance(columns, jax.Array):
            out += _laid_out(columns, T, S)
        if "relative_queries" in self.of_hook:
            out += _met_by_keys(k, self.of_hook["relative_queries"].astype(k.dtype), T)
        return out

    def gate(self, queries: Rows, keys: Rows):
        """c_{i-j}: [H, T, S], or what broadcasts to it."""
        return self._term("relative_gate", queries, keys, 1.0)

    def values(self, w, queries: Rows, keys: Rows):
        """sum_j w_ij r_{i-j}: [T, H, K], or 0.0."""
        if not self.pe.contiguous:
            return self._pairwise_values(w, queries, keys)
        if "relative_values" not in self.of_hook:
            return 0.0
        table = self.of_hook["relative_values"]
        if table.shape[1] == 1:
            return jnp.einsum("ht,hk->thk", w.sum(-1), table[:, 0])
        return jnp.einsum("htn,hnk->thk", unshift(w, table.shape[1]), table)

    def _term(self, hook: str, queries: Rows, keys: Rows, otherwise: float):
        """A hook's [H, N] laid out over pairs."""
        if not self.pe.contiguous and self.pe.has(hook):
            n = queries.pos[:, None] - keys.pos[None, :]
            return jnp.reshape(self.pe.relative(hook, n.ravel()), (-1, *n.shape))
        if hook not in self.of_hook:
            return otherwise
        return _laid_out(self.of_hook[hook][:, None], queries.idx.shape[0], keys.idx.shape[0])

    def _pairwise_scores(self, q, k, queries: Rows, keys: Rows):
        out = self._term("relative_bias", queries, keys, 0.0)
        if self.pe.has("relative_keys"):
            out = out + self._rowwise("relative_keys", q, queries.pos, -keys.pos).swapaxes(0, 1)
        if self.pe.has("relative_queries"):
            rows = self._rowwise("relative_queries", k, -keys.pos, queries.pos)
            out = out + jnp.moveaxis(rows, 0, 2)
        return out

    def _rowwise(self, hook: str, x, pos, others):
        """x_i . r at the distances pos_i + others: [rows, H, others]."""

        @jax.checkpoint
        def one(row):
            x, pos = row
            r = self.pe.relative(hook, pos + others)
            return jnp.einsum("hk,hnk->hn", x.astype(jnp.float32), r)

        return jax.lax.map(one, (x, pos))

    def _pairwise_values(self, w, queries: Rows, keys: Rows):
        hook = "relative_values"
        if not jax.eval_shape(functools.partial(self.pe.relative, hook), keys.pos).ndim:
            return 0.0

        @jax.checkpoint
        def one(row):
            w, pos = row
            return jnp.einsum("hn,hnk->hk", w, self.pe.relative(hook, pos - keys.pos))

        return jax.lax.map(one, (w.swapaxes(0, 1), queries.pos))


def _laid_out(columns, queries: int, keys: int):
    """[H, T or 1, N] -> [H, T, S]; of one column, what broadcasts to it."""
    H, _, N = columns.shape
    if N == 1:
        return columns
    return shift(jnp.broadcast_to(columns, (H, queries, N)), keys)


def _met_by_keys(k, table, queries: int):
    """r_{i-j} . k_j: [H, T, S]. `shift` with the keys as rows and, like these, the queries from
    the last to the first: row S - 1 - j of the products has query i in column j + T - 1 - i.
    """
    S = k.shape[0]
    if table.shape[1] == 1:
        return jnp.einsum("shk,hk->hs", k, table[:, 0], preferred_element_type=jnp.float32)[:, None]
    if queries == 1:  # a decoding step: of S distances, each key meets one
        dots = jnp.einsum("shk,hsk->hs", k, table[:, :S], preferred_element_type=jnp.float32)
        return dots[:, None]
    dots = jnp.einsum("shk,hnk->hsn", k[::-1], table, preferred_element_type=jnp.float32)
    dots = jnp.pad(dots, [(0, 0), (0, 0), (0, max(0, queries + S - 1 - table.shape[1]))])
    return shift(dots, queries)[:, ::-1, ::-1].swapaxes(1, 2)
