"""Segment memory (Dai et al., 2019; arXiv:1901.02860): a `Past` (cache.py) with the inputs of each
layer in earlier segments.

A text is read in segments of L tokens. Each layer keeps its input at the last M tokens, and the
queries of the next segment see the keys and values that the present weights make of it. No gradient
goes back into it. Places are filled from the end; an empty one has a token below 0 and is hidden.
The oldest token of each sequence has position 0, so that a memory of all earlier text gives the
full forward pass, and neither a forgotten text nor another sequence of the batch changes anything.

An encoding of the model's input is refused (`check`): its positions are of an earlier segment.

Axes: B batch, L tokens of a segment, M tokens of the memory, S = M + L, D model size.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from pe_jax.attention.rows import ABSENT
from pe_jax.encoding import Encoding, acts_once, overrides
from pe_jax.model.cache import LayerPast, Leaf, Past, Seen
from pe_jax.model.config import DTYPES, LmConfig


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LayerMemory(LayerPast):
    """The inputs of one layer at the last M tokens, from which every segment computes anew."""

    hidden: Leaf
    """[B, M, D]"""

    def enter(self, x: Float[Array, "B L D"]) -> tuple[Float[Array, "B S D"], LayerMemory]:
        rows = jnp.concatenate([jax.lax.stop_gradient(self.hidden), x], axis=1)
        return rows, LayerMemory(jax.lax.stop_gradient(rows[:, x.shape[1] :]))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Memory(Past):
    """The last M tokens before a segment, with the inputs of each layer."""

    tokens: Leaf
    """[B, M]; ABSENT in empty places."""
    filled: Leaf
    """The number of places with a token: [B], or [] where it is the same for all sequences, so that
    the batch shares positions and all that hooks compute from them.
    """

    @classmethod
    def empty(cls, config: LmConfig, batch: int, size: int) -> Memory:
        """A memory of `size` tokens, before the first segment."""
        hidden = jnp.zeros((batch, size, config.model), DTYPES[config.dtype])
        layers = (LayerMemory(hidden),) * config.layers
        tokens = jnp.full((batch, size), ABSENT, jnp.int32)
        return Memory(LayerPast(), layers, None, tokens, jnp.int32(0))

    def forgotten(self, fresh: Bool[Array, "B"]) -> Memory:
        """Emptied for the sequences that are `fresh`, where a new text begins."""
        tokens = jnp.where(fresh[:, None], ABSENT, self.tokens)
        return dataclasses.replace(self, tokens=tokens, filled=jnp.where(fresh, 0, self.filled))

    def see(self, tokens: Int[Array, "B L"]) -> tuple[Seen, Memory]:
        """The tokens that a segment may see, and the memory for the next one. Indices and positions
        count from the oldest token of each sequence, and are below 0 in empty places.
        """
        size, count = self.tokens.shape[1], tokens.shape[1]
        rows = jnp.concatenate([self.tokens, tokens], axis=1)
        places = jnp.expand_dims(jnp.arange(size + count), range(self.filled.ndim))
        index = places - (size - self.filled)[..., None]
        filled = jnp.minimum(self.filled + count, size)
        kept = dataclasses.replace(self, tokens=rows[:, count:], filled=filled)
        return Seen(rows, index, index, 0), kept

    # In the state of training a memory is a dict, whose keys name the arrays in checkpoints.

    @classmethod
    def of_state(cls, state: dict[str, Any]) -> Memory:
        """The inverse of `state`."""
        layers = [state[f"layer {layer}"]["hidden"] for layer in range(len(state) - 2)]
        layers = tuple(LayerMemory(hidden) for hidden in layers)
        return Memory(LayerPast(), layers, None, state["tokens"], state["filled"])

    def state(self) -> dict[str, Any]:
        """{"tokens", "filled", "layer 0": {"hidden"}, ...}"""
        layers = {f"layer {i}": vars(layer) for i, layer in enumerate(self.layers)}
        return layers | {"tokens": self.tokens, "filled": self.filled}


def check(encodings: Sequence[Encoding], memory: int, length: int) -> None:
    """ValueError for an encoding that cannot serve `length` tokens after `memory` earlier ones."""
    for encoding in encodings:
        name, limit = type(encoding).__name__, encoding.at(memory + length).limit()
        if memory and overrides(encoding, "embed") and acts_once(encoding):
            raise ValueError(
                f"{name} acts on the model's input, where every segment has the same positions: "
                "a memory needs an encoding that acts in attention, or on the input of every "
                'layer, as "[0:]" after its name makes it'
            )
        if limit is not None and limit < memory + length:
            raise ValueError(
                f"{name} serves {limit} positions, and a memory of {memory} and {length} tokens "
                f"need {memory + length}: shorten one of them, or enlarge {name}"
            )
