"""Attention with the encodings of a layer and without them, for each pair and against distance.

What an encoding does is measured, not read from its class: the logits and weights of every pair of
tokens are computed by the functions of dense attention, for fixed queries and keys.

There are two kinds of content. Constant: every token has the same vector, whose components are +1
and -1, as its input, its query and its key. Each logit is then sqrt(K) without an encoding, all
weights of a query are equal, and whatever differs between pairs comes from positions. Random:
inputs, queries and keys are normal and independent. What `embed` adds to the input is added to
queries and keys, head by head, as if their projections were the identity.

Axes: T tokens, H heads, K head size, D model size, C contents, P pairs of components.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, Num

from pe_jax.atlas.layer import Layer
from pe_jax.attention.bound import Bound, fold_positions
from pe_jax.attention.dense import gated, masked_logits, prepare
from pe_jax.attention.relative import relative_terms
from pe_jax.attention.rows import Rows, visible
from pe_jax.encoding import Encoding, Params, overrides
from pe_jax.encodings.rotary import Rotary

SMALL = 1e-4
"""Logits of the order of 1 to 10 that differ by less are equal: they are sums in float32."""

LEAST = 1e-30
"""Factors of weights that are smaller, 0 among them, are shown as this one."""

SHARE = 0.9
"""The share of a query's attention that its effective window holds."""

CHANGING = "far", "locate", "init"
"""Hooks by which a rotation differs between pairs of tokens, or in what it learns or draws."""

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


def contents(layer: Layer, length: int) -> tuple[Content, Content, Content]:
    """Constant content; random content; the same random content but for the token `changed`."""
    (D, H, K), rng = layer.dims[:3], np.random.default_rng(0)
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
    layer: Layer, length: int, seed: int = 0, train: bool = False
) -> Num[np.ndarray, "T"]:
    """The positions of a sequence, after every `positions` hook; tokens are random."""
    vocab, rng = layer.dims.vocab, np.random.default_rng(0)
    tokens = jnp.asarray(rng.integers(0, min(vocab, 13), length), jnp.int32)  # addition has 13
    places = jnp.arange(length, dtype=jnp.int32)
    moved = fold_positions(layer.encodings, tokens[None], places, jax.random.key(seed), train=train)
    return np.asarray(moved.reshape(length))


def probe(
    layer: Layer,
    length: int,
    given: Sequence[Content],
    params: tuple[Params, ...],
    places: Int[np.ndarray, "T"] | None = None,
) -> list[Probed]:
    """What each content of a text of `length` tokens shows, with these parameters. `places`: of a
    longer text the tokens at these places alone, whose positions no encoding moves.
    """
    made = tuple(e.at(length) for e in layer.encodings)
    stacked = Content(*(np.stack(parts) for parts in zip(*given, strict=True)))
    pos = jnp.asarray(positions(layer, length) if places is None else places)
    plain = (Encoding(layer.dims),)
    logits, weights = map(np.asarray, attention(made, params, stacked, pos))
    bare, even = map(np.asarray, attention(plain, ({},), stacked, pos))
    hidden = np.isneginf(logits) | np.isneginf(bare)
    with np.errstate(invalid="ignore"):
        added = np.where(hidden, np.nan, logits - bare)
        factor = np.where(hidden, np.nan, weights / np.where(even == 0, np.nan, even))
    return [Probed(*arrays) for arrays in zip(added, factor, weights, strict=True)]


@functools.partial(jax.jit, static_argnames="encodings")
def attention(encodings: tuple[Encoding, ...], params: tuple[Params, ...], content: Content, pos):
    """(logits, weights after gates) of each content, [C, H, T, T]. -inf: the key is hidden."""
    moving = any(overrides(e, "positions") for e in encodings)
    pe = Bound(params, encodings, contiguous=not moving, causal=encodings[0].dims.causal)

    def of(x, q, k):
        h = x
        for e, own in zip(encodings, params, strict=True):
            if overrides(e, "embed"):
                h = e.embed(own, h, jnp.zeros(len(x), jnp.int32), pos)
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


# The largest finite absolute value; 0 without any.
def _largest(array: np.ndarray) -> float:
    return float(np.max(np.abs(array), initial=0, where=np.isfinite(array)))


# Numbers against the distance of a key from its query


class Means(NamedTuple):
    """A quantity of pairs against their distance, 0 .. T - 1, later keys left out."""

    mean: Float[np.ndarray, "H T"]
    """Over all pairs of that distance that are seen; NaN where there is none."""
    low: Float[np.ndarray, "H T"]
    high: Float[np.ndarray, "H T"]

    @property
    def of_distance(self) -> bool:
        """Whether pairs of one distance have one value."""
        scale = max(1.0, float(np.nanmax(np.abs(self.mean), initial=0)))
        return bool(np.nanmax(self.high - self.low, initial=0) < 1e-3 * scale)


def means(pairs: Float[np.ndarray, "H T T"]) -> Means:
    """The mean, lowest and highest value of the pairs of each distance."""
    H, T, _ = pairs.shape
    out = np.full((3, H, T), np.nan)
    for distance in range(T):
        values = np.diagonal(pairs, -distance, axis1=1, axis2=2)
        for head, row in enumerate(values):
            finite = row[np.isfinite(row)]
            if finite.size:
                out[:, head, distance] = finite.mean(), finite.min(), finite.max()
    return Means(*out)


def decaying(mean: Float[np.ndarray, "H T"]) -> Bool[np.ndarray, "H"]:
    """Which heads have a value that falls with the distance, and nowhere rises."""
    rows = [row[np.isfinite(row)] for row in mean]
    slack = [1e-5 * max(1.0, float(np.abs(row).max(initial=0))) for row in rows]
    return np.array(
        [
            bool(len(row) > 1 and (np.diff(row) <= s).all() and row[0] - row[-1] > 10 * s)
            for row, s in zip(rows, slack, strict=True)
        ]
    )


def window(weights: Float[np.ndarray, "H T T"]) -> Int[np.ndarray, "H T"]:
    """The effective window of each query: the fewest keys, counted from its own outwards, that hold
    SHARE of the absolute weights it gives.
    """
    w = np.abs(np.nan_to_num(weights))
    out = np.zeros(w.shape[:2], int)
    for query in range(w.shape[1]):
        apart = np.abs(np.arange(w.shape[2]) - query)
        total = np.cumsum([np.bincount(apart, row) for row in w[:, query]], axis=1)
        out[:, query] = 1 + (total < SHARE * total[:, -1:] - 1e-6).sum(axis=1)
    return out


def nearness(weights: Float[np.ndarray, "H T T"]) -> Float[np.ndarray, "H T"]:
    """The share of the last query's absolute weights that lies within each distance."""
    w = np.abs(np.nan_to_num(weights[:, -1, ::-1]))
    total = np.cumsum(w, axis=1)
    return total / np.maximum(total[:, -1:], 1e-30)


def rotations(layer: Layer, length: int) -> Float[np.ndarray, "P"] | None:
    """The angle by which each pair of components of the first head is turned from one position to
    the next, in radians, evaluated at sequences of `length` tokens. None without a rotation at a
    constant speed, in pairs of components and for all pairs of tokens alike.
    """
    for e, params in zip(layer.encodings, layer.params, strict=True):
        made = e.at(length)
        if isinstance(made, Rotary) and not any(overrides(e, hook) for hook in CHANGING):
            once, twice = np.asarray(made._angles(params, jnp.array([1, 2])))
            once, twice = (np.atleast_2d(angle)[0] for angle in (once, twice))
            even = 0 < once.size <= e.dims.head // 2 and np.allclose(twice, 2 * once, atol=1e-3)
            return once[once > 0] if even else None
    return None
