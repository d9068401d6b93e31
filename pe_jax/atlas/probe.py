"""Attention evaluated with the encodings of a subject and without them.

What an encoding does is measured, not read from its class: the logits and weights of every pair of
tokens are computed by the functions of dense attention, for fixed queries and keys.

Content, of which there are two kinds. Constant: every token has the same vector, whose components
are +1 and -1, as its input, its query and its key. Each logit is then sqrt(K) without an encoding,
all weights of a query are equal, and whatever differs between pairs comes from positions. Random:
inputs, queries and keys are normal and independent. What `embed` adds to the input is added to
queries and keys, head by head, as if their projections were the identity.

Axes: T tokens, H heads, K head size, D model size, C contents.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num

from pe_jax.atlas.subject import Subject
from pe_jax.attention.bound import Bound, fold_positions
from pe_jax.attention.dense import gated, masked_logits, prepare
from pe_jax.attention.relative import relative_terms
from pe_jax.attention.rows import Rows, visible
from pe_jax.encoding import Encoding, Params, overrides

SMALL = 1e-4
"""Logits of the order of 1 to 10 that differ by less are equal: they are sums in float32."""

LEAST = 1e-30
"""Factors of weights that are smaller, 0 among them, are shown as this one."""

LOGIT, WEIGHT = "added to the logit", "ln of the weight's factor"
"""The quantities that `Probed.effect` may be."""


class Content(NamedTuple):
    """What the tokens of a sequence hold, besides their positions."""

    x: Float[np.ndarray, "T D"]
    q: Float[np.ndarray, "T H K"]
    k: Float[np.ndarray, "T H K"]


@dataclasses.dataclass(frozen=True, eq=False)
class Probed:
    """What one content shows, for every query and key: NaN where the query does not see the key."""

    added: Float[np.ndarray, "H T T"]
    """The logits with the encodings less those without."""
    factor: Float[np.ndarray, "H T T"]
    """The weights with the encodings divided by those without."""
    weights: Float[np.ndarray, "H T T"]
    """The weights with the encodings, after gates; 0 where a query does not see a key."""

    @property
    def unit(self) -> str:
        """LOGIT; where nothing is added to the logits, but weights change, WEIGHT."""
        return LOGIT if self.on_logits or not self.on_weights else WEIGHT

    @property
    def effect(self) -> Float[np.ndarray, "H T T"]:
        """The quantity of `unit`: `added`, or the logarithm of `factor`."""
        if self.unit == LOGIT:
            return self.added
        return np.log(np.maximum(np.abs(self.factor), LEAST))

    @property
    def on_logits(self) -> bool:
        """Whether anything is added to the logits."""
        return _largest(self.added) > SMALL

    @property
    def on_weights(self) -> bool:
        """Whether any weight is changed."""
        return _largest(self.factor - 1) > SMALL

    @property
    def acts(self) -> bool:
        """Whether logits or weights differ from those without the encodings."""
        return self.on_logits or self.on_weights


def contents(subject: Subject, length: int) -> tuple[Content, Content, Content]:
    """Constant content; random content; the same random content but for the token `changed`."""
    (D, H, K), rng = subject.dims[:3], np.random.default_rng(0)
    signs = rng.choice([-1.0, 1.0], D).astype(np.float32)
    heads = np.resize(signs, (H, K))
    same = Content(*(np.broadcast_to(a, (length, *a.shape)) for a in (signs, heads, heads)))
    sizes = ((length, D), (length, H, K), (length, H, K))
    drawn = Content(*(rng.normal(size=size).astype(np.float32) for size in sizes))
    other = Content(*(a.copy() for a in drawn))
    for array in other:
        array[changed(length)] = rng.normal(size=array.shape[1:])
    return same, drawn, other


def changed(length: int) -> int:
    """The token whose content differs between the two random contents."""
    return length // 3


def positions(
    subject: Subject, length: int, seed: int = 0, train: bool = False
) -> Num[np.ndarray, "T"]:
    """The positions of a sequence, after every `positions` hook; tokens are random."""
    vocab, rng = subject.dims.vocab, np.random.default_rng(0)
    tokens = jnp.asarray(rng.integers(0, min(vocab, 13), length), jnp.int32)  # addition has 13
    places = jnp.arange(length, dtype=jnp.int32)
    moved = fold_positions(
        subject.encodings, tokens[None], places, jax.random.key(seed), train=train
    )
    return np.asarray(moved.reshape(length))


def probe(
    subject: Subject,
    length: int,
    given: Sequence[Content],
    params: tuple[Params, ...],
    places: Int[np.ndarray, "T"] | None = None,
) -> list[Probed]:
    """What each content of a text of `length` tokens shows, with these parameters. `places`: of a
    longer text the tokens at these places alone, whose positions no encoding moves.
    """
    made = tuple(e.at(length) for e in subject.encodings)
    stacked = Content(*(np.stack(parts) for parts in zip(*given, strict=True)))
    pos = jnp.asarray(positions(subject, length) if places is None else places)
    plain = (Encoding(subject.dims),)
    logits, weights = map(np.asarray, _attention(made, params, stacked, pos))
    bare, even = map(np.asarray, _attention(plain, ({},), stacked, pos))
    hidden = np.isneginf(logits) | np.isneginf(bare)
    with np.errstate(invalid="ignore"):
        added = np.where(hidden, np.nan, logits - bare)
        factor = np.where(hidden, np.nan, weights / np.where(even == 0, np.nan, even))
    return [Probed(*arrays) for arrays in zip(added, factor, weights, strict=True)]


@functools.partial(jax.jit, static_argnames="encodings")
def _attention(encodings: tuple[Encoding, ...], params: tuple[Params, ...], content: Content, pos):
    """(logits, weights after gates) of each content, [C, H, T, T]. -inf: the key is hidden."""
    moving = any(overrides(e, "positions") for e in encodings)
    pe = Bound(params, encodings, contiguous=not moving, causal=encodings[0].dims.causal)

    def of(x, q, k):
        h = embedded(encodings, params, x, pos)
        every = jnp.arange(q[0].size) % x.shape[-1]
        more = (h - x)[:, every].reshape(q.shape)
        rows = Rows(jnp.arange(len(x)), pos, pe.locate(h, pos))
        queries, keys = prepare(pe, q + more, k + more, k, rows, rows)
        terms = relative_terms(pe, pos, pos)
        seen = visible(pe, rows.idx, rows.idx)[None]
        s = masked_logits(pe, queries.heads_first(), keys.heads_first(), terms, seen)
        w = gated(pe, jnp.where(seen, pe.normalize(s), 0.0), queries, keys, terms)
        return jnp.where(seen, s, -jnp.inf), w

    return jax.vmap(of)(*content)


def embedded(
    encodings: tuple[Encoding, ...],
    params: tuple[Params, ...],
    x: Float[Array, "T D"],
    pos: Num[Array, "T"],
    tokens: Int[Array, "T"] | None = None,
) -> Float[Array, "T D"]:
    """x after every `embed` hook."""
    tokens = jnp.zeros(len(x), jnp.int32) if tokens is None else tokens
    for e, own in zip(encodings, params, strict=True):
        if overrides(e, "embed"):
            x = e.embed(own, x, tokens, pos)
    return x


def vectors(subject: Subject, length: int) -> Float[np.ndarray, "T D"] | None:
    """What `embed` adds to each token of constant content: the vectors of the positions, each
    component times +1 or -1. None where no member overrides the hook, or where it adds nothing.
    """
    if not any(overrides(e, "embed") for e in subject.encodings):
        return None
    x = jnp.asarray(contents(subject, length)[0].x)
    made = tuple(e.at(length) for e in subject.encodings)
    moved = jax.jit(functools.partial(embedded, made))
    out = np.asarray(moved(subject.params, x, jnp.asarray(positions(subject, length))) - x)
    return out if _largest(out) > 0 else None


def _largest(array: np.ndarray) -> float:
    """The largest finite absolute value; 0 without any."""
    return float(np.max(np.abs(array), initial=0, where=np.isfinite(array)))
