"""The contract of a positional encoding: a frozen dataclass whose methods are pure hooks.

An encoding knows nothing of Flax, batches, masks or lengths. It overrides the hooks it needs; the
language model owns every array and calls the hooks at fixed sites. Hooks see ONE sequence
(`jax.vmap` adds the batch) and receive positions, never lengths: `q_pos` and `k_pos` may be those
of a sequence, a block, a decoding step or a memory. attention/__init__.py has the formulas.

Axes: L sequence, T queries, S keys, N distances, H heads, K head size, D model size.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Literal, NamedTuple

import jax
from jaxtyping import Array, Bool, Float, Int, Key, Num

from pe_jax import contract
from pe_jax.fields import check

Params = dict[str, Any]
QArray = Float[Array, "T H K"]
KArray = Float[Array, "S H K"]
Logits = Float[Array, "H T S"]
Coords = Any  # a pytree of arrays [L, ...]: positions, or what `locate` makes of them

HIDDEN = -1e30  # the logit of a key that a query may not see: finite, so hooks may compute with it


def seen(logits: Float[Array, "*any"]) -> Bool[Array, "*any"]:
    """Which logits are of keys that their query may see."""
    return logits > HIDDEN / 2


class Dims(NamedTuple):
    """What an encoding may know of the model it serves: its sizes, the training length in tokens,
    and whether attention is causal.
    """

    model: int
    heads: int
    head: int
    layers: int
    train_len: int
    vocab: int = 256
    causal: bool = True


@dataclasses.dataclass(frozen=True)
class Encoding:
    """A positional encoding. One of your own is a subclass, a frozen dataclass whose fields are its
    settings, that overrides some hooks; TypeError for a hook that is not known. Every default is
    the identity: this class itself is NoPE.
    """

    dims: Dims
    per_layer: tuple[str, ...] = dataclasses.field(default=(), kw_only=True)
    """Entries of `init` that each layer owns; ("*",) is all of them. Layers share the others."""
    layers: str = dataclasses.field(default=":", kw_only=True)
    """The layers it acts in, as Python slices or numbers: ":", "::2", "-1:", "0,3"."""
    where: Literal["input", "layers"] = dataclasses.field(default="input", kw_only=True)
    """Where `embed` acts: once, on the model's input, or on the input of each layer in `layers`."""

    family: ClassVar[str | None] = None
    """The name of the plain class that this class is a form of: "RoPE" for every rotation. A model
    seldom needs two encodings of one family, since they do the same thing. One can take over the
    parameters of another; swapped into a trained model, it replaces the plain class. A class that
    names no family begins one, with its subclasses; NoPE alone has none.
    """
    whole_rows: ClassVar[bool] = False
    """A hook needs all keys of a query at once: blockwise attention then cuts the queries alone."""
    from_zero: ClassVar[bool] = False
    """A hook takes positions for places in the text: refused where another encoding moves them."""
    keys_before: ClassVar[int] = 0
    """How many keys before a key its row of `qk` depends on."""
    per_sequence: ClassVar[bool] = False
    """`positions` reads the tokens or draws for each sequence; False: a draw serves the batch."""
    fixed: ClassVar[tuple[str, ...]] = ()
    """Entries of `init` that stay as they are drawn: no gradient reaches them."""
    causal_only: ClassVar[str | None] = None
    """Why it needs a causal model; None: it serves any."""
    even: ClassVar[Literal["model", "head"] | None] = None
    """The size in `dims` that must be even, since components are taken in pairs; None: neither."""

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        if cls.family is None and "family" not in vars(cls):
            cls.family = cls.__name__
        if cls.mix is not Encoding.mix and cls.causal_only is None:
            cls.causal_only = "the state of a mixer goes from earlier tokens to later ones"
        contract.check_class(cls, Encoding)

    def __post_init__(self):
        """Checks every encoding; the __post_init__ of its class, if any, runs after this one."""
        name = type(self).__name__
        check(self, f"{name}'s ")
        if overrides(self, "embed") and self.where == "input" and self.layers != ":":
            raise ValueError(
                f"{name} acts on the model's input, and its layers are {self.layers!r}: give it "
                "where='layers' to act on their inputs"
            )
        if overrides(self, "positions") and self.layers not in (":", "0:"):
            raise ValueError(f"{name} moves positions in all layers: leave out {self.layers!r}")
        if self.causal_only and not self.dims.causal:
            raise ValueError(
                f"{name} needs a causal model: {self.causal_only}; set lm.causal=True, with a task "
                "that hides no tokens, or use another encoding"
            )
        if self.even and (size := getattr(self.dims, self.even)) % 2:
            rule = f"{self.even} size must be even for {name}, which takes components in pairs"
            raise ValueError(f"{rule}, got {size}; change lm.model or lm.heads")

    def _drawing(self, key: Key[Array, ""] | None) -> Key[Array, ""]:
        # The key of `positions`, by which they are drawn. ValueError if there is none.
        if key is None:
            raise ValueError(f"{type(self).__name__} draws positions: pass `key` to the model")
        return key

    def init(self, key: Key[Array, ""]) -> Params:
        """The parameters by name, float32; called once more for each layer that owns some."""
        return {}

    # Facts, known when a program is traced.

    def at(self, length: int) -> Encoding:
        """This encoding for sequences of `length` tokens (dynamic NTK's base, xPos' centre)."""
        return self

    def limit(self) -> int | None:
        """How many positions it can serve (the rows of a learned table); None: any number. The
        positions that its `positions` returns are below this limit.
        """
        return None

    def highest_position(self) -> int | None:
        """A position that its `positions` surely reaches in training, however many tokens a
        sequence has; None: there is none.
        """
        return None

    def trained_from(self) -> int | None:
        """The shortest training length that reaches every parameter; None: any."""
        return None

    def constant_from(self) -> int | None:
        """The distance from which no `relative_*` hook changes any more, on either side of a
        query, so that one vector serves all keys beyond it. None: there is none.
        """
        return None

    def reach(self) -> tuple[int, int] | None:
        """(window, sinks): a query sees keys less than `window` away and the first `sinks` keys."""
        return None

    # Transforms: each takes an array (or two) and returns it changed.

    def positions(self, tokens: Int[Array, "L"], pos: Num[Array, "L"], key, train: bool):
        """The positions of a sequence, from `pos`: drawn at random, shifted, scaled, or computed
        from the tokens. `key` is None where nothing is to be drawn. Where there is no token, at
        the end of a padded sequence and in the empty places of a memory before its first token,
        tokens and `pos` are below 0.
        """
        return pos

    def embed(self, params: Params, x: Float[Array, "L D"], tokens: Int[Array, "L"], pos):
        """The model's input (where="input"), or the input of each of its layers. Where there is no
        token, as in `positions`, tokens are below 0: a hook that reads neighbours leaves these out.
        """
        return x

    def mix(self, params: Params, x: Float[Array, "L D"], state):
        """(y [L, D], the state after the last token): takes the place of attention in its layers,
        from a layer's normalised input x. y is added to the residual stream, so that a mixer has
        all its matrices among its parameters, and the layer has none of attention's.

        `state` is a tree of arrays of constant shapes, or None where a text begins. A text, its
        parts and single tokens give the same numbers, and the state is all that goes from one to
        the next. Other members of its layers may override `positions` and `embed`. A class that has
        `embed`, too, chooses by `where`: `embed` on the model's input, or `mix` in layers.
        Weight decay acts on the entries of `init` whose names end in _kernel.
        """
        return x, state

    def locate(self, params: Params, x: Float[Array, "L D"], pos, before) -> Coords:
        """What this encoding's own hooks get as q_pos and k_pos, from a layer's normalised input x
        in float32; where there is no token (see `positions`), x is 0.

        `before` is the last row located so far (None at the start of a sequence), so that prefix
        sums go on through decoding and memory.
        """
        return pos

    def qk(self, params: Params, q: QArray, k: KArray, q_pos: Coords, k_pos: Coords):
        """The queries and keys of the dot product alone: rotations, scalings, added vectors.

        `q` comes multiplied by K^-1/2. Both may be returned with another size than K. `k` has the
        keys of all tokens that any query sees, in their order, so that a class with `keys_before`
        may read neighbours; keys where there is no token have the position 0, as the first has.
        """
        return q, k

    def far(self, q_pos: Coords, k_pos: Coords) -> Any:
        """The pairs, booleans [T, S], whose dot product is that of queries and keys at
        `far_positions`; at most one encoding may override it.
        """
        return False

    def far_positions(self, q_pos: Coords, k_pos: Coords) -> tuple[Coords, Coords]:
        """The positions that `qk` gets of queries and keys for the dot product of `far` pairs."""
        return q_pos, k_pos

    def logits(
        self, params: Params, logits: Logits, q: QArray, k: KArray, q_pos: Coords, k_pos: Coords
    ):
        """The logits, mixed over heads or changed by content. q has its factor K^-1/2; both are as
        before `qk`. Keys that the query may not see have the logit HIDDEN, and get it again.
        """
        return logits

    def normalize(self, params: Params, logits: Logits) -> Logits:
        """Weights from logits, in place of the softmax; at most one encoding may override it."""
        return jax.nn.softmax(logits, axis=-1)

    def sink(self, params: Params) -> Float[Array, "H"] | None:
        """The logit in the softmax of one more key, whose value is 0, that all queries see; at most
        one encoding may override it or `normalize`.
        """
        return None

    # Functions of the distance n = i - j alone, which may be a float. `q` and `k` as in `logits`.

    def relative_bias(self, params: Params, n: Num[Array, "N"]):
        """Added to the logits: [H, N]."""
        return 0.0

    def relative_keys(self, params: Params, n: Num[Array, "N"]):
        """Adds q_i . r_{i-j} to the logits: r is [H, N, K]."""
        return 0.0

    def relative_queries(self, params: Params, n: Num[Array, "N"]):
        """Adds r_{i-j} . k_j to the logits, without a factor K^-1/2: r is [H, N, K]."""
        return 0.0

    def relative_gate(self, params: Params, n: Num[Array, "N"]):
        """Multiplies the weights, after their normalisation: [H, N]."""
        return 1.0

    def relative_values(self, params: Params, n: Num[Array, "N"]):
        """Adds sum_j w_ij r_{i-j} to the output: r is [H, N, K]."""
        return 0.0

    # Terms of the positions themselves. What is given may also broadcast to the shape named.

    def bias(self, params: Params, q_pos: Coords, k_pos: Coords):
        """Added to the logits: [H, T, S]."""
        return 0.0

    def gate(self, params: Params, q_pos: Coords, k_pos: Coords):
        """Multiplies the weights, after their normalisation: [H, T, S]."""
        return 1.0

    def scale(self, params: Params, q_pos: Coords):
        """Multiplies the queries, before all else: [T, H]."""
        return 1.0


HOOKS = contract.hooks(Encoding)
"""{hook: the names of its arguments}"""

RELATIVE = tuple(hook for hook in HOOKS if hook.startswith("relative_"))


def overrides(encoding: Encoding, hook: str) -> bool:
    """Whether the encoding replaces the identity at `hook`."""
    return getattr(type(encoding), hook) is not getattr(Encoding, hook)


def sites(encoding: Encoding) -> tuple[str, ...]:
    """The hooks it overrides that a model's output may depend on, in the order of the contract."""
    silent = ("init", "highest_position", "trained_from", "constant_from")
    return tuple(hook for hook in HOOKS if hook not in silent and overrides(encoding, hook))


def acts_once(encoding: Encoding) -> bool:
    """Whether `embed` acts once, on the model's input, and not on the input of each layer."""
    return encoding.where == "input"


def mixes(encoding: Encoding) -> bool:
    """Whether it takes the place of attention in its layers."""
    in_front = overrides(encoding, "embed") and acts_once(encoding)
    return overrides(encoding, "mix") and not in_front
