"""What kind of encoding one is: computed, from the sites that it overrides and by probing one
layer with positions.

Nothing here knows an encoding by name, but for rope as a companion of those that only move the
positions which others read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from pe_jax.bound import Bound
from pe_jax.dense import attend
from pe_jax.encoding import RELATIVE, Dims, Encoding, overrides, sites
from pe_jax.encodings import ENCODINGS
from pe_jax.parameters import init_params
from pe_jax.rows import rows
from pe_jax.spec import parse

FACTS = {"at", "limit"}
GROUPS = {  # the first that fits
    "content": {
        "locate",
        "logits",
        "normalize",
        "relative_keys",
        "relative_queries",
        "relative_values",
    },
    "rotation": {"qk"},
    "bias": {"bias", "gate", "relative_bias", "relative_gate"},
    "input": {"embed"},
    "scale": {"scale"},
    "mask": {"reach"},
}
FAR = 40  # positions that a probe may reach


def moves_positions(encodings: Sequence[Encoding]) -> bool:
    """Whether `positions` is all that they change: alone they would be nope."""
    used = {site for e in encodings for site in sites(e)}
    return bool(used) and used <= FACTS | {"positions"}


def spec_of(name: str, dims: Dims) -> str:
    """The spec to judge `name` by: itself, or with rope where it only moves positions."""
    alone = [member.cls(dims, **member.fields) for member in parse(name)]
    return f"{name}+rope" if moves_positions(alone) else name


def group(encodings: Sequence[Encoding]) -> str:
    """Where position enters: content (logits that depend on what is asked or said), rotation,
    bias, input, scale or mask; "none" of them is nope's.
    """
    used = {site for e in encodings for site in sites(e)}
    return next((name for name, hooks in GROUPS.items() if used & hooks), "none")


@dataclasses.dataclass(frozen=True)
class Kind:
    """What probes find of one encoding."""

    reads: str
    """absolute: something depends on a token's own position. relative: on the positions of two,
    and on nothing while all are equal. both. order: on no position, but on which token comes
    before which, or on nothing. moved: it moves the positions that others read.
    """
    shift_invariant: bool | None
    """Whether the output stays when all positions shift. None: as the others', or if there is
    none to read.
    """


@dataclasses.dataclass(frozen=True)
class _Logits(Encoding):
    """Shows what the softmax would hide: the same term at all keys of a query."""

    def normalize(self, params, logits):
        return logits


def kind(name: str) -> Kind:
    """By the output of one layer of four tokens, of random numbers, at four sets of positions."""
    e = _serving(name)
    if moves_positions((e,)):
        return Kind("moved", None)
    bare = () if overrides(e, "normalize") else (_Logits(e.dims),)
    here = np.arange(4) + 2
    places = jnp.asarray([here, here + 25, 3 * here, 0 * here + 3, 0 * here + 28])
    both = jax.jit(lambda places: [_layer(e, places, more) for more in ((), bare)])
    out, raw = map(np.asarray, both(places))
    absolute = _differ(raw[3], raw[4])
    relative = bool(set(sites(e)) & {*RELATIVE}) or (not absolute and _differ(raw[0], raw[2]))
    reads = {(True, True): "both", (True, False): "absolute", (False, True): "relative"}
    return Kind(reads.get((absolute, relative), "order"), not _differ(out[0], out[1]))


def _serving(name: str) -> Encoding:
    """Trained at 8, where rules that begin beyond the training length show, or at FAR, where it
    then serves too few positions.
    """
    for length in (8, FAR):
        e = ENCODINGS[name](Dims(model=16, heads=2, head=8, layers=1, train_len=length)).at(FAR)
        if (e.limit() or FAR) >= FAR:
            break
    return e


def _layer(e: Encoding, places, more: tuple[Encoding, ...]):
    """The attention of one layer at each row of `places`; parameters have noise on them, since
    some begin where they do nothing.
    """
    rng, (L, D, H, K) = np.random.default_rng(0), (places.shape[1], *e.dims[:3])

    def normal(shape, scale=1.0):
        return jnp.asarray(scale * rng.normal(size=shape), jnp.float32)

    shared, owned = init_params(e, jax.random.key(0))
    params = jax.tree.map(lambda a: a + normal(a.shape, 0.3), shared | owned.get(0, {}))
    x, (q, k, v) = normal((L, D)), normal((3, L, H, K))
    tokens, index = jnp.arange(L, dtype=jnp.int32), jnp.arange(L)
    pe = Bound((params, *({} for _ in more)), (e, *more))

    def one(pos):
        h = e.embed(params, x, tokens, pos) if overrides(e, "embed") else x
        heads, keys = h.reshape(L, H, K), rows(pe, h, index, pos)
        return attend(pe, q + heads, k + heads, v + heads, keys, keys)

    return jax.vmap(one)(places)


def _differ(a, b) -> bool:
    return bool(np.abs(a - b).max() > 1e-3 * np.abs(a).max())
