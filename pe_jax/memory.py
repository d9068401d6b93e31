"""Segment memory (Dai et al., 2019; arXiv:1901.02860): a layer sees what entered it in earlier
segments.

A long text is worked through in segments of T tokens. Each layer keeps its input at the last M
tokens, and the next segment's queries see keys and values that the present weights make of it,
before those of their own segment. No gradient goes back into it. Slots are filled from the end;
those that are not filled yet are hidden, and the oldest key of the batch has position 0, so a
memory that holds all the text before gives the full forward pass.

Where positions are added to the model's input, what is kept has the positions of its own segment
in it, and no place in the text: such encodings are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from pe_jax.encoding import Encoding, acts_once, overrides
from pe_jax.lm_config import DTYPES, LmConfig
from pe_jax.past import Past

Memory = dict[str, Any]  # "filled" [B], "tokens" [B, M], and of each layer its "hidden" [B, M, D]


def empty(config: LmConfig, batch: int, size: int) -> Memory:
    """The memory of `size` tokens before the first segment."""
    hidden = jnp.zeros((batch, size, config.model), DTYPES[config.dtype])
    tokens = jnp.zeros((batch, size), jnp.int32)
    layers = {f"layer {layer}": {"hidden": hidden} for layer in range(config.layers)}
    return layers | {"filled": jnp.zeros(batch, jnp.int32), "tokens": tokens}


def forgotten(memory: Memory, fresh: Bool[Array, "B"]) -> Memory:
    """The same, emptied in the rows where a new text begins."""
    return memory | {"filled": jnp.where(fresh, 0, memory["filled"])}


class Segment(Past):
    """The rows of one part of a model in a segment of `count` tokens after those of a memory.

    What is to be kept for the next segment is in `now` afterwards.
    """

    kept: Memory

    def __init__(self, kept: Memory, count: int):
        super().__init__(kept, 0, count)

    def part(self, name: str) -> Segment:
        part = Segment(self.kept[name], self.count)
        self.now[name] = part.now
        return part

    def indices(self, keys: int) -> Int[Array, "B S"]:
        """Of all tokens, from 0 for a row's oldest: below 0 where its memory is not filled."""
        filled, size = self.kept["filled"], keys - self.count
        self.now["filled"] = jnp.minimum(filled + self.count, size)
        return jnp.arange(keys)[None] - (size - filled)[:, None]

    def positions(self, keys: int) -> Int[Array, "S"]:
        """Of all tokens, consecutive: below 0 only where no row of the batch has a token."""
        return jnp.arange(keys) - (keys - self.count - self.kept["filled"].max())

    def __call__(self, site: str, new: Any) -> Any:
        """What is not kept is made anew of the hidden states that are."""
        if site not in self.kept:
            return new
        rows = jnp.concatenate([jax.lax.stop_gradient(self.kept[site]), new], axis=1)
        self.now[site] = jax.lax.stop_gradient(rows[:, self.count :])
        return rows

    def hidden(self, new: Any) -> Any:
        return self("hidden", new)

    def heads(self, site: str, new: Any) -> Any:
        return new

    def before(self, site: str) -> None:
        return None

    def last(self, rows: Any, count: int, axis: int = 1) -> Any:
        return jax.tree.map(
            lambda a: jax.lax.slice_in_dim(a, a.shape[axis] - count, None, axis=axis), rows
        )


def check(encodings: Sequence[Encoding], memory: int, length: int) -> None:
    """ValueError for an encoding that cannot serve segments of `length` after a memory."""
    for encoding in encodings:
        name, limit = type(encoding).__name__, encoding.limit()
        if overrides(encoding, "embed") and acts_once(encoding):
            raise ValueError(
                f"{name} acts on the model's input, where every segment has the same positions: "
                "a memory needs an encoding that acts in attention, or on the input of every "
                'layer, as "[0:]" after its name makes it'
            )
        if limit is not None and limit < memory + length:
            raise ValueError(
                f"{name} serves {limit} positions, a segment of {length} tokens after a memory of "
                f"{memory} has {memory + length}: shorten one of them, or enlarge {name}"
            )
