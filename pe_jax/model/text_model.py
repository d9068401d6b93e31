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

from pe_jax.compose.swap import swap
from pe_jax.data.tokenizer import Tokenizer
from pe_jax.encoding import Encoding
from pe_jax.model import generate


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class TextModel:
    """A model of one seed with its tokenizer; nnx.merge(graphdef, params) is its LM."""

    name: str
    """What errors call it."""
    graphdef: nnx.GraphDef
    params: Any
    """The tree of parameters of one seed."""
    members: tuple[Encoding, ...]
    """Its encodings, as it was trained."""
    tokenizer: Tokenizer

    @property
    def size(self) -> int:
        """The number of its parameters."""
        return sum(leaf.size for leaf in jax.tree.leaves(self.params))

    def encode(self, text: str | bytes) -> Int[np.ndarray, "L"]:
        """The ids of the tokens of a text, int32 [L]. ValueError for a text that has no tokens, as
        letters have none in a model whose tokens are numbers ("0 1 1").
        """
        data = text.encode() if isinstance(text, str) else text
        (tokens,) = self.tokenizer.encode([np.frombuffer(data, np.uint8)])
        return tokens.astype(np.int32)

    def decode(self, tokens: ArrayLike) -> str:
        """The text of the tokens with these ids [L]. Bytes that are no UTF-8, as those of a
        character that is cut, become U+FFFD. ValueError for what is no list of ids.
        """
        ids = self._ids(tokens, "decode", 1)
        return self.tokenizer.decode(ids).decode("utf-8", errors="replace")

    def _ids(self, tokens: ArrayLike, wanted_by: str, most: int) -> Int[np.ndarray, "..."]:
        """The ids as an int32 array of up to `most` dimensions; ValueError where they are none."""
        ids, vocabulary = np.asarray(tokens), self.params["embedding"].shape[0]
        shapes = "[L]" if most == 1 else "[L] or [B, L]"
        got = f"{ids.dtype} {list(ids.shape)}"
        if 1 <= ids.ndim <= most and (ids.size == 0 or np.issubdtype(ids.dtype, np.integer)):
            if ids.min(initial=0) >= 0 and ids.max(initial=0) < vocabulary:
                return ids.astype(np.int32)
            got = f"ids from {ids.min()} to {ids.max()}"
        raise ValueError(
            f"{wanted_by} takes the ids of tokens, integers {shapes} from 0 to {vocabulary - 1}, "
            f"got {got}: model.encode(text) gives the ids of a text"
        )

    def encodings(self, swapped_in: str = "") -> tuple[Encoding, ...]:
        """Its encodings, or those with a spec swapped in, as in eval.swaps."""
        return swap(self.members, swapped_in) if swapped_in else self.members

    def logits(self, tokens: str | bytes | ArrayLike, swap: str = "") -> Float[np.ndarray, "..."]:
        """The logits of the token that follows each token, before softmax: float32 [L, V] for a
        text or the ids of its tokens [L], [B, L, V] for [B, L].

        `swap` is a spec that takes the place of encodings. Random positions are those of
        evaluation. ValueError unless there is a token, the ids are integers of that shape within
        the vocabulary, and the encodings serve L positions.
        """
        given = self.encode(tokens) if isinstance(tokens, str | bytes) else tokens
        tokens = self._ids(given, "logits", 2)
        if tokens.size == 0:
            raise ValueError(f"logits takes at least one token, got {list(tokens.shape)}")
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
        """The text of the tokens that follow the prompt, by `decode`; options as in `stream`."""
        return self.decode(np.concatenate([*self.stream(prompt, tokens, **options)]))


@functools.partial(jax.jit, static_argnames=("graphdef", "encodings"))
def _logits(params, tokens, *, graphdef: nnx.GraphDef, encodings: tuple[Encoding, ...]):
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(0), i))(np.arange(len(tokens)))
    model = nnx.merge(graphdef, params, copy=True)
    return model(tokens, encodings=encodings, key=keys)[0]
