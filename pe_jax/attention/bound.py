"""Several encodings taken as one: `fold_positions` for the hook `positions`, which the model calls
before its first layer, and `Bound` for the hooks that attention calls in a layer.

Where several encodings override a hook, terms that are added are summed, factors are multiplied,
and a tensor that is replaced goes from one encoding to the next, in the order of the tuple.

Axes: L sequence, T queries, S keys, N distances, H heads, K head size, D model size, B batch.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, Num

from pe_jax.encoding import RELATIVE, Coords, Encoding, Params, overrides


def fold_positions(
    encodings: tuple[Encoding, ...],
    tokens: Int[Array, "B L"],
    pos: Num[Array, "L"] | Num[Array, "B L"],
    key: Key[Array, "..."] | None,
    train: bool,
) -> Num[Array, "L"] | Num[Array, "B L"]:
    """The positions after every `positions` hook: [L] where the batch shares them, else [B, L].

    `key` is one key, which makes one draw for the whole batch unless an encoding is `per_sequence`;
    or one key for each sequence; or None, where nothing is to be drawn. The place of an encoding in
    the tuple is folded into its key. `pos` is below 0 where there is no token. There every hook
    gets a number below 0, and the result has 0, where every table has a row. TypeError if a hook
    reads the tokens, so that its positions differ between sequences, and its class is not
    `per_sequence`.
    """
    members = [(i, e) for i, e in enumerate(encodings) if overrides(e, "positions")]
    if not members:
        return jnp.maximum(pos, 0)
    if key is not None and key.ndim == 0 and any(e.per_sequence for _, e in members):
        key = jax.random.split(key, tokens.shape[0])

    def fold(tokens, pos, key):
        moved = pos
        for i, e in members:
            draw = None if key is None else jax.random.fold_in(key, i)
            moved = jnp.where(pos < 0, -1, e.positions(tokens, moved, draw, train))
        return jnp.where(pos < 0, 0, moved)

    of_pos = None if pos.ndim == 1 else 0
    of_key = None if key is None or key.ndim == 0 else 0
    if of_pos == 0 or of_key == 0 or any(e.per_sequence for _, e in members):
        return jax.vmap(fold, in_axes=(0, of_pos, of_key))(tokens, pos, key)
    shared = shared_positions(lambda tokens: fold(tokens, pos, key), tokens)
    if shared is None:
        names = ", ".join(type(e).__name__ for _, e in members)
        raise TypeError(
            f"`positions` of one of {names} reads the tokens: set per_sequence = True in its class"
        )
    return shared


def shared_positions(
    of_tokens: Callable[[Int[Array, "L"]], Num[Array, "L"]], tokens: Int[Array, "B L"]
) -> Num[Array, "L"] | None:
    """The positions that a function of the tokens gives to every sequence of a batch; None if they
    depend on the tokens.
    """
    try:
        return jax.vmap(of_tokens, out_axes=None)(tokens)
    except ValueError as error:  # vmap refuses what differs between the sequences
        if "out_axes" not in str(error):
            raise
        return None


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["params", "tables"],
    meta_fields=["encodings", "contiguous", "causal", "below"],
)
@dataclasses.dataclass(frozen=True)
class Bound:
    """The encodings that act in one layer, with the parameters that they have there.

    A pytree whose leaves are the parameters. Its methods are the hooks of the contract, folded over
    the encodings that override them. `coords`, `q_coords` and `k_coords` are what `locate` returns:
    a tuple with one entry for each encoding, whether or not it overrides the hook.
    """

    params: tuple[Params, ...]
    encodings: tuple[Encoding, ...]
    contiguous: bool = True
    """Whether positions are consecutive integers. Then the distance of two tokens follows from
    their places alone, and relative hooks are evaluated once for each distance that occurs.
    """
    causal: bool = True
    below: int | None = None
    """A number that integer positions are below; None: not known."""
    tables: dict[str, Array] | None = None
    """The relative hooks at all distances of such positions (`tabulated`)."""

    def __post_init__(self):
        for hook, deed in (("normalize", "replace the softmax"), ("far", "move far pairs")):
            names = [type(e).__name__ for e in self.encodings if overrides(e, hook)]
            if len(names) > 1:
                raise ValueError(f"only one encoding may {deed}, got {' and '.join(names)}")

    def has(self, hook: str) -> bool:
        """Whether any encoding overrides the hook."""
        return any(overrides(e, hook) for e in self.encodings)

    @property
    def whole_rows(self) -> bool:
        """Whether a query's weights can only be computed with all its keys at hand."""
        return self.has("normalize") or any(e.whole_rows for e in self.encodings)

    @property
    def reach(self) -> tuple[tuple[int, int], ...]:
        """(window, sinks) of every encoding that limits what a query sees; all limits hold."""
        return tuple(r for e in self.encodings if (r := e.reach()) is not None)

    @property
    def span(self) -> int | None:
        """The number of tokens, its own included, that the output of a query depends on: the
        narrowest window. None: all tokens before it.
        """
        windows = [window for window, sinks in self.reach if not sinks]
        if not windows or not self.causal or self.whole_rows or self.has("locate"):
            return None
        return min(windows)

    @property
    def constant_from(self) -> int | None:
        """The distance from which no relative hook of any encoding changes any more.

        None: one of them always changes, none is overridden, or positions are not contiguous, so
        that the distance of two tokens is not known from their places.
        """
        if not self.contiguous:
            return None
        members = [e for e in self.encodings if any(overrides(e, hook) for hook in RELATIVE)]
        ends = [end for e in members if (end := e.constant_from()) is not None]
        return max(ends) if ends and len(ends) == len(members) else None

    # (encoding, its parameters, its entry of each of `coords`) for those with the hook.
    def _members(self, hook: str, *coords: tuple[Coords, ...]):
        for i, (e, params) in enumerate(zip(self.encodings, self.params, strict=True)):
            if overrides(e, hook):
                yield e, params, *(c[i] for c in coords)

    def locate(
        self, x: Float[Array, "L D"], pos, before: tuple | None = None
    ) -> tuple[Coords, ...]:
        """For each encoding what its `locate` makes of x, or else the positions as they are.

        `before` has for each encoding the last row located so far; None: the sequence starts here.
        """
        previous = before or (None,) * len(self.encodings)
        members = zip(self.encodings, self.params, previous, strict=True)
        return tuple(
            e.locate(p, x.astype(jnp.float32), pos, b) if overrides(e, "locate") else pos
            for e, p, b in members
        )

    def scale(self, coords):
        """The product of all `scale` hooks: [T, H], what broadcasts to it, or 1.0."""
        members = self._members("scale", coords)
        return math.prod((e.scale(params, c) for e, params, c in members), start=1.0)

    def qk(self, q, k, q_coords, k_coords):
        """Queries and keys for the dot product alone: every `qk` hook in turn."""
        for e, params, qc, kc in self._members("qk", q_coords, k_coords):
            q, k = e.qk(params, q, k, qc, kc)
        return q, k

    def far(self, q_coords, k_coords) -> Bool[Array, "T S"]:
        """The pairs whose dot product is of `far_qk`, in a model that has the hook."""
        ((e, _, qc, kc),) = self._members("far", q_coords, k_coords)
        return e.far(qc, kc)

    def far_qk(self, q, k, q_coords, k_coords):
        """Queries and keys for the dot product of far pairs: every `qk` hook in turn."""
        for e, params, qc, kc in self._members("qk", q_coords, k_coords):
            q, k = e.qk(params, q, k, *e.far_positions(qc, kc))
        return q, k

    def bias(self, q_coords, k_coords):
        """The sum of all `bias` hooks: [H, T, S], what broadcasts to it, or 0.0."""
        members = self._members("bias", q_coords, k_coords)
        return sum((e.bias(params, qc, kc) for e, params, qc, kc in members), start=0.0)

    def gate(self, q_coords, k_coords):
        """The product of all `gate` hooks: [H, T, S], what broadcasts to it, or 1.0."""
        members = self._members("gate", q_coords, k_coords)
        return math.prod((e.gate(params, qc, kc) for e, params, qc, kc in members), start=1.0)

    def logits(self, logits, q, k, q_coords, k_coords, hide: Callable):
        """Every `logits` hook in turn; `hide` puts HIDDEN at masked pairs after each of them."""
        for e, params, qc, kc in self._members("logits", q_coords, k_coords):
            logits = hide(e.logits(params, logits, q, k, qc, kc))
        return logits

    def normalize(self, logits):
        """Weights from logits: by the softmax over keys, or by the encoding that replaces it."""
        for e, params in self._members("normalize"):
            return e.normalize(params, logits)
        return jax.nn.softmax(logits, axis=-1)

    def tabulated(self, queries: int, keys: int) -> Bound:
        """Itself, with the relative hooks evaluated at every distance that can occur, where there
        are many fewer of these than pairs: they are then looked up pair by pair.
        """
        distances = 2 * (self.below or 0) + 1
        if self.contiguous or self.below is None or 8 * distances > queries * keys:
            return self
        n = jnp.arange(-self.below, self.below + 1)
        values = {hook: self.relative(hook, n) for hook in RELATIVE if self.has(hook)}
        tables = {
            hook: jnp.moveaxis(value, 1, 0) for hook, value in values.items() if jnp.ndim(value)
        }
        return dataclasses.replace(self, tables=tables)

    def relative(self, hook: str, n: Num[Array, "N"]):
        """A `relative_*` hook at the distances n, [H, N] or [H, N, K] as the contract says: the
        product over the encodings for `relative_gate`, the sum for the others. A number where no
        encoding gives an array.

        In a causal model only hidden pairs have negative distances. The hooks get 0 in their place,
        since one with a logarithm may not be finite below 0.
        """
        table = (self.tables or {}).get(hook)
        if table is not None and self.below and jnp.issubdtype(n.dtype, jnp.integer):
            found = table.at[n + self.below].get(mode="fill", fill_value=jnp.nan)
            return jnp.moveaxis(found, 0, 1)
        n = jnp.maximum(n, 0) if self.causal else n
        terms = [getattr(e, hook)(params, n) for e, params in self._members(hook)]
        return math.prod(terms) if hook == "relative_gate" else sum(terms)
