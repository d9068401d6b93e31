"""What encodings read of the positions, found by probing one layer; none is known by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from pe_jax.atlas.probe import embedded
from pe_jax.attention.bound import Bound
from pe_jax.attention.dense import attend
from pe_jax.attention.rows import Rows
from pe_jax.compose.parse import parse
from pe_jax.encoding import RELATIVE, Dims, Encoding, overrides, sites
from pe_jax.model.parameters import init_params, noisy

FAR = 40  # the longest sequence whose positions a probe uses


@dataclasses.dataclass(frozen=True)
class Kind:
    """What probes find of one encoding."""

    reads: str
    """absolute: the output depends on a token's own position. relative: on the positions of two
    tokens, and not while all are equal. both: on either. order: on no position, at most on which
    token comes first. moved: the encoding moves the positions that others read.
    """
    shift_invariant: bool | None
    """Whether the output stays the same when all positions are shifted equally. None for an
    encoding that moves positions: that depends on the encoding which reads them.
    """


@dataclasses.dataclass(frozen=True)
class _Logits(Encoding):
    """Leaves out the softmax, which would hide a term that is the same for all keys of a query."""

    def normalize(self, params, logits):
        return logits


def kind(spec: str) -> Kind:
    """The kind of the encodings of a spec together, from the outputs of one layer of four random
    tokens at six sets of positions. Hooks that move positions count only where there are no others.
    """
    encodings = _serving(spec)
    if moves_positions(encodings):
        return Kind("moved", None)
    bare = () if _has(encodings, "normalize") else (_Logits(encodings[0].dims),)
    here = np.arange(4) + 2
    start, shifted, stretched, stretched_and_shifted, all_at_3, all_at_28 = range(6)
    apart = 3 * here
    places = jnp.asarray(
        [here, here + 25, apart, apart + 20, 0 * here + 3, 0 * here + 28],
    )
    both = jax.jit(lambda places: [_layer(encodings, places, more) for more in ((), bare)])
    out, raw = map(np.asarray, both(places))  # with and without the softmax
    absolute = _differ(raw[all_at_3], raw[all_at_28])
    relative = any(_has(encodings, hook) for hook in RELATIVE) or (
        not absolute and _differ(raw[start], raw[stretched])
    )
    reads = {(True, True): "both", (True, False): "absolute", (False, True): "relative"}
    moved = _differ(out[start], out[shifted])  # the second is of pairs that are further apart
    moved = moved or _differ(out[stretched], out[stretched_and_shifted])
    return Kind(reads.get((absolute, relative), "order"), not moved)


def _has(encodings: tuple[Encoding, ...], hook: str) -> bool:
    return any(overrides(e, hook) for e in encodings)


def _serving(spec: str) -> tuple[Encoding, ...]:
    """The encodings for sequences of FAR tokens, trained at length 8, so that rules which begin
    beyond the training length show; or trained at FAR, if otherwise they serve fewer positions.
    """

    def trained_at(length: int) -> tuple[Encoding, ...]:
        dims = Dims(model=16, heads=2, head=8, layers=1, train_len=length)
        return tuple(
            member.cls(dims, **{**member.fields, "layers": ":"}).at(FAR) for member in parse(spec)
        )

    short = trained_at(8)
    return short if all((e.limit() or FAR) >= FAR for e in short) else trained_at(FAR)


def _layer(
    encodings: tuple[Encoding, ...], places: jax.Array, more: tuple[Encoding, ...]
) -> jax.Array:
    """The attention of one layer at each row of `places`, with noisy parameters."""
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


def _differ(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.abs(a - b).max() > 1e-3 * np.abs(a).max())


FACTS = {"at", "limit"}  # hooks that change no array
GROUPS = {  # an encoding belongs to the first group that has one of its hooks
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
    used = _used(encodings)
    return next((name for name, hooks in GROUPS.items() if used & hooks), "none")


def moves_positions(encodings: Sequence[Encoding]) -> bool:
    """Whether they change positions and nothing else: alone they are the same as nope."""
    used = _used(encodings)
    return bool(used) and used <= FACTS | {"positions"}


def spec_of(name: str, dims: Dims) -> str:
    """The spec to measure an encoding by: its name, with rope where it only moves positions."""
    alone = [member.cls(dims, **member.fields) for member in parse(name)]
    return f"{name}+rope" if moves_positions(alone) else name


def _used(encodings: Sequence[Encoding]) -> set[str]:
    return {site for encoding in encodings for site in sites(encoding)}
