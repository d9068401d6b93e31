"""A model with its tokenizer, and decoding from a key/value cache: greedy, or by sampling.

Axes: B batch, L prompt, T new tokens, V vocab.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Int, Key, Num
from numpy.typing import ArrayLike

from pe_jax.attention.bound import fold_positions, shared_positions
from pe_jax.data.tokenizer import Tokenizer
from pe_jax.encoding import Encoding, overrides
from pe_jax.fields import Count, NotNegative, check, check_value
from pe_jax.model.cache import Cache
from pe_jax.specs.swap import swap

CHUNK = 16  # tokens decoded in one call
FIRST = 4096  # the first room, unless the text needs less or the prompt more: each room compiles


@dataclasses.dataclass(frozen=True)
class Sampling:
    """Samples from softmax(logits / temperature), cut to the `top_k` likeliest tokens and then to
    the fewest of them whose probabilities sum to at least `top_p` (nucleus sampling). None: no cut.
    """

    temperature: NotNegative = 1.0
    """0: greedy."""
    top_k: Count | None = None
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None

    def __post_init__(self):
        check(self, "")

    def __call__(self, logits: Float[Array, "B V"], key: Key[Array, ""]) -> Int[Array, "B"]:
        """One token for each row of logits, int32."""
        if self.temperature == 0:
            return jnp.argmax(logits, axis=-1).astype(jnp.int32)
        logits = logits / self.temperature
        if self.top_k is None and self.top_p is None:
            return jax.random.categorical(key, logits).astype(jnp.int32)
        order = jnp.argsort(-logits, axis=-1)
        ranked = jnp.take_along_axis(logits, order, axis=-1)
        if self.top_k is not None:
            ranked = jnp.where(jnp.arange(ranked.shape[-1])[None] < self.top_k, ranked, -jnp.inf)
        if self.top_p is not None:
            p = jax.nn.softmax(ranked, axis=-1)
            ranked = jnp.where(jnp.cumsum(p, axis=-1) - p < self.top_p, ranked, -jnp.inf)
        rank = jax.random.categorical(key, ranked)
        return jnp.take_along_axis(order, rank[:, None], axis=-1)[:, 0].astype(jnp.int32)


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class TextModel:
    """A model of one seed with its tokenizer; nnx.merge(graphdef, params) is its LM."""

    name: str
    """In error messages."""
    graphdef: nnx.GraphDef
    params: Any
    """Of one seed."""
    members: tuple[Encoding, ...]
    """Its encodings, as it was trained."""
    tokenizer: Tokenizer

    @property
    def size(self) -> int:
        """The number of its parameters."""
        return sum(leaf.size for leaf in jax.tree.leaves(self.params))

    def encode(self, text: str | bytes) -> Int[np.ndarray, "L"]:
        """Token ids of a text, int32 [L], with `Tokenizer.bos` first where there is one, and `eos`
        last. ValueError for a text without tokens: letters have none in a task whose tokens are
        numbers ("0 1 1").
        """
        data = text.encode() if isinstance(text, str) else text
        (tokens,) = self.tokenizer.encode([np.frombuffer(data, np.uint8)])
        return self.tokenizer.framed(tokens)

    def decode(self, tokens: ArrayLike) -> str:
        """The text of token ids [L]. Bytes that are no UTF-8, as a part of a character, become
        U+FFFD. ValueError for anything but ids [L].
        """
        ids = self._ids(tokens, 1)
        return self.tokenizer.decode(ids).decode("utf-8", errors="replace")

    def _ids(self, tokens: ArrayLike, axes: int) -> Int[np.ndarray, "..."]:
        ids, vocabulary = np.asarray(tokens), self.params["embedding"].shape[0]
        integers = ids.size == 0 or np.issubdtype(ids.dtype, np.integer)
        if not 1 <= ids.ndim <= axes or not integers or not np.isin(ids, range(vocabulary)).all():
            raise ValueError(
                f"token ids are integers {'[L]' if axes == 1 else '[L] or [B, L]'} from 0 to "
                f"{vocabulary - 1}, got {ids.dtype} {list(ids.shape)}, {ids.ravel()[:5]}: "
                "model.encode(text) gives the ids of a text"
            )
        return ids.astype(np.int32)

    def encodings(self, swapped_in: str = "") -> tuple[Encoding, ...]:
        """The encodings, with a spec swapped in as in eval.swaps."""
        return swap(self.members, swapped_in) if swapped_in else self.members

    def logits(self, tokens: str | bytes | ArrayLike, swap: str = "") -> Float[np.ndarray, "..."]:
        """Next-token logits, float32: [L, V] for a text or its token ids [L], [B, L, V] for [B, L].

        `swap` is a spec as in eval.swaps. Random positions are as in evaluation. ValueError
        without a token, for invalid ids, and beyond the positions that the encodings serve.
        """
        given = self.encode(tokens) if isinstance(tokens, str | bytes) else tokens
        tokens = self._ids(given, 2)
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
        sampling: Sampling = Sampling(),  # noqa: B008
        seed: int = 0,
        swap: str = "",
    ) -> Iterator[Int[np.ndarray, "T"]]:
        """Yields the ids of `tokens` new tokens, in the pieces of the function `generate`."""
        start = self.encode(prompt)[None]
        pieces = generate(
            self.graphdef, self.params, self.encodings(swap), start, tokens, sampling, seed
        )
        return (piece[0] for piece in pieces)

    def generate(self, prompt: str | bytes, tokens: int, **options: Any) -> str:
        """The text of `tokens` new tokens; options as in `stream`."""
        return self.decode(np.concatenate([*self.stream(prompt, tokens, **options)]))


# The logits of every token of the rows, with the random positions of evaluation.
@functools.partial(jax.jit, static_argnames=("graphdef", "encodings"))
def _logits(params, tokens, *, graphdef: nnx.GraphDef, encodings: tuple[Encoding, ...]):
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(0), i))(np.arange(len(tokens)))
    model = nnx.merge(graphdef, params, copy=True)
    return model(tokens, encodings=encodings, key=keys)[0]


# Decoding, token by token, from a cache
#
# The room of the cache is a power of two of tokens, and is doubled when it is full, so the program
# is compiled once for each power of two that is needed. One call of it decodes CHUNK tokens, since
# the call itself takes as long as a token of a small model. Positions are fixed before decoding
# begins: random ones are drawn once, for the prompt and all that follows.


def generate(
    graphdef: nnx.GraphDef,
    params: Any,
    encodings: tuple[Encoding, ...],
    prompt: Int[np.ndarray, "B L"],
    tokens: int,
    sampling: Sampling = Sampling(),  # noqa: B008
    seed: int = 0,
) -> Iterator[Int[np.ndarray, "B T"]]:
    """Yields `tokens` new tokens after each prompt, in pieces of at most CHUNK.

    `encodings` are set for L + `tokens` tokens (`Encoding.at`). The random key of a draw depends on
    the seed and the token's place alone. ValueError, before the first token, for a model that is
    not causal, a number that is no 32-bit integer or below 1, and more positions than are served.
    """
    B, L = prompt.shape
    check_value(L, Count, "the number of tokens of the prompt")
    check_value(tokens, Count, "tokens")
    check_value(seed, int, "seed")
    if not all(e.dims.causal for e in encodings):
        raise ValueError("only a causal model can be decoded: this one has lm.causal=False")
    total = L + tokens
    encodings = tuple(e.at(total) for e in encodings)
    for e in encodings:
        if (limit := e.limit()) is not None and limit < total:
            raise ValueError(
                f"{type(e).__name__} serves {limit} positions, but {L} tokens of the prompt and "
                f"{tokens} new ones are {total}: ask for at most {max(0, limit - L)} new ones"
            )
    positions_key, tokens_key = jax.random.split(jax.random.key(seed))
    pos = positions(encodings, B, total, _room(total), positions_key)
    decode = functools.partial(_decode, graphdef=graphdef, encodings=encodings, sampling=sampling)

    def stream():
        room = min(_room(total), max(FIRST, _room(L)))
        logits, cache = prefill(
            params, jnp.asarray(prompt), pos, graphdef=graphdef, encodings=encodings, room=room
        )
        for done in range(0, tokens, CHUNK):
            if L + done + CHUNK > cache.room:
                cache = cache.grown(2 * cache.room)
            new, logits, cache = decode(params, logits, cache, tokens_key)
            yield np.asarray(new)[:, : tokens - done]

    return stream()


def positions(
    encodings: tuple[Encoding, ...], batch: int, total: int, room: int, key: Key[Array, ""]
) -> Num[Array, "..."] | None:
    """Positions of sequences of `total` tokens, drawn once, the last repeated up to `room`: [room],
    or [batch, room] where they differ between sequences.

    None where a `positions` hook reads tokens that are not known yet: the model then calls the
    hooks for every new token, without a key.
    """
    if not any(overrides(e, "positions") for e in encodings):
        return jnp.arange(room)
    pos, tokens = jnp.arange(total), jnp.zeros((batch, total), jnp.int32)
    for e in encodings:  # by a trace: do its positions depend on the tokens?
        of_tokens = functools.partial(e.positions, pos=pos, key=key, train=False)
        if jax.eval_shape(functools.partial(shared_positions, of_tokens), tokens) is None:
            return None
    pos = fold_positions(encodings, tokens, pos, key, False)
    return jnp.pad(pos, [(0, 0)] * (pos.ndim - 1) + [(0, room - total)], mode="edge")


# The least power of two that has room for these tokens and for a chunk more.
def _room(tokens: int) -> int:
    return 1 << (tokens + CHUNK - 1).bit_length()


@functools.partial(jax.jit, static_argnames=("graphdef", "encodings", "room"))
def prefill(
    params: Any,
    prompt: Int[Array, "B L"],
    pos: Num[Array, "..."] | None,
    *,
    graphdef: nnx.GraphDef,
    encodings: tuple[Encoding, ...],
    room: int,
) -> tuple[Float[Array, "B V"], Cache]:
    """(logits after the prompt, a cache with room for `room` tokens that holds it). `pos` is the
    result of `positions`, for at least `room` tokens.
    """
    model = nnx.merge(graphdef, params, copy=True)
    cache = Cache.empty(model.config.layers, pos)
    logits, cache = model(prompt, cache, encodings=encodings, last=1)
    return logits[:, -1], cache.grown(room)


# (CHUNK new tokens [B, CHUNK], the logits after them, the cache with them in it).
#
# `logits` [B, V] are those after the last token in the cache.
@functools.partial(
    jax.jit, static_argnames=("graphdef", "encodings", "sampling"), donate_argnames="cache"
)
def _decode(params, logits, cache, key, *, graphdef, encodings, sampling):
    model = nnx.merge(graphdef, params, copy=True)

    def draw_and_decode(carry, _):
        logits, cache = carry
        token = sampling(logits, jax.random.fold_in(key, cache.length))
        logits, cache = model(token[:, None], cache, encodings=encodings)
        return (logits[:, -1], cache), token

    (logits, cache), tokens = jax.lax.scan(draw_and_decode, (logits, cache), length=CHUNK)
    return tokens.T, logits, cache
