"""A model with its tokens: what reads and continues text."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from flax import nnx
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from pe_jax.data.tokenizer import Tokenizer
from pe_jax.encoding import Encoding
from pe_jax.model import generate
from pe_jax.spec.swap import swap


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextModel:
    """nnx.merge(graphdef, params) is its LM."""

    name: str
    """What errors call it."""
    graphdef: nnx.GraphDef
    params: Any
    """The tree of parameters of one seed."""
    members: tuple[Encoding, ...]
    """Its encodings, as it was trained."""
    tokenizer: Tokenizer

    def encode(self, text: str | bytes) -> Int[np.ndarray, "L"]:
        """The ids of the tokens of a text, int32; `tokenizer.decode` gives the bytes of ids."""
        data = text.encode() if isinstance(text, str) else text
        (tokens,) = self.tokenizer.encode([np.frombuffer(data, np.uint8)])
        return tokens.astype(np.int32)

    def encodings(self, swapped_in: str = "") -> tuple[Encoding, ...]:
        """Its encodings, or those with a spec swapped in, as in eval.swaps."""
        return swap(self.members, swapped_in) if swapped_in else self.members

    def logits(self, tokens: ArrayLike, swap: str = "") -> Float[np.ndarray, "..."]:
        """float32 [L, V] of tokens [L], or [B, L, V] of [B, L]: those of the token after each.

        `swap` is a spec that takes the place of encodings. Random positions are those of
        evaluation. ValueError unless tokens are integers of that shape, and if the encodings cannot
        serve L positions.
        """
        tokens = np.asarray(tokens)
        if tokens.ndim not in (1, 2) or not np.issubdtype(tokens.dtype, np.integer):
            raise ValueError(
                f"logits takes the ids of tokens, integers [L] or [B, L], got {tokens.dtype} "
                f"{list(tokens.shape)}: give model.encode(text) for a text"
            )
        tokens = tokens.astype(np.int32)
        rows = tokens.reshape(-1, tokens.shape[-1])
        length = rows.shape[1]
        encodings = tuple(e.at(length) for e in self.encodings(swap))
        limit = min((n for e in encodings if (n := e.limit()) is not None), default=length)
        if limit < length:
            raise ValueError(f"{self.name} serves {limit} positions, got {length} tokens")
        logits = _logits(self.params, rows, graphdef=self.graphdef, encodings=encodings)
        return np.asarray(logits).reshape(*tokens.shape, -1)

    def stream(
        self,
        prompt: str | bytes,
        tokens: int,
        sampling: generate.Sampling = generate.Sampling(),  # noqa: B008
        seed: int = 0,
        swap: str = "",
    ) -> Iterator[Int[np.ndarray, "T"]]:
        """The ids of the `tokens` tokens that follow the prompt, piece by piece as they are
        decoded. See model/generate.py.
        """
        start = self.encode(prompt)[None]
        pieces = generate.generate(
            self.graphdef, self.params, self.encodings(swap), start, tokens, sampling, seed
        )
        return (piece[0] for piece in pieces)

    def generate(self, prompt: str | bytes, tokens: int, **options: Any) -> str:
        """The text of the tokens that follow the prompt; options as in `stream`. Bytes that are no
        UTF-8 become U+FFFD.
        """
        ids = np.concatenate([*self.stream(prompt, tokens, **options)])
        return self.tokenizer.decode(ids).decode("utf-8", errors="replace")


@functools.partial(jax.jit, static_argnames=("graphdef", "encodings"))
def _logits(params, tokens, *, graphdef: nnx.GraphDef, encodings: tuple[Encoding, ...]):
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(0), i))(np.arange(len(tokens)))
    model = nnx.merge(graphdef, params, copy=True)
    return model(tokens, encodings=encodings, key=keys)[0]
