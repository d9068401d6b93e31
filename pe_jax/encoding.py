"""The contract of a positional encoding: a frozen dataclass of pure hooks, and how a tuple of them
is folded.

An encoding knows nothing of Flax, batches, masks or lengths. It overrides the hooks it needs; the
language model owns every array and asks the hooks at fixed sites. Hooks see ONE sequence
(`jax.vmap` adds the batch) and receive positions, never lengths: `q_pos` and `k_pos` may be whole
rows, one block, one decoding step or the keys of a memory. README.md, "Design", gives the rules in
full.

Axes: L sequence, T queries, S keys, N distances, H heads, K head size, D model size.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
from jaxtyping import Array, Bool, Float, Int, Key, Num

Params = dict[str, Any]
Coords = Any  # a pytree of arrays [L, ...]: positions, or what `locate` makes of them

HIDDEN = -1e30  # the logit of a key that a query may not see: finite, so hooks may compute with it


def seen(logits: Float[Array, "*any"]) -> Bool[Array, "*any"]:
    """Which logits are of keys that their query may see."""
    return logits > HIDDEN / 2


class Dims(NamedTuple):
    """What an encoding may know of the model it serves."""

    model: int
    heads: int
    head: int
    layers: int
    train_len: int
    vocab: int = 256
    causal: bool = True


@dataclasses.dataclass(frozen=True)
class Encoding:
    """Every default is the identity: this class itself is NoPE."""

    dims: Dims
    per_layer: tuple[str, ...] = dataclasses.field(default=(), kw_only=True)
    """Entries of `init` that each layer owns; ("*",) is all of them. The others exist once a
    model.
    """
    layers: str = dataclasses.field(default=":", kw_only=True)
    """The layers it acts in, as a Python slice: ":", "::2", "-1:"."""

    whole_rows: ClassVar[bool] = False
    """A hook needs all keys of a query at once (CoPE): blockwise attention then cuts only the
    queries.
    """
    per_sequence: ClassVar[bool] = False
    """`positions` reads the tokens or draws anew for every sequence; False: one draw, shared by
    the batch.
    """
    fixed: ClassVar[tuple[str, ...]] = ()
    """Entries of `init` that stay as they are drawn: the hooks let no gradient through to them."""

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        fields = cls.__dict__.get("__annotations__", {})
        if taken := [name for name in fields if name in HOOKS]:
            raise TypeError(f"{cls.__name__}.{taken[0]} is a field, and the hook's name: rename it")
        for name, function in vars(cls).items():
            if isinstance(function, staticmethod | classmethod):
                function = function.__func__
            field = name in fields or isinstance(function, type)
            if callable(function) and not name.startswith("_") and not field:
                _check_hook(cls.__name__, name, function)

    def init(self, key: Key[Array, ""]) -> Params:
        """The parameters, float32, by name. Entries named in `per_layer` are drawn once for each
        layer.
        """
        return {}

    # Facts, known when a program is traced.

    def at(self, length: int) -> Encoding:
        """This encoding for sequences of `length` tokens (dynamic NTK's base, xPos' centre)."""
        return self

    def limit(self) -> int | None:
        """How many positions it can serve (the rows of a learned table); None: any number."""
        return None

    def trained_from(self) -> int | None:
        """The shortest training length that reaches every parameter (T5: one more than the
        distance where its last bucket begins); None: any.
        """
        return None

    def constant_from(self) -> int | None:
        """The distance from which no `relative_*` hook changes any more, on either side of the
        query: one vector then serves a block of keys that are all so far. None: they do change.
        """
        return None

    def reach(self) -> tuple[int, int] | None:
        """(window, sinks): a query sees the last `window` keys, itself included, and the first
        `sinks`.
        """
        return None

    # Transforms: take what stands at the site, return it.

    def positions(self, tokens: Int[Array, "L"], pos: Num[Array, "L"], key, train: bool):
        """The positions of a sequence, from those before: randomized, shifted, interpolated,
        coupled.
        """
        return pos

    def embed(self, params: Params, x: Float[Array, "L D"], tokens: Int[Array, "L"], pos):
        """The model's input (layers=":"), or else the input of each of its layers."""
        return x

    def locate(self, params: Params, x: Float[Array, "L D"], pos, before) -> Coords:
        """What this encoding's own hooks get as q_pos, k_pos: float32, from a layer's normalised
        input.

        `before` is the last row located so far (None at the start of a sequence), so that prefix
        sums go on through decoding and memory.
        """
        return pos

    def qk(
        self,
        params: Params,
        q: Float[Array, "T H K"],
        k: Float[Array, "S H K"],
        q_pos: Coords,
        k_pos: Coords,
    ):
        """The queries and keys of the dot product alone: rotations, scalings, added vectors.

        Both may come out with another number of components than K.
        """
        return q, k

    def logits(
        self,
        params: Params,
        logits: Float[Array, "H T S"],
        q: Float[Array, "T H K"],
        k: Float[Array, "S H K"],
        q_pos: Coords,
        k_pos: Coords,
    ):
        """The logits, by what mixes or reads content. `q` is scaled and, like `k`, as before `qk`.

        Hidden keys hold a large negative number, and are hidden again afterwards.
        """
        return logits

    def normalize(self, params: Params, logits: Float[Array, "H T S"]) -> Float[Array, "H T S"]:
        """Weights from logits, in place of the softmax. At most one member may override it."""
        return jax.nn.softmax(logits, axis=-1)

    # Functions of the distance n = i - j alone, laid out by attention. Distances may be floats.

    def relative_bias(self, params: Params, n: Num[Array, "N"]):
        """Added to the logits: [H, N]."""
        return 0.0

    def relative_keys(self, params: Params, n: Num[Array, "N"]):
        """Adds q_i . r_{i-j} to the logits: r is [H, N, K]."""
        return 0.0

    def relative_queries(self, params: Params, n: Num[Array, "N"]):
        """Adds r_{i-j} . k_j to the logits, as it is: r is [H, N, K]. `k` is as before `qk`."""
        return 0.0

    def relative_gate(self, params: Params, n: Num[Array, "N"]):
        """Multiplies the weights, after their normalisation: [H, N]."""
        return 1.0

    def relative_values(self, params: Params, n: Num[Array, "N"]):
        """Adds sum_j w_ij r_{i-j} to the output: r is [H, N, K]."""
        return 0.0

    # Terms of both positions: 0 where added, 1 where multiplied.

    def bias(self, params: Params, q_pos: Coords, k_pos: Coords):
        """Added to the logits: [H, T, S]."""
        return 0.0

    def gate(self, params: Params, q_pos: Coords, k_pos: Coords):
        """Multiplies the weights, after their normalisation: [H, T, S]."""
        return 1.0

    def scale(self, params: Params, q_pos: Coords):
        """Multiplies the queries, before all else: [T, H]."""
        return 1.0


HOOKS: dict[str, tuple[str, ...]] = {
    name: tuple(inspect.signature(function).parameters)
    for name, function in vars(Encoding).items()
    if inspect.isfunction(function) and not name.startswith("_")
}

RELATIVE = tuple(hook for hook in HOOKS if hook.startswith("relative_"))


def _check_hook(owner: str, name: str, function: Callable) -> None:
    """A misspelt hook would silently train NoPE: it is a TypeError when the class is defined."""
    if name not in HOOKS:
        near = difflib.get_close_matches(name, HOOKS, 1)
        hint = f"; did you mean `{near[0]}`?" if near else "."
        raise TypeError(
            f"{owner}.{name} is not a hook of Encoding{hint} The hooks are {', '.join(HOOKS)}; "
            "the name of a helper begins with an underscore."
        )
    given = tuple(inspect.signature(function).parameters)
    if given != HOOKS[name]:
        raise TypeError(
            f"{owner}.{name} takes ({', '.join(given)}), "
            f"the hook is {name}({', '.join(HOOKS[name])})."
        )


def overrides(encoding: Encoding, hook: str) -> bool:
    """Whether the encoding replaces the identity at `hook`."""
    return getattr(type(encoding), hook) is not getattr(Encoding, hook)


def sites(encoding: Encoding) -> tuple[str, ...]:
    """The hooks that an encoding overrides and a model's output may depend on, in the order of the
    contract.
    """
    silent = ("init", "trained_from", "constant_from")
    return tuple(hook for hook in HOOKS if hook not in silent and overrides(encoding, hook))


def active(encoding: Encoding, layer: int) -> bool:
    """Whether the encoding acts in `layer` (0-based)."""
    start, stop, step = (int(part) if part else None for part in _slice_parts(encoding.layers))
    layers = range(encoding.dims.layers)[slice(start, stop, step)]
    if not layers:
        raise ValueError(
            f"{type(encoding).__name__} acts in no layer: the model has {encoding.dims.layers}, "
            f"layers is {encoding.layers!r}"
        )
    return layer in layers


def acts_once(encoding: Encoding) -> bool:
    """Whether `embed` acts once, on the model's input, and not on the input of each layer."""
    return encoding.layers == ":"


def _slice_parts(text: str) -> list[str]:
    parts = [part.strip() for part in text.split(":")]
    if len(parts) not in (2, 3) or any(not _is_int(part) for part in parts if part):
        raise ValueError(f"layers must be a slice such as ':', '::2' or '-1:', got {text!r}")
    return parts + [""] * (3 - len(parts))


def _is_int(text: str) -> bool:
    return text.removeprefix("-").isdecimal()
