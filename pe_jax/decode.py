"""Decoding, token by token, from a cache; and how the next token is chosen.

The cache has room for a power of two of tokens and doubles when it is full, so a program is
compiled for each power of two, and none for a token. `CHUNK` tokens are decoded in one call, its
cache given away, since a call costs as much as a small model's token. Positions are those of the
whole: random ones are drawn once for the prompt and all that follows. Axes: B batch, L prompt, T
new tokens, S room of the cache, V vocab.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Int, Key, Num

from pe_jax.bound import fold_positions
from pe_jax.encoding import Encoding, overrides
from pe_jax.past import Kept, Past

CHUNK = 16  # tokens decoded in one call
FIRST = 4096  # room to begin with, if so much is needed: growing costs a program's compilation


class Cache(NamedTuple):
    """What decoding goes on from."""

    kept: Kept
    """Arrays [..., S] of every site of the model."""
    length: Int[Array, ""]
    """How many tokens are in it."""
    pos: Num[Array, "..."] | None
    """Positions of these and of all that may follow, [P] or [B, P]; None: tokens make them."""

    @property
    def room(self) -> int:
        """S, how many tokens it can hold."""
        return self.kept["tokens"].shape[-1]

    def grown(self, room: int) -> Cache:
        """The same with room for `room` tokens: a copy."""

        def pad(a):
            return jnp.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, room - a.shape[-1])])

        return self._replace(kept=jax.tree.map(pad, self.kept))


@functools.partial(jax.jit, static_argnames=("graphdef", "encodings", "room"))
def prefill(
    params: Any,
    prompt: Int[Array, "B L"],
    pos: Num[Array, "..."] | None,
    *,
    graphdef: nnx.GraphDef,
    encodings: tuple[Encoding, ...],
    room: int,
) -> tuple[Cache, Float[Array, "B V"]]:
    """A cache with room for `room` tokens that holds the prompt, and the logits of what follows.

    `pos` are those of the prompt and of at least as much as `room`, from `positions`.
    """
    model = nnx.merge(graphdef, params, copy=True)
    if not model.config.causal:
        raise ValueError("only a causal model can be decoded: this one has lm.causal=False")
    L = prompt.shape[1]
    past = Past(None, 0, L)
    here = None if pos is None else pos[..., :L]
    logits = model(prompt, encodings=encodings, last=1, pos=here, past=past)
    return Cache(past.now, jnp.int32(L), pos).grown(room), logits[:, -1]


def extend(
    model, encodings: tuple[Encoding, ...], cache: Cache, tokens: Int[Array, "B T"]
) -> tuple[Cache, Float[Array, "B T V"]]:
    """The cache with these tokens in it, and their logits. There must be room for them."""
    past = Past(cache.kept, cache.length, tokens.shape[1])
    pos = None if cache.pos is None else cache.pos[..., : cache.room]
    logits = model(tokens, encodings=encodings, pos=pos, past=past)
    return Cache(past.now, cache.length + tokens.shape[1], cache.pos), logits


@functools.partial(jax.jit, static_argnames=("graphdef", "encodings"), donate_argnames="cache")
def step(
    params: Any,
    cache: Cache,
    tokens: Int[Array, "B T"],
    *,
    graphdef: nnx.GraphDef,
    encodings: tuple[Encoding, ...],
) -> tuple[Cache, Float[Array, "B T V"]]:
    """`extend` of a split model, as one program; the cache's buffers are given away."""
    return extend(nnx.merge(graphdef, params, copy=True), encodings, cache, tokens)


@dataclasses.dataclass(frozen=True)
class Sampling:
    """How a token is drawn: from softmax(logits / temperature), of the `top_k` likeliest, of the
    fewest likeliest of these whose probabilities sum to at least `top_p`.
    """

    temperature: float = 1.0
    """0: the likeliest token, always."""
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self):
        if not self.temperature >= 0:
            raise ValueError(f"temperature must be at least 0 (greedy), got {self.temperature}")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k must be at least 1, got {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be in (0, 1], got {self.top_p}")

    def __call__(self, logits: Float[Array, "B V"], key: Key[Array, ""]) -> Int[Array, "B"]:
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


@functools.partial(
    jax.jit, static_argnames=("graphdef", "encodings", "sampling"), donate_argnames="cache"
)
def _chunk(params, cache, logits, key, *, graphdef, encodings, sampling):
    """(cache, logits, tokens [B, CHUNK]): each token drawn, then decoded."""
    model = nnx.merge(graphdef, params, copy=True)

    def one(carry, _):
        cache, logits = carry
        token = sampling(logits, jax.random.fold_in(key, cache.length))
        cache, logits = extend(model, encodings, cache, token[:, None])
        return (cache, logits[:, -1]), token

    (cache, logits), tokens = jax.lax.scan(one, (cache, logits), length=CHUNK)
    return cache, logits, tokens.T


def generate(
    graphdef: nnx.GraphDef,
    params: Any,
    encodings: tuple[Encoding, ...],
    prompt: Int[np.ndarray, "B L"],
    tokens: int,
    sampling: Sampling = Sampling(),  # noqa: B008
    seed: int = 0,
) -> Iterator[Int[np.ndarray, "B T"]]:
    """`tokens` new tokens after each prompt, in pieces of at most CHUNK, as they come.

    The encodings are those for sequences of L + tokens. A token is a function of the seed and its
    place. ValueError where an encoding cannot serve as many positions.
    """
    B, L = prompt.shape
    if L < 1 or tokens < 1:
        raise ValueError(
            f"the prompt and the new tokens must be at least one each, got {L} and {tokens}"
        )
    total = L + tokens
    encodings = tuple(e.at(total) for e in encodings)
    for e in encodings:
        limit = e.limit()
        if limit is not None and limit < total:
            raise ValueError(
                f"{type(e).__name__} serves {limit} positions, but {L} tokens of the prompt and "
                f"{tokens} new ones are {total}: ask for at most {max(0, limit - L)} new ones"
            )
    draw, choose = jax.random.split(jax.random.key(seed))
    pos = positions(encodings, B, total, _room(total), draw)
    program = functools.partial(_chunk, graphdef=graphdef, encodings=encodings, sampling=sampling)

    def stream():
        room = min(_room(total), max(FIRST, _room(L)))
        cache, logits = prefill(
            params, jnp.asarray(prompt), pos, graphdef=graphdef, encodings=encodings, room=room
        )
        for done in range(0, tokens, CHUNK):
            if L + done + CHUNK > cache.room:
                cache = cache.grown(2 * cache.room)
            cache, logits, new = program(params, cache, logits, choose)
            yield np.asarray(new)[:, : tokens - done]

    return stream()


def positions(
    encodings: tuple[Encoding, ...], batch: int, total: int, room: int, key: Key[Array, ""]
) -> Num[Array, "..."] | None:
    """Those of sequences of `total` tokens, one draw for all of them, lengthened to `room`.

    None where a `positions` hook reads the tokens: they are not known yet, so the hook is asked
    again for every token, without a key.
    """
    if not any(overrides(e, "positions") for e in encodings):
        return jnp.arange(room)
    if any(_reads_tokens(e, total, key) for e in encodings):
        return None
    tokens = jnp.zeros((batch, total), jnp.int32)
    pos = fold_positions(encodings, tokens, jnp.arange(total), key, False)
    return jnp.pad(pos, [(0, 0)] * (pos.ndim - 1) + [(0, room - total)], mode="edge")


def _reads_tokens(e: Encoding, total: int, key) -> bool:
    """Whether its positions depend on the tokens: found out by tracing."""
    pos, tokens = jnp.arange(total), jnp.zeros((1, total), jnp.int32)
    try:
        jax.eval_shape(
            jax.vmap(lambda tokens: e.positions(tokens, pos, key, False), out_axes=None), tokens
        )
    except ValueError as error:
        if "out_axes" not in str(error):
            raise
        return True
    return False


def _room(tokens: int) -> int:
    """The least power of two with place for these tokens and a chunk."""
    return 1 << (tokens + CHUNK - 1).bit_length()
