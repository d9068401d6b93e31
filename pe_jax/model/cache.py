"""The key/value cache, and other memories of the tokens before a call of the model.

    logits, cache = model(prompt, Cache.empty(layers))
    logits, cache = model(tokens, cache.grown(room))

A cache is a value: a pytree of arrays that goes into the model and comes out with the new tokens in
it. The model calls the methods of a `Past`, and each of its layers those of a `LayerPast`: a layer
hands over the rows of the new tokens, and gets the rows of all tokens so far. There are three:

    Past, LayerPast       keep nothing: the full forward pass
    Cache, LayerCache     keep all tokens, for decoding
    Memory, LayerMemory   keep the last tokens of the segments before (memory.py)

A cache keeps what hooks read: k as it is before `qk`, v, the coordinates that `locate` made, and
the inputs of `embed`. None of these depends on positions to come or on the length of the text, so a
swapped encoding, or one set for another length (`at`), finds what it needs.

Axes: B batch, L new tokens, S all tokens that the new ones may look at, H heads, K head size, D
model size.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Num

from pe_jax.attention.rows import ABSENT

Leaf = Any  # an array, or what jax.tree.map has put in its place


class Seen(NamedTuple):
    """All tokens that the new ones may look at: the kept ones, and the new ones themselves."""

    tokens: Int[Array, "B S"]
    """Below 0: there is no token."""
    index: Int[Array, "S"] | Int[Array, "B S"]
    """Their places in the sequence, which make the mask; below 0: there is no token."""
    pos: Num[Array, "S"] | Num[Array, "B S"]
    """Their positions. `see` gives consecutive integers, below 0 where there is no token; the model
    replaces them by what the `positions` hooks return.
    """
    start: int | Int[Array, ""]
    """How many of the S come before the first of those whose rows a layer computes. 0 for a memory,
    whose layers compute the kept tokens' rows anew.
    """

    def cut(self, size: Int[Array, ""]) -> Seen:
        """The tokens of a full forward pass, with all after the first `size` made padding."""
        here = self.index < size
        tokens, index, pos = (
            jnp.where(here, a, ABSENT) for a in (self.tokens, self.index, self.pos)
        )
        return Seen(tokens, index, pos, self.start)

    def last(self, count: int) -> Seen:
        """The last `count` tokens of a full forward pass."""
        return Seen(
            self.tokens[:, -count:], self.index[..., -count:], self.pos[..., -count:], self.start
        )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LayerPast:
    """The past of one layer. This class keeps nothing: a layer gets back the rows that it hands
    over.

    Each method takes rows that the layer has computed, the first of which is row `start` of the S
    (`Seen.start`). It returns the rows of all S tokens, and the past with the new rows in it.
    """

    def enter(self, x: Float[Array, "B L D"]) -> tuple[Float[Array, "B S D"], LayerPast]:
        """The rows that the layer computes, from the hidden states of the new tokens: these alone,
        or with a memory all S.
        """
        return x, self

    def embed_inputs(
        self, x: Float[Array, "B L D"], start
    ) -> tuple[Float[Array, "B S D"], LayerPast]:
        """The inputs of `embed`, which may read neighbours."""
        return x, self

    def keys_values(self, k: Float[Array, "B L H K"], v: Float[Array, "B L H K"], start):
        """(k, v, past): the keys before `qk` and the values, [B, S, H, K]."""
        return k, v, self

    def located_last(self, start) -> tuple | None:
        """For each encoding the coordinates of the last token before row `start`, [B, ...]; None:
        there is no such token.
        """
        return None

    def coords(self, new: tuple, start) -> tuple[tuple, LayerPast]:
        """The coordinates of each encoding that locates, [B, S, ...]; None for the others."""
        return new, self


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LayerCache(LayerPast):
    """The rows of all tokens so far, None before the first. In every array tokens are the last
    axis.
    """

    k: Leaf | None = None
    """Before `qk`: [B*H, K, S]. XLA's CPU multiplies a single query by k and v in this layout, and
    writes a row in place; of any other it makes a whole copy for every token.
    """
    v: Leaf | None = None
    """[B*H, K, S]"""
    located: tuple | None = None
    """For each encoding its coordinates [B, ..., S]; None for those that do not locate."""
    embedded: Leaf | None = None
    """The inputs of `embed`, [B, D, S]; None where no encoding has that hook."""

    def embed_inputs(
        self, x: Float[Array, "B L D"], start
    ) -> tuple[Float[Array, "B S D"], LayerCache]:
        rows = _extended(self.embedded, jnp.moveaxis(x, 1, -1), start)
        return jnp.moveaxis(rows, -1, 1), dataclasses.replace(self, embedded=rows)

    def keys_values(self, k: Float[Array, "B L H K"], v: Float[Array, "B L H K"], start):
        rows = _extended(
            None if self.k is None else (self.k, self.v), (_heads_first(k), _heads_first(v)), start
        )
        kept = dataclasses.replace(self, k=rows[0], v=rows[1])
        if self.k is None:
            return k, v, kept
        return _tokens_first(rows[0], k), _tokens_first(rows[1], v), kept

    def located_last(self, start) -> tuple | None:
        return jax.tree.map(
            lambda a: jax.lax.dynamic_index_in_dim(a, start - 1, axis=-1, keepdims=False),
            self.located,
        )

    def coords(self, new: tuple, start) -> tuple[tuple, LayerCache]:
        rows = _extended(self.located, jax.tree.map(lambda a: jnp.moveaxis(a, 1, -1), new), start)
        whole = jax.tree.map(lambda a: jnp.moveaxis(a, -1, 1), rows)
        return whole, dataclasses.replace(self, located=rows)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Past:
    """The past of a model. This class keeps nothing, as in the full forward pass."""

    input: LayerPast
    """The past of the model's input, for encodings whose `embed` acts there."""
    layers: tuple[LayerPast, ...]
    pos: Leaf | None
    """Positions of all tokens and of those that may follow, [P] or [B, P] with P >= S. None: at
    every call the `positions` hooks make those of all tokens anew.
    """

    @classmethod
    def none(cls, layers: int, pos: Array | None = None) -> Past:
        """The past of a full forward pass, for a model of `layers` layers."""
        return Past(LayerPast(), (LayerPast(),) * layers, pos)

    def see(self, tokens: Int[Array, "B L"]) -> tuple[Seen, Past]:
        """All tokens that the new ones may look at, and the past with the new ones in it."""
        index = jnp.arange(tokens.shape[1])
        return Seen(tokens, index, index, 0), self


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Cache(Past):
    """The key/value cache of a model: arrays with room for S tokens; the first `length` are filled.

    The first call of the model fills an empty cache with its tokens and leaves no room for more:
    `grown` makes room. Tokens for which there is no room overwrite the last ones.
    """

    tokens: Leaf | None
    """[B, S]; None: none yet."""
    length: Leaf

    @classmethod
    def empty(cls, layers: int, pos: Array | None = None) -> Cache:
        """The cache before the first token, for a model of `layers` layers."""
        return Cache(LayerCache(), (LayerCache(),) * layers, pos, None, jnp.int32(0))

    @property
    def room(self) -> int:
        """The number of tokens that it can hold."""
        return 0 if self.tokens is None else self.tokens.shape[-1]

    def grown(self, room: int) -> Cache:
        """A copy with room for `room` tokens in all."""

        def pad(a):
            return jnp.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, room - a.shape[-1])])

        input, layers, tokens = jax.tree.map(pad, (self.input, self.layers, self.tokens))
        return dataclasses.replace(self, input=input, layers=layers, tokens=tokens)

    def see(self, tokens: Int[Array, "B L"]) -> tuple[Seen, Cache]:
        rows = _extended(self.tokens, tokens, self.length)
        index = jnp.arange(rows.shape[1])
        kept = dataclasses.replace(self, tokens=rows, length=self.length + tokens.shape[1])
        return Seen(rows, index, index, self.length), kept


def rows_from(rows: Any, start, count: int, axis: int = 1) -> Any:
    """`count` rows from `start` on (it may be traced), along `axis`, of every array in a tree."""

    def cut(a):
        if a.shape[axis] == count:
            return a
        return jax.lax.dynamic_slice_in_dim(a, start, count, axis)

    return jax.tree.map(cut, rows)


# The kept rows [..., S] with the new ones written in from `start` on; the new ones alone where
# nothing is kept yet.
def _extended(kept: Any, new: Any, start) -> Any:
    if kept is None:
        return new
    return jax.tree.map(
        lambda a, b: jax.lax.dynamic_update_slice_in_dim(a, b, start, axis=-1), kept, new
    )


# The layout of k and v in a `LayerCache`.
def _heads_first(a: Float[Array, "B L H K"]) -> Float[Array, "BH K L"]:
    rows = jnp.swapaxes(a, 1, 2).reshape(-1, a.shape[1], a.shape[3])
    return jnp.moveaxis(rows, 1, -1)


# The inverse of `_heads_first`, for the batch and the heads of `like`.
def _tokens_first(
    a: Float[Array, "BH K S"], like: Float[Array, "B L H K"]
) -> Float[Array, "B S H K"]:
    B, _, H, K = like.shape
    return jnp.swapaxes(jnp.moveaxis(a, -1, 1).reshape(B, H, -1, K), 1, 2)
