"""What a model keeps of the tokens before, for those that follow: the ground of decoding.

Each site of the model hands over the rows of its new tokens and gets back those of all tokens.
Without tokens before these are the very rows, so the full forward pass and decoding are the same
lines. A site keeps what hooks read: k as it is before `qk`, v, the coordinates that `locate` made,
and the inputs of `embed`. Nothing is kept that depends on later tokens, so swaps and bases that
`at(length)` sets stay right.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

Kept = dict[str, Any]  # arrays [..., S] by the names of parts and sites


class Past:
    """The rows of one part of a model, while a program is traced: `count` new ones after `start`.

    `kept` has room for S rows, of which the first `start` are filled; None: there were no tokens
    before. What is to be kept of all tokens is in `now` afterwards. Sites see the axis of tokens
    as axis 1; what is kept has it last.
    """

    def __init__(self, kept: Kept | None, start: int | Int[Array, ""], count: int):
        self.kept, self.start, self.count = kept, start, count
        self.now: Kept = {}

    def part(self, name: str) -> Past:
        """What a part of this part keeps: a layer's own."""
        part = Past(None if self.kept is None else self.kept[name], self.start, self.count)
        self.now[name] = part.now
        return part

    def indices(self, keys: int) -> Int[Array, "..."]:
        """Of all tokens, for the mask; below 0: not there (in a segment's memory)."""
        return jnp.arange(keys)

    def positions(self, keys: int) -> Int[Array, "S"]:
        """Of all tokens, before any `positions` hook."""
        return jnp.arange(keys)

    def hidden(self, new: Any) -> Any:
        """The input of a layer, which a segment's memory has of the tokens before too."""
        return new

    def __call__(self, site: str, new: Any) -> Any:
        """The rows of all tokens at a site, from those of the new ones; any after these are 0."""
        now = jax.tree.map(lambda a: jnp.moveaxis(a, 1, -1), new)
        if self.kept is not None:
            now = jax.tree.map(
                lambda a, b: jax.lax.dynamic_update_slice_in_dim(a, b, self.start, axis=-1),
                self.kept[site],
                now,
            )
        self.now[site] = now
        return new if self.kept is None else jax.tree.map(lambda a: jnp.moveaxis(a, -1, 1), now)

    def heads(self, site: str, new: Any) -> Any:
        """The same for k and v, [B, L, H, K], kept as [B*H, K, S].

        That is how XLA's CPU multiplies them by one query. From any other form it would copy them
        whole for every token, and writing a row would not be in place.
        """
        whole = self(site, jax.tree.map(_merged, new))
        if self.kept is None:
            return new
        return jax.tree.map(_parted, whole, new)

    def before(self, site: str) -> Any:
        """The row at a site of the last token before; None: there is none."""
        if self.kept is None:
            return None
        return jax.tree.map(
            lambda a: jax.lax.dynamic_index_in_dim(a, self.start - 1, axis=-1, keepdims=False),
            self.kept[site],
        )

    def last(self, rows: Any, count: int, axis: int = 1) -> Any:
        """Those of the last `count` new tokens, from the rows of all."""

        def cut(a):
            if a.shape[axis] == count:
                return a
            start = self.start + self.count - count
            return jax.lax.dynamic_slice_in_dim(a, start, count, axis)

        return jax.tree.map(cut, rows)


def _merged(a: Float[Array, "B L H K"]) -> Float[Array, "BH L K"]:
    return jnp.swapaxes(a, 1, 2).reshape(-1, a.shape[1], a.shape[3])


def _parted(a: Float[Array, "BH S K"], like: Float[Array, "B L H K"]) -> Float[Array, "B S H K"]:
    B, _, H, K = like.shape
    return jnp.swapaxes(a.reshape(B, H, -1, K), 1, 2)
