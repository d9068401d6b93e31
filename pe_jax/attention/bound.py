"""Composition of encodings: `fold_positions` for the hook `positions`, before the first layer, and
`Bound` for the hooks of attention in a layer.

Added terms are summed, factors are multiplied, and transforms act in the order of the tuple.

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

from pe_jax.encoding import RELATIVE, Coords, Encoding, Params, mixes, overrides
from pe_jax.specs.parse import check_layer


def fold_positions(
    encodings: tuple[Encoding, ...],
    tokens: Int[Array, "B L"],
    pos: Num[Array, "L"] | Num[Array, "B L"],
    key: Key[Array, "..."] | None,
    train: bool,
) -> Num[Array, "L"] | Num[Array, "B L"]:
    """Positions after every `positions` hook: [L] where the batch shares them, else [B, L].

    Args:
        pos: below 0 where there is no token: there every hook gets a number below 0, and the result
            is 0, which every table has a row for.
        key: one key (one draw for the batch, unless an encoding is `per_sequence`), one key for
            each sequence, or None, if nothing is drawn. An encoding's place is folded into its key.

    TypeError if a hook reads the tokens and its class is not `per_sequence`.
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
    """Positions that do not depend on the tokens; None if they do."""
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
    """The encodings of a layer with their parameters: a pytree whose leaves are the parameters.

    Its methods are the hooks of the contract, composed. `coords`, `q_coords` and `k_coords` are the
    result of `locate`, a tuple with an entry for each encoding.
    """

    params: tuple[Params, ...]
    encodings: tuple[Encoding, ...]
    contiguous: bool = True
    """Whether positions are consecutive integers, so that distances follow from places alone."""
    causal: bool = True
    below: int | None = None
    """An upper bound of integer positions, exclusive; None: not known."""
    tables: dict[str, Array] | None = None
    """The relative hooks at all distances of such positions (`tabulated`)."""

    def __post_init__(self):
        check_layer(self.encodings)

    def has(self, hook: str) -> bool:
        """Whether any encoding overrides the hook."""
        return any(overrides(e, hook) for e in self.encodings)

    @property
    def whole_rows(self) -> bool:
        """Whether the weights of a query need all its keys at once."""
        return self.has("normalize") or any(e.whole_rows for e in self.encodings)

    @property
    def reach(self) -> tuple[tuple[int, int], ...]:
        """(window, sinks) of every encoding with a limit; all limits hold."""
        return tuple(r for e in self.encodings if (r := e.reach()) is not None)

    @property
    def span(self) -> int | None:
        """The tokens, its own included, on which the output of a query depends: the narrowest
        window, and the keys before it that `qk` reads. None: all tokens before it.
        """
        windows = [window for window, sinks in self.reach if not sinks]
        if not windows or not self.causal or self.whole_rows or self.has("locate"):
            return None
        return min(windows) + sum(e.keys_before for e in self.encodings)

    @property
    def constant_from(self) -> int | None:
        """The distance beyond which all relative hooks are constant. None: one of them always
        changes, none is overridden, or positions are not contiguous.
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
        """For each encoding its `locate` of x, or the positions where it has none. `before` has for
        each encoding the last row located so far; None: the sequence starts here.
        """
        previous = before or (None,) * len(self.encodings)
        members = zip(self.encodings, self.params, previous, strict=True)
        return tuple(
            e.locate(p, x.astype(jnp.float32), pos, b) if overrides(e, "locate") else pos
            for e, p, b in members
        )

    @property
    def attends(self) -> bool:
        """Whether no encoding takes the place of attention."""
        return not any(map(mixes, self.encodings))

    def mix(self, x: Float[Array, "L D"], state):
        """The `mix` of the encoding that takes the place of attention."""
        members = zip(self.encodings, self.params, strict=True)
        return next(e.mix(params, x, state) for e, params in members if mixes(e))

    def scale(self, coords):
        """The product of all `scale` hooks, broadcastable to [T, H]."""
        members = self._members("scale", coords)
        return math.prod((e.scale(params, c) for e, params, c in members), start=1.0)

    def qk(self, q, k, q_coords, k_coords, far: bool = False):
        """Queries and keys of the dot product, or of that of `far` pairs: every `qk` in turn."""
        for e, params, *coords in self._members("qk", q_coords, k_coords):
            q, k = e.qk(params, q, k, *(e.far_positions(*coords) if far else coords))
        return q, k

    def far(self, q_coords, k_coords) -> Bool[Array, "T S"]:
        """The pairs with the dot product of `qk(far=True)`; needs an encoding with the hook."""
        ((e, _, qc, kc),) = self._members("far", q_coords, k_coords)
        return e.far(qc, kc)

    def bias(self, q_coords, k_coords):
        """The sum of all `bias` hooks, broadcastable to [H, T, S]."""
        members = self._members("bias", q_coords, k_coords)
        return sum((e.bias(params, qc, kc) for e, params, qc, kc in members), start=0.0)

    def gate(self, q_coords, k_coords):
        """The product of all `gate` hooks, broadcastable to [H, T, S]."""
        members = self._members("gate", q_coords, k_coords)
        return math.prod((e.gate(params, qc, kc) for e, params, qc, kc in members), start=1.0)

    def logits(self, logits, q, k, q_coords, k_coords, hide: Callable):
        """Every `logits` hook in turn; `hide` masks the logits after each."""
        for e, params, qc, kc in self._members("logits", q_coords, k_coords):
            logits = hide(e.logits(params, logits, q, k, qc, kc))
        return logits

    def normalize(self, logits):
        """Weights from logits: the softmax over keys, or its replacement."""
        for e, params in self._members("normalize"):
            return e.normalize(params, logits)
        if (sink := self.sink()) is None:
            return jax.nn.softmax(logits, axis=-1)
        of_sink = jnp.broadcast_to(sink[:, None, None], (*logits.shape[:-1], 1))
        return jax.nn.softmax(jnp.concatenate([logits, of_sink], axis=-1), axis=-1)[..., :-1]

    def sink(self) -> Float[Array, "H"] | None:
        """The logit of the key without a value; None: there is none."""
        return next((e.sink(params) for e, params in self._members("sink")), None)

    def tabulated(self, queries: int, keys: int) -> Bound:
        """Evaluates the relative hooks at every distance that can occur, if there are many fewer
        of these than pairs: `relative` then looks them up.
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
        """A `relative_*` hook at the distances n, [H, N] or [H, N, K]: the product over encodings
        for `relative_gate`, the sum for the others; a number where no encoding gives an array.

        In a causal model hidden pairs have negative distances, and pairs whose positions fall, as
        with abacus. Hooks get |n|, since one with a logarithm may not be finite below 0.
        """
        table = (self.tables or {}).get(hook)
        if table is not None and self.below and jnp.issubdtype(n.dtype, jnp.integer):
            values = table.at[n + self.below].get(mode="fill", fill_value=jnp.nan)
            return jnp.moveaxis(values, 0, 1)
        n = jnp.abs(n) if self.causal else n
        terms = [getattr(e, hook)(params, n) for e, params in self._members(hook)]
        return math.prod(terms) if hook == "relative_gate" else sum(terms)
