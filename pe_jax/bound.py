"""A tuple of encodings as one: their parameters drawn, their positions folded, their hooks in turn.

Axes: L sequence, T queries, S keys, N distances, H heads, K head size, D model size, B batch.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, Num

from pe_jax.encoding import RELATIVE, Coords, Encoding, Params, acts_once, overrides
from pe_jax.layers import layers_of


def init_params(encoding: Encoding, key: Key[Array, ""]) -> tuple[Params, dict[int, Params]]:
    """(entries that exist once, {layer: entries that it owns}) for the layers in which it acts."""
    shared = encoding.init(key)
    owned = set(shared) if encoding.per_layer == ("*",) else set(encoding.per_layer)
    if unknown := sorted(owned - set(shared)):
        raise ValueError(
            f"{type(encoding).__name__}.per_layer names {', '.join(unknown)}; "
            f"its parameters are {', '.join(shared) or 'none'}"
        )
    if owned and acts_once(encoding) and overrides(encoding, "embed"):
        raise ValueError(
            f"{type(encoding).__name__} acts once, on the model's input, so no layer can own "
            f"{', '.join(sorted(owned))}; give it where='layers' to act on the input of every layer"
        )
    layers = sorted(layers_of(encoding)) if owned else []
    draws = {layer: encoding.init(jax.random.fold_in(key, layer + 1)) for layer in layers}
    return (
        {name: value for name, value in shared.items() if name not in owned},
        {layer: {name: draw[name] for name in sorted(owned)} for layer, draw in draws.items()},
    )


def fold_positions(
    encodings: tuple[Encoding, ...],
    tokens: Int[Array, "B L"],
    pos: Num[Array, "L"],
    key: Key[Array, "..."] | None,
    train: bool,
) -> Num[Array, "L"] | Num[Array, "B L"]:
    """Every `positions` hook in turn. [L] where the batch shares them, else [B, L].

    `key` is one key (each member folds in its place; drawn once for the batch unless a member is
    `per_sequence`) or a key for each sequence.
    """
    members = [(i, e) for i, e in enumerate(encodings) if overrides(e, "positions")]
    if not members:
        return pos
    batch = tokens.shape[0]
    each = any(e.per_sequence for _, e in members) or (key is not None and key.ndim == 1)
    if key is not None and key.ndim == 0 and each:
        key = jax.random.split(key, batch)

    def fold(tokens, key):
        out = pos
        for i, e in members:
            out = e.positions(
                tokens, out, None if key is None else jax.random.fold_in(key, i), train
            )
        return out

    if each:
        return jax.vmap(fold, in_axes=(0, None if key is None else 0))(tokens, key)
    try:
        return jax.vmap(fold, in_axes=(0, None), out_axes=None)(tokens, key)
    except ValueError as error:
        if "out_axes" not in str(error):
            raise
        names = ", ".join(type(e).__name__ for _, e in members)
        raise TypeError(
            f"`positions` of one of {names} reads the tokens: set per_sequence = True in its class"
        ) from error


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["params"],
    meta_fields=["encodings", "contiguous", "causal"],
)
@dataclasses.dataclass(frozen=True)
class Bound:
    """Encodings with the parameters that one layer sees: all that attention knows of positions.

    `coords` arguments hold one located pytree for each encoding.
    """

    params: tuple[Params, ...]
    encodings: tuple[Encoding, ...]
    contiguous: bool = True
    """Positions are consecutive integers: relative hooks are evaluated once and shifted into
    place.
    """
    causal: bool = True

    def __post_init__(self):
        replaced = [type(e).__name__ for e in self.encodings if overrides(e, "normalize")]
        if len(replaced) > 1:
            raise ValueError(
                f"only one encoding may replace the softmax, got {' and '.join(replaced)}"
            )

    def has(self, hook: str) -> bool:
        return any(overrides(e, hook) for e in self.encodings)

    @property
    def whole_rows(self) -> bool:
        return self.has("normalize") or any(e.whole_rows for e in self.encodings)

    @property
    def reach(self) -> tuple[tuple[int, int], ...]:
        return tuple(r for e in self.encodings if (r := e.reach()) is not None)

    @property
    def constant_from(self) -> int | None:
        """The distance from which the relative hooks together are constant. None: never, or they
        are asked pair by pair.
        """
        if not self.contiguous:
            return None
        members = [e for e in self.encodings if any(overrides(e, hook) for hook in RELATIVE)]
        found = [e.constant_from() for e in members]
        known = [n for n in found if n is not None]
        return max(known) if known and len(known) == len(found) else None

    def _members(self, hook: str, *coords: tuple[Coords, ...]):
        for i, (e, params) in enumerate(zip(self.encodings, self.params, strict=True)):
            if overrides(e, hook):
                yield e, params, *(c[i] for c in coords)

    def locate(
        self, x: Float[Array, "L D"], pos, before: tuple | None = None
    ) -> tuple[Coords, ...]:
        """One located pytree for each encoding."""
        previous = before or (None,) * len(self.encodings)
        members = zip(self.encodings, self.params, previous, strict=True)
        return tuple(
            e.locate(p, x.astype(jnp.float32), pos, b) if overrides(e, "locate") else pos
            for e, p, b in members
        )

    def scale(self, coords):
        out = 1.0
        for e, params, c in self._members("scale", coords):
            out = out * e.scale(params, c)
        return out

    def qk(self, q, k, q_coords, k_coords):
        for e, params, qc, kc in self._members("qk", q_coords, k_coords):
            q, k = e.qk(params, q, k, qc, kc)
        return q, k

    def bias(self, q_coords, k_coords):
        out = 0.0
        for e, params, qc, kc in self._members("bias", q_coords, k_coords):
            out = out + e.bias(params, qc, kc)
        return out

    def gate(self, q_coords, k_coords):
        out = 1.0
        for e, params, qc, kc in self._members("gate", q_coords, k_coords):
            out = out * e.gate(params, qc, kc)
        return out

    def logits(self, logits, q, k, q_coords, k_coords, hide: Callable):
        """Every `logits` hook in turn, `hide` applied after each."""
        for e, params, qc, kc in self._members("logits", q_coords, k_coords):
            logits = hide(e.logits(params, logits, q, k, qc, kc))
        return logits

    def normalize(self, logits):
        for e, params in self._members("normalize"):
            return e.normalize(params, logits)
        return jax.nn.softmax(logits, axis=-1)

    def relative(self, hook: str, n: Num[Array, "N"]):
        """The sum of a `relative_*` hook over its members at distances n, for a gate the product;
        causal: those below 0 as 0.

        A hidden pair of a causal model has a negative distance, at which a logarithm may not be
        finite.
        """
        n = jnp.maximum(n, 0) if self.causal else n
        terms = [getattr(e, hook)(params, n) for e, params in self._members(hook)]
        return math.prod(terms) if hook == "relative_gate" else sum(terms)
