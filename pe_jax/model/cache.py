"""The key/value cache, and the other kinds of past of a model.

    logits, cache = model(prompt, Cache.empty(layers))
    logits, cache = model(tokens, cache.grown(room))

A cache is a value: a pytree that goes into the model and comes out with the new tokens in it. The
model calls a `Past`, and each layer its `LayerPast`: it hands over the rows of new tokens and gets
the rows of all tokens so far.

    Past, LayerPast       nothing: the full forward pass
    Cache, LayerCache     all tokens, for decoding
    Memory, LayerMemory   the last tokens of earlier segments (memory.py)

A cache holds the inputs of hooks: k before `qk`, v, the coordinates of `locate`, and the inputs of
`embed`. None depends on later positions or on the length of the text, so a swapped encoding, or one
set for another length (`at`), can read it.

Axes: B batch, L new tokens, S all tokens that they may see, H heads, K head size, D model size.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Num

from pe_jax.attention.rows import ABSENT

Leaf = Any  # an array, or what jax.tree.map has put in its place


class Seen(NamedTuple):
    """The tokens that new ones may see, themselves included. Below 0 in each array: no token."""

    tokens: Int[Array, "B S"]
    index: Int[Array, "S"] | Int[Array, "B S"]
    """Places in the sequence, which make the mask."""
    pos: Num[Array, "S"] | Num[Array, "B S"]
    """Positions; from `see` consecutive integers, the input of the `positions` hooks."""
    start: int | Int[Array, ""]
    """The number of the first token whose row a layer computes; 0 for a memory, whose layers
    recompute the rows of earlier tokens.
    """

    def cut(self, size: Int[Array, ""]) -> Seen:
        """Of a full forward pass, with padding after the first `size` tokens."""
        here = self.index < size
        return Seen._make([*(jnp.where(here, a, ABSENT) for a in self[:3]), self.start])

    def last(self, count: int) -> Seen:
        """Of a full forward pass, the last `count` tokens."""
        return Seen._make([*(a[..., -count:] for a in self[:3]), self.start])


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LayerPast:
    """The past of one layer; this class holds nothing, and returns the rows that it gets.

    A method takes rows computed by the layer, from row `start` of the S on (`Seen.start`), and
    returns the rows of all S tokens, and the past with the new rows in it.
    """

    def enter(self, x: Float[Array, "B L D"]) -> tuple[Float[Array, "B S D"], LayerPast]:
        """The rows that the layer computes, of the new tokens alone, or with a memory of all S."""
        return x, self

    def embed_inputs(
        self, x: Float[Array, "B L D"], start
    ) -> tuple[Float[Array, "B S D"], LayerPast]:
        """The inputs of `embed`, which may read neighbours."""
        return x, self

    def keys_values(self, k: Float[Array, "B L H K"], v: Float[Array, "B L H K"], start):
        """(k before `qk`, v, past): [B, S, H, K]."""
        return k, v, self

    def located_last(self, start) -> tuple | None:
        """For each encoding the coordinates of the token before row `start`, [B, ...], or None."""
        return None

    def coords(self, new: tuple, start) -> tuple[tuple, LayerPast]:
        """For each encoding its coordinates, [B, S, ...]; None without a `locate`."""
        return new, self

    def state(self) -> Any:
        """The state of a mixer after the tokens so far, [B, ...]; None: a text begins."""
        return None

    def mixed(self, state: Any) -> LayerPast:
        """The past with the state of a mixer after the new tokens."""
        return self


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LayerCache(LayerPast):
    """The rows of all tokens so far, tokens last; None before the first."""

    k: Leaf | None = None
    """Before `qk`: [B*H, K, S], the layout that XLA's CPU multiplies and updates in place; of any
    other it makes a whole copy for every token.
    """
    v: Leaf | None = None
    """[B*H, K, S]"""
    located: tuple | None = None
    """For each encoding its coordinates [B, ..., S]; None without a `locate`."""
    embedded: Leaf | None = None
    """The inputs of `embed`, [B, D, S]; None where no encoding has that hook."""
    kept: Any = None
    """The state of a mixer, [B, ...]; None where there is none."""

    def grown(self, room: int) -> LayerCache:
        """`Cache.grown` of this layer."""
        rows = dataclasses.replace(self, kept=None)
        return dataclasses.replace(jax.tree.map(lambda a: _padded(a, room), rows), kept=self.kept)

    def state(self) -> Any:
        return self.kept

    def mixed(self, state: Any) -> LayerCache:
        return dataclasses.replace(self, kept=state)

    def embed_inputs(
        self, x: Float[Array, "B L D"], start
    ) -> tuple[Float[Array, "B S D"], LayerCache]:
        rows = _extended(self.embedded, jnp.moveaxis(x, 1, -1), start)
        return jnp.moveaxis(rows, -1, 1), dataclasses.replace(self, embedded=rows)

    def keys_values(self, k: Float[Array, "B L H K"], v: Float[Array, "B L H K"], start):
        rows = [_extended(a, _heads_first(b), start) for a, b in ((self.k, k), (self.v, v))]
        kept = dataclasses.replace(self, k=rows[0], v=rows[1])
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
    """The past of a model; this class holds nothing, for the full forward pass."""

    input: LayerPast
    """For encodings whose `embed` acts on the model's input."""
    layers: tuple[LayerPast, ...]
    pos: Leaf | None
    """Positions of all tokens, later ones included, [P] or [B, P] with P >= S. None: the
    `positions` hooks compute them at every call.
    """

    @classmethod
    def none(cls, layers: int, pos: Array | None = None) -> Past:
        """For a full forward pass of a model of `layers` layers."""
        return Past(LayerPast(), (LayerPast(),) * layers, pos)

    def see(self, tokens: Int[Array, "B L"]) -> tuple[Seen, Past]:
        """The tokens that the new ones may see, and the past with the new ones in it."""
        index = jnp.arange(tokens.shape[1])
        return Seen(tokens, index, index, 0), self


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Cache(Past):
    """The key/value cache of a model: room for S tokens, the first `length` filled.

    The first call fills an empty cache and leaves no room for more: `grown` makes room. Tokens
    without room overwrite the last ones.
    """

    input: LayerCache
    layers: tuple[LayerCache, ...]
    tokens: Leaf | None
    """[B, S]; None: none yet."""
    length: Leaf

    @classmethod
    def empty(cls, layers: int, pos: Array | None = None) -> Cache:
        """Before the first token, for a model of `layers` layers."""
        return Cache(LayerCache(), (LayerCache(),) * layers, pos, None, jnp.int32(0))

    @property
    def room(self) -> int:
        """The number of tokens that fit."""
        return 0 if self.tokens is None else self.tokens.shape[-1]

    def grown(self, room: int) -> Cache:
        """A copy with room for `room` tokens in all."""
        layers, tokens = (layer.grown(room) for layer in self.layers), _padded(self.tokens, room)
        input = self.input.grown(room)
        return dataclasses.replace(self, input=input, layers=tuple(layers), tokens=tokens)

    def see(self, tokens: Int[Array, "B L"]) -> tuple[Seen, Cache]:
        rows = _extended(self.tokens, tokens, self.length)
        index = jnp.arange(rows.shape[1])
        kept = dataclasses.replace(self, tokens=rows, length=self.length + tokens.shape[1])
        return Seen(rows, index, index, self.length), kept


def rows_from(rows: Any, start, count: int, axis: int = 1) -> Any:
    """`count` rows from `start` on (may be traced), along `axis`, of every array in a tree."""
    return jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, start, count, axis), rows)


def _padded(rows: Leaf, room: int) -> Array:
    return jnp.pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, room - rows.shape[-1])])


# The kept rows [..., S] with the new ones written in from `start` on; the new ones alone where
# nothing is kept yet.
def _extended(kept: Any, new: Any, start) -> Any:
    put = functools.partial(jax.lax.dynamic_update_slice_in_dim, start_index=start, axis=-1)
    return new if kept is None else jax.tree.map(put, kept, new)


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
