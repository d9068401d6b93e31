"""The properties of the encodings of a subject. All are computed: from the hooks of their classes,
and by probes of attention (probe.py).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, KeysView, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from pe_jax.atlas import by_distance, probe
from pe_jax.atlas.probe import LEAST, SMALL, Content, Probed, embedded
from pe_jax.atlas.subject import Subject
from pe_jax.attention.bound import Bound
from pe_jax.attention.dense import attend
from pe_jax.attention.rows import Rows
from pe_jax.encoding import RELATIVE, Dims, Encoding, sites
from pe_jax.model.lm import init_params, learned, noisy
from pe_jax.specs.parse import parse


@dataclasses.dataclass(frozen=True)
class Facts:
    """The properties of a subject; NOTES says what they are."""

    name: str
    group: str
    """A key of GROUPS."""
    family: str
    sites: str
    parameters: int
    reads: str
    distance_alone: bool | None
    distinct: bool | None
    same_at_any_length: bool | None
    bounded: bool | None
    content: str
    """ "no", "pair" or "others"."""
    decays: str
    """ "all", "none", or as in "2 of 4"."""
    window: str
    hides: str
    limit: int | None
    constant_from: int | None
    trained_from: int | None
    random: str
    """ "never", "in training" or "always"."""
    adapts: bool
    causal_only: bool


def facts(subject: Subject, same: Probed, of_pairs: Sequence[Probed]) -> Facts:
    """The facts of a subject. `same` is its probe of constant content with the parameters that are
    shown, `of_pairs` the probes of the two contents of `_content` with noisy ones.
    """
    encodings = subject.encodings
    try:
        probed = kind(str(subject.spec))
    except ValueError:  # its fields are for heads of the subject's size
        probed = kind(str(subject.spec), subject.dims.head)
    limits = [e.limit() for e in encodings]
    hidden = [reach for e in encodings if (reach := e.reach())]
    windows = by_distance.window(same.weights)[:, -1]
    low, high = int(windows.min()), int(windows.max())
    found = ideals(subject)
    return Facts(
        name=subject.name,
        group="positions" if moves_positions(encodings) else group(encodings),
        family=", ".join(dict.fromkeys(e.family for e in encodings if e.family)),
        sites=", ".join(_hooks(encodings)),
        parameters=sum(map(learned, subject.spec.encodings(subject.dims))),
        reads=probed.reads,
        distance_alone=probed.shift_invariant,
        distinct=found.distinct,
        same_at_any_length=found.same_at_any_length,
        bounded=found.bounded,
        content=_content(of_pairs),
        decays=_decays(same),
        window=str(low) if low == high else f"{low} to {high}",
        hides=", ".join(f"{size}" + f" + {sinks}" * (sinks > 0) for size, sinks in hidden),
        limit=min((n for n in limits if n is not None), default=None),
        constant_from=_highest(e.constant_from() for e in encodings),
        trained_from=_highest(e.trained_from() for e in encodings),
        random=_random(subject),
        adapts=any(e.at(subject.length) != e.at(subject.asked) for e in encodings),
        causal_only=_causal_only(subject),
    )


def _content(of_pairs: Sequence[Probed]) -> str:
    """`Facts.content`, from two random contents that differ at one place."""
    one, other = (np.where(np.isfinite(p.added), p.added, 0.0) for p in of_pairs)
    differ = np.abs(one - other) > SMALL * max(1.0, float(np.abs(one).max()))
    changed = probe.changed(one.shape[-1])
    if np.delete(np.delete(differ, changed, axis=1), changed, axis=2).any():
        return "others"
    return "pair" if differ.any() else "no"


def _decays(same: Probed) -> str:
    falling = by_distance.decaying(by_distance.means(same.effect).mean)
    count = int(falling.sum())
    return {0: "none", len(falling): "all"}.get(count, f"{count} of {len(falling)}")


def _highest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _random(subject: Subject) -> str:
    if "positions" not in _hooks(subject.encodings):
        return "never"

    def drawn(train: bool) -> bool:
        first, second = (probe.positions(subject, 16, seed, train) for seed in (0, 1))
        return not np.array_equal(first, second)

    return "always" if drawn(False) else "in training" if drawn(True) else "never"


def _causal_only(subject: Subject) -> bool:
    dims = subject.dims._replace(causal=False)
    try:
        subject.spec.encodings(dims)
    except ValueError:
        return True
    return False


# Facts as a table, by groups


GROUPS = {
    "input": "Added to the input",
    "rotation": "Rotations of queries and keys",
    "bias": "Biases of the distance",
    "content": "Together with content",
    "positions": "Change the positions that others read",
    "scale": "Temperatures",
    "mask": "Windows",
    "none": "None",
}
"""The titles of the groups (`Facts.group`), in the order of the page."""


COLUMNS: dict[str, str] = {
    "name": "encoding",
    "family": "family",
    "reads": "reads",
    "distance_alone": "distance alone",
    "distinct": "own value",
    "same_at_any_length": "same at any length",
    "bounded": "bounded",
    "content": "content",
    "decays": "decays",
    "window": "effective window",
    "hides": "hides beyond",
    "parameters": "learned",
    "limit": "limit",
    "constant_from": "constant from",
    "trained_from": "trained from",
    "random": "random",
    "adapts": "adapts to length",
    "causal_only": "causal only",
    "sites": "hooks",
}
"""The titles of the columns of the table, by the fields of Facts."""
NOTES = {
    "reads": "absolute: the output depends on a token's own position; relative: on the distance of "
    "two tokens; both: on either; order: on no position, at most on which token comes first; "
    "moved: it changes the positions that others read.",
    "distance_alone": "whether outputs stay the same when all positions are shifted equally.",
    "distinct": "whether each position has a value of its own, as the last query sees it: what is "
    "added to the logit of a key there, for tokens of equal content.",
    "same_at_any_length": "whether that value of two places is the same in texts of any length.",
    "bounded": "whether values stop growing with the distance: they are as large a thousand times "
    "as far. A limited number of positions is bounded.",
    "content": "what the term that is added to the logit of a query and a key depends on besides "
    "positions: no content, that of the pair, or that of other tokens, too.",
    "decays": "the heads in which the logit falls with the distance and nowhere rises, within "
    "four training lengths, for tokens of equal content.",
    "window": "the fewest keys, counted outwards, that hold 90 % of the last query's attention, "
    "for tokens of equal content: the lowest and the highest of the heads.",
    "hides": "the distance from which keys are hidden, + the first keys that never are.",
    "parameters": "numbers that the whole model learns for it.",
    "limit": "how many positions it serves.",
    "constant_from": "the distance from which no term of the distance changes any more.",
    "trained_from": "the shortest training length that reaches every parameter.",
    "random": "when it draws positions at random.",
    "adapts": "whether it is another function at four times the training length, by its own rule.",
    "causal_only": "whether a model that sees later tokens is refused.",
}
"""What a column means whose title does not say enough, by the field."""


def texts(one: Facts) -> list[str]:
    """The cells of a row, in the order of COLUMNS."""
    return [_cell(getattr(one, field)) for field in COLUMNS]


def _cell(value: object) -> str:
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def by_group(every: Sequence[Facts]) -> dict[str, list[int]]:
    """{title of a group: the places of its members in `every`}, in the order of GROUPS; groups
    without members are left out.
    """
    found = {
        title: [i for i, one in enumerate(every) if one.group == g] for g, title in GROUPS.items()
    }
    return {title: places for title, places in found.items() if places}


# Groups, by the hooks that an encoding overrides


CHANGE_NO_ARRAY = {"at", "limit"}
HOOKS_OF_GROUP = {  # an encoding belongs to the first group that has one of its hooks
    "content": {
        "locate",
        "logits",
        "normalize",
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
    """Where position enters: content (together with the content of queries, keys or values),
    rotation, bias, input, scale or mask; "none" where it does not enter, as in nope.
    """
    used = _hooks(encodings)
    return next((name for name, hooks in HOOKS_OF_GROUP.items() if used & hooks), "none")


def moves_positions(encodings: Sequence[Encoding]) -> bool:
    """Whether they change positions and nothing else: without others they are the same as nope."""
    used = _hooks(encodings)
    return bool(used) and used <= CHANGE_NO_ARRAY | {"positions"}


def spec_of(name: str, dims: Dims) -> str:
    """The spec to measure an encoding by: its name, with rope where it only moves positions."""
    encodings = [member.cls(dims, **member.fields) for member in parse(name)]
    return f"{name}+rope" if moves_positions(encodings) else name


def _hooks(encodings: Sequence[Encoding]) -> KeysView[str]:
    """The hooks that any of them overrides, in the order of the encodings and of the contract."""
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


@dataclasses.dataclass(frozen=True)
class Ideals:
    """The three properties; None for an encoding that only moves positions."""

    distinct: bool | None
    """Whether the last query of the longest text shown sees a value of its own at every key."""
    same_at_any_length: bool | None
    """Whether two places have the same value in a text as in one of half its length or less."""
    bounded: bool | None
    """Whether values stay as large at distances that are a thousand times as far. An encoding that
    serves a limited number of positions has bounded values.
    """


def ideals(subject: Subject) -> Ideals:
    """The three properties of the encodings of a subject together."""
    if moves_positions(subject.encodings):
        return Ideals(None, None, None)
    longest = subject.served
    long, short = (values(subject, n) for n in (longest, min(subject.length, longest // 2)))
    T = short.shape[-1]
    scale = max(1.0, float(np.abs(short).max()))
    return Ideals(
        distinct=_columns_differ(long[..., -1, :].reshape(-1, longest)),
        same_at_any_length=bool(np.abs(long[..., :T, :T] - short).max() < SMALL * scale),
        bounded=_bounded(subject),
    )


def values(
    subject: Subject, length: int, places: Int[np.ndarray, "T"] | None = None
) -> Float[np.ndarray, "C H T T"]:
    """The value of each key for each query, in each of CONTENTS contents: what the encodings add to
    the logit of the pair; where they leave all logits as they are, the logarithm of the weight over
    the query's largest. 0 where the query does not see the key.

    In each content all tokens are alike, so that nothing but their places differs: input, query and
    key have normal and independent components. Parameters have noise, since some encodings change
    nothing at their initial values.
    """
    (D, H, K), rng = subject.dims[:3], np.random.default_rng(0)
    sizes = ((1, D), (1, H, K), (1, H, K))
    tokens = length if places is None else len(places)
    drawn = [
        Content(*(np.repeat(rng.normal(size=s).astype(np.float32), tokens, axis=0) for s in sizes))
        for _ in range(CONTENTS)
    ]
    return np.nan_to_num(
        [_values_of(one) for one in probe.probe(subject, length, drawn, subject.noisy(), places)]
    )


def _values_of(probed: Probed) -> Float[np.ndarray, "H T T"]:
    if probed.on_logits:
        return probed.added
    weights = np.where(np.isnan(probed.factor), np.nan, np.maximum(np.abs(probed.weights), LEAST))
    return np.log(weights / np.maximum(np.nanmax(weights, axis=-1, keepdims=True), LEAST))


def _columns_differ(rows: Float[np.ndarray, "N T"]) -> bool:
    """Whether every two columns differ, each pair in one row at least."""
    apart = np.zeros((rows.shape[1],) * 2)
    for row in rows:
        np.maximum(apart, np.abs(row[:, None] - row), out=apart)
    np.fill_diagonal(apart, np.inf)
    return bool(apart.min() > SMALL)


def _bounded(subject: Subject) -> bool:
    if any(e.limit() is not None for e in subject.encodings):
        return True

    def size(length: int, tokens: int) -> float:
        places = np.sort(np.random.default_rng(0).choice(length, tokens, replace=False))
        of_pairs = values(subject, length, places.astype(np.int32))
        return float(np.sqrt(np.mean(np.square(of_pairs))))

    return size(*FAR) < GROWTH * max(size(*NEAR), SMALL)


# What an encoding reads of the positions, by probing one layer; none is known by its name


FARTHEST = 40  # the longest sequence whose positions a probe uses


@dataclasses.dataclass(frozen=True)
class Kind:
    """What an encoding reads of the positions."""

    reads: str
    """absolute, relative, both, order or moved: see NOTES."""
    shift_invariant: bool | None
    """Whether the output stays the same when all positions are shifted equally. None for an
    encoding that moves positions: that depends on the encoding which reads them.
    """


@dataclasses.dataclass(frozen=True)
class _Logits(Encoding):
    """Leaves out the softmax, which would hide a term that is the same for all keys of a query."""

    def normalize(self, params, logits):
        return logits


def kind(spec: str, head: int = 8) -> Kind:
    """The kind of the encodings of a spec together, from the outputs of one layer of four random
    tokens at six sets of positions. Hooks that move positions count only where there are no others.
    ValueError where a field of the spec does not fit heads of that size.
    """
    encodings = _serving(spec, head)
    if moves_positions(encodings):
        return Kind("moved", None)
    used = _hooks(encodings)
    bare = () if "normalize" in used else (_Logits(encodings[0].dims),)
    here, apart = np.arange(4), 5 * np.arange(4)  # apart: the first token is out of a window
    start, shifted, stretched, stretched_and_shifted, all_at_3, all_at_24 = range(6)
    # 21 is no whole number of turns of a sinusoid of 1 or 2 radians a token.
    places = jnp.asarray([here, here + 21, apart, apart + 21, 0 * here + 3, 0 * here + 24])
    both = jax.jit(lambda places: [_layer_outputs(encodings, places, more) for more in ((), bare)])
    out, raw = map(np.asarray, both(places))  # with and without the softmax
    absolute = _outputs_differ(raw[all_at_3], raw[all_at_24])
    relative = bool(used & {*RELATIVE}) or (
        not absolute and _outputs_differ(raw[start], raw[stretched])
    )
    changed = _outputs_differ(out[start], out[shifted]) or _outputs_differ(
        out[stretched],
        out[stretched_and_shifted],  # pairs that are further apart
    )
    reads = {(True, True): "both", (True, False): "absolute", (False, True): "relative"}
    return Kind(reads.get((absolute or (relative and changed), relative), "order"), not changed)


def _serving(spec: str, head: int) -> tuple[Encoding, ...]:
    """The encodings for sequences of FARTHEST tokens, trained at length 8, so that rules that begin
    beyond the training length show; or trained at FARTHEST, if else they serve fewer positions.
    """

    def trained_at(length: int) -> tuple[Encoding, ...]:
        dims = Dims(model=2 * head, heads=2, head=head, layers=1, train_len=length)
        return tuple(
            member.cls(dims, **{**member.fields, "layers": ":"}).at(FARTHEST)
            for member in parse(spec)
        )

    short = trained_at(8)
    return (
        short if all((e.limit() or FARTHEST) >= FARTHEST for e in short) else trained_at(FARTHEST)
    )


def _layer_outputs(
    encodings: tuple[Encoding, ...], places: jax.Array, more: tuple[Encoding, ...]
) -> jax.Array:
    """The attention of one layer of these encodings, and `more` that have no parameters, at each
    row of `places`. Input, queries, keys and values are random, and parameters noisy.
    """
    rng, (L, D, H, K) = np.random.default_rng(0), (places.shape[1], *encodings[0].dims[:3])

    def normal(*shape: int) -> jax.Array:
        return jnp.asarray(rng.normal(size=shape), jnp.float32)

    def drawn(member: int, encoding: Encoding):
        shared, owned = init_params(encoding, jax.random.key(member))
        return noisy(shared | owned.get(0, {}), member)

    params = [drawn(member, e) for member, e in enumerate(encodings)]
    x, (q, k, v) = normal(L, D), normal(3, L, H, K)
    tokens, index = jnp.arange(L, dtype=jnp.int32), jnp.arange(L)
    bound = Bound((*params, *({} for _ in more)), (*encodings, *more))

    def attention_at(positions):
        h = embedded(encodings, tuple(params), x, positions, tokens)
        heads = h.reshape(L, H, K)
        keys = Rows(index, positions, bound.locate(h, positions))
        return attend(bound, q + heads, k + heads, v + heads, keys, keys)

    return jax.vmap(attention_at)(places)


def _outputs_differ(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.abs(a - b).max() > 1e-3 * np.abs(a).max())
