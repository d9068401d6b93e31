"""Numbers against the distance of a key from its query, from what was probed of pairs of tokens.

Axes: H heads, T tokens, N distances, P pairs of components.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from pe_jax.atlas.subject import Subject
from pe_jax.encoding import RELATIVE, Encoding, Params, overrides
from pe_jax.encodings.rotary import Rotary

SHARE = 0.9
"""The share of a query's attention that its effective window holds."""


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


def classes(subject: Subject, length: int) -> Int[np.ndarray, "N"] | None:
    """The class of each distance 0 .. length - 1: distances of one class are told apart by no
    `relative_*` hook, whatever the parameters. Counted in the order of distance; T5 calls them
    buckets. None where no member has such hooks, or where all distances differ.
    """
    n = jnp.arange(length)
    rows = [
        np.moveaxis(np.asarray(values), 1, 0).reshape(length, -1)
        for e, params in zip(subject.encodings, subject.noisy(), strict=True)
        for hook in RELATIVE
        if overrides(e, hook) and jnp.ndim(values := getattr(e.at(length), hook)(params, n))
    ]
    if not rows:
        return None
    _, first, found = np.unique(
        np.concatenate(rows, axis=1), axis=0, return_index=True, return_inverse=True
    )
    if len(first) == length:
        return None
    rank = np.argsort(np.argsort(first))
    return rank[found.reshape(-1)]


def rotations(subject: Subject, length: int) -> Float[np.ndarray, "P"] | None:
    """The angle by which each pair of components is turned from one position to the next, in
    radians, evaluated at sequences of `length` tokens. None without a member that turns every
    vector at a constant speed in pairs of components, whatever the tokens hold, and does nothing
    else to the logits.
    """
    for e, params in zip(subject.encodings, subject.params, strict=True):
        if isinstance(e, Rotary) and not (overrides(e, "far") or overrides(e, "locate")):
            made = e.at(length)
            once, twice = _turned(made, params, 1), _turned(made, params, 2)
            if once is None or twice is None or len(once) != len(twice):
                return None
            even = np.allclose(np.cos(2 * once), np.cos(twice), atol=1e-3)
            return once if even and once.size else None
    return None


def _turned(e: Encoding, params: Params, position: int) -> Float[np.ndarray, "P"] | None:
    """The angles by which unit vectors are turned at a position, one for each pair of components
    that is turned; None where a vector does not stay in the plane of two components.
    """
    K, H = e.dims.head, e.dims.heads
    unit = jnp.broadcast_to(jnp.eye(K)[:, None], (K, H, K))
    places = jnp.full(K, position, jnp.int32)
    after = np.asarray(e.qk(params, unit, unit, places, places)[0])[:, 0]
    if after.shape[-1] != K:
        return None
    beside = np.abs(after - np.diag(np.diag(after)))
    if ((beside > 1e-9).sum(axis=1) > 1).any():
        return None
    angle = np.arctan2(beside.max(axis=1), np.diag(after))
    return angle[(angle > 0) & (beside.argmax(axis=1) > np.arange(K))]
