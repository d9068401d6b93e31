"""The properties of encodings, computed from the hooks of their classes and by probes."""

from __future__ import annotations

import dataclasses
from collections.abc import KeysView, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from pe_jax.atlas import probe
from pe_jax.atlas.layer import Layer
from pe_jax.atlas.probe import LEAST, SMALL, Content, Probed
from pe_jax.encoding import RELATIVE, Dims, Encoding, mixes, sites
from pe_jax.model.lm import init_params, learned, noisy
from pe_jax.specs.parse import parse


def _column(title: str, note: str = "") -> Any:
    return dataclasses.field(metadata={"title": title, "note": note})


@dataclasses.dataclass(frozen=True)
class Properties:
    """The properties of the encodings of a layer: a row of the table."""

    group: str
    """A key of GROUPS."""
    name: str = _column("encoding")
    family: str = _column("family")
    reads: str = _column(
        "reads",
        "absolute: the output depends on a token's own position; relative: on the distance of two "
        "tokens; both: on either; order: on no position, at most on which token comes first; "
        "moved: it changes the positions that others read.",
    )
    distance_alone: bool | None = _column(
        "distance alone", "whether outputs stay the same when all positions are shifted equally."
    )
    distinct: bool | None = _column(
        "own value",
        "whether each position has a value of its own, as the last query sees it: what is added to "
        "the logit of a key there, for tokens of equal content.",
    )
    same_at_any_length: bool | None = _column(
        "same at any length",
        "whether that value of two places is the same in texts of any length.",
    )
    bounded: bool | None = _column(
        "bounded",
        "whether values stop growing with the distance: they are as large a thousand times as far. "
        "A limited number of positions is bounded.",
    )
    content: str = _column(
        "content",
        "what the term that is added to the logit of a query and a key depends on besides "
        "positions: no content, that of the pair, or that of other tokens, too.",
    )
    decays: str = _column(
        "decays",
        "the heads in which the logit falls with the distance and nowhere rises, within four "
        "training lengths, for tokens of equal content.",
    )
    window: str = _column(
        "effective window",
        "the fewest keys, counted outwards, that hold 90 % of the last query's attention, for "
        "tokens of equal content: the lowest and the highest of the heads.",
    )
    hides: str = _column(
        "hides beyond",
        "the distance from which keys are hidden, + the first keys that never are.",
    )
    parameters: int = _column("learned", "numbers that the whole model learns for it.")
    limit: int | None = _column("limit", "how many positions it serves.")
    constant_from: int | None = _column(
        "constant from", "the distance from which no term of the distance changes any more."
    )
    trained_from: int | None = _column(
        "trained from", "the shortest training length that reaches every parameter."
    )
    random: str = _column("random", "when it draws positions at random.")
    adapts: bool = _column(
        "adapts to length",
        "whether it is another function at four times the training length, by its own rule.",
    )
    causal_only: bool = _column("causal only", "whether a model that sees later tokens is refused.")
    sites: str = _column("hooks")

    @property
    def texts(self) -> list[str]:
        """The cells of the row, in the order of COLUMNS."""
        return [_cell(getattr(self, field)) for field in COLUMNS]


_FIELDS = [field for field in dataclasses.fields(Properties) if field.metadata]
COLUMNS: dict[str, str] = {field.name: field.metadata["title"] for field in _FIELDS}
"""The titles of the columns of the table, by the fields of Properties."""
NOTES: dict[str, str] = {f.name: f.metadata["note"] for f in _FIELDS if f.metadata["note"]}
"""What a column means whose title does not say enough, by the field."""
GROUPS = {
    "input": "Added to the input",
    "rotation": "Rotations of queries and keys",
    "bias": "Biases of the distance",
    "mixer": "In place of attention",
    "content": "Together with content",
    "positions": "Change the positions that others read",
    "scale": "Temperatures",
    "mask": "Windows",
    "none": "None",
}
"""The titles of the groups (`Properties.group`), in the order of the page."""


def _cell(value: object) -> str:
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def by_group(every: Sequence[Properties]) -> dict[str, list[int]]:
    """{title of a group: the places of its members in `every`}, in the order of GROUPS; groups
    without members are left out.
    """
    found = {
        title: [i for i, row in enumerate(every) if row.group == group]
        for group, title in GROUPS.items()
    }
    return {title: places for title, places in found.items() if places}


@dataclasses.dataclass(frozen=True, eq=False)
class Measured:
    """The probes and the properties of a layer, for sequences of layer.served tokens."""

    layer: Layer
    properties: Properties
    same: Probed
    """Of constant content."""
    random: Probed | None
    """Of random content, where the logits of a pair depend on other tokens, too, or where constant
    content shows nothing.
    """
    noised: bool
    """Whether the parameters of these probes have noise added, since at their initial values they
    change nothing.
    """

    @classmethod
    def of(cls, layer: Layer) -> Measured:
        n = layer.served
        same, drawn, other = probe.contents(layer, n)
        shown, random = probe.probe(layer, n, (same, drawn), layer.params)
        noisy_layer = dataclasses.replace(layer, params=layer.noisy())
        of_pairs = probe.probe(layer, n, (drawn, other), noisy_layer.params)
        row = properties(layer, shown, of_pairs)
        noised = any(layer.params) and not (shown.acts or random.acts)
        if noised:
            layer = noisy_layer
            shown, random = probe.probe(layer, n, (same, drawn), layer.params)
        second = row.content == "others" or (random.acts and not shown.acts)
        return cls(layer, row, shown, random if second else None, noised)


def properties(layer: Layer, same: Probed, of_pairs: Sequence[Probed]) -> Properties:
    """The properties of a layer. `same` is its probe of constant content, with its parameters;
    `of_pairs` are the probes of two random contents that differ at one place, with noisy ones.
    """
    encodings = layer.encodings
    try:
        probed = kind(str(layer.spec))
    except ValueError:  # its fields are for heads of the layer's size
        probed = kind(str(layer.spec), layer.dims.head)
    attends = not any(map(mixes, encodings))  # the terms of a pair, which a mixer does not have
    distinct, same_at_any_length, bounded = ideals(layer) if attends else (None, None, None)
    hidden = [reach for e in encodings if (reach := e.reach())]
    windows = probe.window(same.weights)[:, -1]
    low, high = int(windows.min()), int(windows.max())
    falling = probe.decaying(probe.means(same.effect).mean)
    count = int(falling.sum())
    return Properties(
        name=layer.name,
        group="positions" if moves_positions(encodings) else group(encodings),
        family=", ".join(dict.fromkeys(e.family for e in encodings if e.family)),
        sites=", ".join(_hooks(encodings)),
        parameters=sum(map(learned, layer.spec.encodings(layer.dims))),
        reads=probed.reads,
        distance_alone=probed.shift_invariant,
        distinct=distinct,
        same_at_any_length=same_at_any_length,
        bounded=bounded,
        content=_content(of_pairs) * attends,
        decays={0: "none", len(falling): "all"}.get(count, f"{count} of {len(falling)}") * attends,
        window=(str(low) if low == high else f"{low} to {high}") * attends,
        hides=", ".join(f"{size}" + f" + {sinks}" * (sinks > 0) for size, sinks in hidden),
        limit=min(filter(None, (e.limit() for e in encodings)), default=None),
        constant_from=max(filter(None, (e.constant_from() for e in encodings)), default=None),
        trained_from=max(filter(None, (e.trained_from() for e in encodings)), default=None),
        random=_random(layer),
        adapts=any(e.at(layer.train_length) != e.at(layer.longest) for e in encodings),
        causal_only=any(member.cls.causal_only for member in layer.spec),
    )


def _content(of_pairs: Sequence[Probed]) -> str:
    one, other = (np.where(np.isfinite(p.added), p.added, 0.0) for p in of_pairs)
    differ = np.abs(one - other) > SMALL * max(1.0, float(np.abs(one).max()))
    changed = probe.changed(one.shape[-1])
    if np.delete(np.delete(differ, changed, axis=1), changed, axis=2).any():
        return "others"
    return "pair" if differ.any() else "no"


def _random(layer: Layer) -> str:
    if "positions" in _hooks(layer.encodings):
        for train, said in ((False, "always"), (True, "in training")):
            first, second = (probe.positions(layer, 16, seed, train) for seed in (0, 1))
            if not np.array_equal(first, second):
                return said
    return "never"


# Groups, by the hooks that an encoding overrides


CHANGE_NO_ARRAY = {"at", "limit"}
HOOKS_OF_GROUP = {  # an encoding belongs to the first group that has one of its hooks
    "mixer": {"mix"},
    "content": {
        "locate",
        "logits",
        "normalize",
        "sink",
        "relative_keys",
        "relative_queries",
        "relative_values",
    },
    "rotation": {"qk", "far", "far_positions"},
    "bias": {"bias", "gate", "relative_bias", "relative_gate"},
    "input": {"embed"},
    "scale": {"scale"},
    "mask": {"reach"},
}


def group(encodings: Sequence[Encoding]) -> str:
    """Where position enters: mixer (in place of attention), content (together with the content of
    queries, keys or values), rotation, bias, input, scale or mask; "none" where it does not enter,
    as in nope.
    """
    if any(e.keys_before for e in encodings):
        return "content"
    used = _hooks(encodings)
    return next((name for name, hooks in HOOKS_OF_GROUP.items() if used & hooks), "none")


def moves_positions(encodings: Sequence[Encoding]) -> bool:
    """Whether they change positions and nothing else: without others they are the same as nope."""
    used = _hooks(encodings)
    return bool(used) and used <= CHANGE_NO_ARRAY | {"positions"}


# The hooks that any of them overrides, in the order of the encodings and of the contract.
def _hooks(encodings: Sequence[Encoding]) -> KeysView[str]:
    return dict.fromkeys(hook for encoding in encodings for hook in sites(encoding)).keys()


# What introductions ask of an encoding: a value of its own for each position, the same difference
# between two places whatever the length of the text, bounded values


CONTENTS = 4
NEAR, FAR = (2**10, 64), (2**20, 256)
"""Lengths of two texts, and how many of their tokens are probed. From the first to the second a
logarithm of the length doubles, and a sum over tokens is four times as large.
"""
GROWTH = 1.5
"""The ratio of root mean squares of values from which they grow: halfway to a logarithm's."""


def ideals(layer: Layer) -> tuple[bool | None, bool | None, bool | None]:
    """(distinct, same_at_any_length, bounded) of the encodings of a layer together, see Properties:
    whether the last query of `layer.served` tokens sees a value of its own at every key; whether
    two places have the same value in a text of half that length or less; whether values stay as
    large at distances that are a thousand times as far. None of encodings that only move positions.
    """
    if moves_positions(layer.encodings):
        return None, None, None
    longest = layer.served
    long, short = (values(layer, n) for n in (longest, min(layer.train_length, longest // 2)))
    T = short.shape[-1]
    scale = max(1.0, float(np.abs(short).max()))
    seen = long[..., -1, :].reshape(-1, longest)
    apart = np.abs(seen[:, :, None] - seen[:, None]).max(axis=0)  # of two keys, in one row at least
    distinct = bool(apart[~np.eye(longest, dtype=bool)].min() > SMALL)
    same = bool(np.abs(long[..., :T, :T] - short).max() < SMALL * scale)
    return distinct, same, _bounded(layer)


def values(
    layer: Layer, length: int, places: Int[np.ndarray, "T"] | None = None
) -> Float[np.ndarray, "C H T T"]:
    """The value of each key for each query, in each of CONTENTS contents: what the encodings add to
    the logit of the pair; where they leave all logits as they are, the logarithm of the weight over
    the query's largest. 0 where the query does not see the key.

    In each content all tokens are alike, so that nothing but their places differs: input, query and
    key have normal and independent components. Parameters have noise, since some encodings change
    nothing at their initial values.
    """
    (D, H, K), rng = layer.dims[:3], np.random.default_rng(0)
    sizes = ((1, D), (1, H, K), (1, H, K))
    tokens = length if places is None else len(places)
    drawn = [
        Content(*(np.repeat(rng.normal(size=s).astype(np.float32), tokens, axis=0) for s in sizes))
        for _ in range(CONTENTS)
    ]
    probed = probe.probe(layer, length, drawn, layer.noisy(), places)
    return np.nan_to_num([_values(content) for content in probed])


def _values(probed: Probed) -> Float[np.ndarray, "H T T"]:
    if probed.on_logits:
        return probed.added
    weights = np.where(np.isnan(probed.factor), np.nan, np.maximum(np.abs(probed.weights), LEAST))
    return np.log(weights / np.nanmax(weights, axis=-1, keepdims=True, initial=LEAST))


def _bounded(layer: Layer) -> bool:
    if any(e.limit() is not None for e in layer.encodings):
        return True
    sizes = []
    for length, tokens in (NEAR, FAR):
        places = np.sort(np.random.default_rng(0).choice(length, tokens, replace=False))
        of_pairs = values(layer, length, places.astype(np.int32))
        sizes.append(float(np.sqrt(np.mean(np.square(of_pairs)))))
    return sizes[1] < GROWTH * max(sizes[0], SMALL)


# What an encoding reads of the positions, by probing one layer; none is known by its name


FARTHEST = 40  # the longest sequence whose positions a probe uses


class Kind(NamedTuple):
    """What an encoding reads of the positions."""

    reads: str
    """absolute, relative, both, order or moved: see NOTES."""
    shift_invariant: bool | None
    """Whether the output stays the same when all positions are shifted equally. None for an
    encoding that moves positions: that depends on the encoding which reads them.
    """


def kind(spec: str, head: int = 8) -> Kind:
    """The kind of the encodings of a spec together, from the outputs of one layer of four random
    tokens at six sets of positions. Hooks that move positions count only where there are no others.
    ValueError where a field of the spec does not fit heads of that size.
    """
    encodings = _trained_at(8, spec, head)  # so that rules beyond the training length show
    if any((e.limit() or FARTHEST) < FARTHEST for e in encodings):
        encodings = _trained_at(FARTHEST, spec, head)
    if moves_positions(encodings):
        return Kind("moved", None)
    params = []
    for member, encoding in enumerate(encodings):
        shared, owned = init_params(encoding, jax.random.key(member))
        params.append(noisy(shared | owned.get(0, {}), member))
    (D, H, K), rng = encodings[0].dims[:3], np.random.default_rng(0)
    sizes = ((1, 4, D), (1, 4, H, K), (1, 4, H, K))
    content = Content(*(rng.normal(size=size).astype(np.float32) for size in sizes))

    def attention_at(*places: int) -> list[np.ndarray]:
        found = probe.attention(encodings, tuple(params), content, jnp.array(places))
        return [np.nan_to_num(np.asarray(array), neginf=0) for array in found]

    # Stretched: the first token is out of a window. Shifted by 21: no whole number of turns of a
    # sinusoid of 1 or 2 radians a token.
    start, shifted = attention_at(0, 1, 2, 3), attention_at(21, 22, 23, 24)
    stretched, stretched_and_shifted = attention_at(0, 5, 10, 15), attention_at(21, 26, 31, 36)
    all_at_3, all_at_24 = attention_at(3, 3, 3, 3), attention_at(24, 24, 24, 24)
    # Logits, too: the softmax hides a term that is the same for all keys of a query.
    absolute = _differ(all_at_3, all_at_24)
    relative = bool(_hooks(encodings) & {*RELATIVE}) or (not absolute and _differ(start, stretched))
    changed = _differ(start[1:], shifted[1:]) or _differ(stretched[1:], stretched_and_shifted[1:])
    reads = {(True, True): "both", (True, False): "absolute", (False, True): "relative"}
    return Kind(reads.get((absolute or (relative and changed), relative), "order"), not changed)


# The encodings, trained at a length, for sequences of FARTHEST tokens.
def _trained_at(length: int, spec: str, head: int) -> tuple[Encoding, ...]:
    dims = Dims(model=2 * head, heads=2, head=head, layers=1, train_len=length)
    return tuple(
        member.cls(dims, **{**member.fields, "layers": ":"}).at(FARTHEST) for member in parse(spec)
    )


# Whether two arrays of a pair differ by more than a thousandth of the largest value.
def _differ(arrays: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> bool:
    pairs = zip(arrays, others, strict=True)
    return any(bool(np.abs(a - b).max() > 1e-3 * np.abs(a).max()) for a, b in pairs)
