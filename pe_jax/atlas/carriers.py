"""Which parts of a trained model carry position: what its predictions lose where one part alone has
the tokens at other positions, or in another order.

A part is an encoding, a window, the causal mask, a mixer, or the decay or convolution of a mixer.
Its hooks get the tokens in another order, at the positions of the places, and what they give is put
back: RoPE turns a token by the angle of another place, a convolution sees other neighbours. Of each
window one target is scored. A causal model reads no token beyond the one at which it is predicted,
which stays the last: no disturbed part can show the target.

Axes: W windows, T tokens, V ids that may be predicted.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Int

from pe_jax.atlas.weights import sequences
from pe_jax.attention.rows import visible_pairs
from pe_jax.encoding import HIDDEN, HOOKS, RELATIVE, Encoding, mixes, overrides, sites
from pe_jax.model.config import LmConfig
from pe_jax.report.phrases import join, plusminus
from pe_jax.report.sheet import Note, Printed, Sheet
from pe_jax.report.stats import Interval, interval
from pe_jax.runs.trained import Trained
from pe_jax.specs.parse import BESIDE_MIXERS, layers_of
from pe_jax.training.step import structure

RADIUS = 4  # a shuffled token is less than so many places from its own
WINDOWS, REACHED = 256, 4  # windows that are scored, and in which the reach is measured
MOVED = 0.01  # the change of a probability by which a token is within reach
LEAST = 0.01  # nats that a carrier of position loses at least
NOTE = Note(
    "carriers",
    "nats that predictions lose where a part is disturbed, with intervals of 95 % over windows. "
    "Frozen: it has all tokens at one position, in a random order; a decay is 1, a convolution has "
    f"all its taps at the token. Shuffled: each token is less than {RADIUS} places from its own. "
    "Shifted: positions are higher. Reach: the distance of the farthest token that moves a "
    f"probability by more than {MOVED:.0%}; of a part, where it is frozen. A part carries position "
    f"if it loses more than {LEAST} nats frozen or shuffled, by the lower end of the interval.",
    general=True,
)


class Disturbance(NamedTuple):
    """How a part is disturbed, in numbers, so that one program serves all of them."""

    radius: float = 0.0  # tokens are ordered anew, less than so many places from their own
    same: bool = False  # all have the position of the first
    shift: int = 0  # of positions


# A disturbed encoding

TAKEN = {"x": (-2,), "tokens": (-1,), "q": (-3,), "k": (-3,), "logits": (-2, -1)}
"""The axes of tokens of a hook's arguments."""
GIVEN = {"positions": (-1,), "embed": (-2,), "mix": (-2,), "qk": (-3,), "scale": (-2,)}
GIVEN |= dict.fromkeys(("far", "bias", "gate", "logits", "normalize"), (-2, -1))
"""The axes of tokens of what a hook gives."""
ENTRIES = {"rate": "decay", "taps": "convolution"}
"""Parts of a mixer, by the entries of its `init`."""


@dataclasses.dataclass(frozen=True)
class _Disturbed(Encoding):
    # (the encoding, the order of the tokens, the disturbance, the disturbed entry of `init`)
    by: Any = dataclasses.field(default=None, compare=False, kw_only=True)


def _disturbed(e: Encoding, *by: Any) -> Encoding:
    hooks = {*sites(e)} - {"at", "limit", "reach"}
    for hook in filter(functools.partial(_by_pairs, e), ("bias", "gate")):
        hooks = hooks - {f"relative_{hook}"} | {hook}
    hooks |= {"locate"} if hooks - BESIDE_MIXERS else set()
    body = {hook: _passed(hook) for hook in hooks} | {"per_sequence": e.per_sequence}
    cls = type("Disturbed", (_Disturbed,), body)
    return cls(e.dims, by=(e, *by), layers=e.layers, where=e.where)


# Whether relative_bias or relative_gate is evaluated for pairs of positions, at `bias` or `gate`
def _by_pairs(e: Encoding, hook: str) -> bool:
    located = overrides(e, "locate")
    return hook in ("bias", "gate") and overrides(e, f"relative_{hook}") and not located


def _passed(hook: str) -> Callable:
    @functools.wraps(getattr(Encoding, hook))
    def call(self, *arguments):
        e, order, (_, same, shift), entry = self.by
        given = dict(zip(HOOKS[hook][1:], arguments, strict=True))
        given |= {name: _ordered(given[name], order, TAKEN[name]) for name in given.keys() & TAKEN}

        def placed(pos):
            return jnp.where(same, pos[:1], pos) + shift

        def distance(n):  # below 0 in pairs that the mask hides
            return jnp.where(same, 0, jnp.maximum(n, 0) if self.dims.causal else n)

        if entry and "params" in given:  # a decay of 1, or all taps at the present token
            a = given["params"][entry]
            summed = jnp.zeros_like(a).at[0].set(a.sum(0))
            still = jnp.full_like(a, -jnp.inf) if entry == "rate" else summed
            given["params"] = given["params"] | {entry: jnp.where(same, still, a)}
        if "n" in given:
            given["n"] = distance(given["n"])
        if hook in ("embed", "locate"):
            moved = overrides(e, "positions")
            given["pos"] = given["pos"][order] if moved else placed(given["pos"])
        out = getattr(e, hook)(**given)
        if hook == "locate":
            return jax.tree.map(lambda a: jnp.where(same, a[:1], a), out)
        if hook == "positions":
            out = placed(out)
        if _by_pairs(e, hook):
            n = distance(given["q_pos"][:, None] - given["k_pos"][None])
            values = getattr(e, f"relative_{hook}")(given["params"], n.ravel())
            values = values.reshape(-1, *n.shape)
            out = out + values if hook == "bias" else out * values
        back = jnp.argsort(order)
        return jax.tree.map(lambda a: _ordered(a, back, GIVEN.get(hook, ())), out)

    return call


# Along the axes that have the size of the order: others broadcast, or are of a mixer's state.
def _ordered(a: Any, order: Int[Array, "T"], axes: tuple[int, ...]) -> Any:
    for axis in axes:
        if jnp.ndim(a) >= -axis and a.shape[axis] == len(order):
            a = jnp.take(a, order, axis)
    return a


# A model with one disturbed part


@dataclasses.dataclass(frozen=True)
class _Mask(Encoding):
    # A window, or without one the causal mask, as a term of the logits
    window: Any = None

    def locate(self, params, x, pos, before):
        return jnp.arange(len(x))

    def bias(self, params, q_pos, k_pos):
        windows = [self.window] if self.window else []
        sees = visible_pairs(not windows, windows, q_pos[:, None], k_pos[None])
        return jnp.where(sees, 0.0, HIDDEN)[None]

    def logits(self, params, logits, q, k, q_pos, k_pos):
        return jnp.where(self.bias(params, q_pos, k_pos) < 0, HIDDEN, logits)


def with_masks(encodings: Sequence[Encoding]) -> tuple[Encoding, ...]:
    """The encodings, then a member for each window and for the causal mask."""
    dims, mixed = encodings[0].dims, {i for e in encodings if mixes(e) for i in layers_of(e)}
    attending = ",".join(str(i) for i in range(dims.layers) if i not in mixed)
    windows = [_Mask(dims, e.reach(), layers=e.layers) for e in encodings if e.reach()]
    causal = [_Mask(dims, layers=attending if mixed else ":")] if dims.causal and attending else []
    return *encodings, *windows, *causal


class Part(NamedTuple):
    """A member of a model, or an entry of its parameters."""

    name: str
    member: int
    entry: str = ""


def parts(members: Sequence[Encoding]) -> Iterator[Part]:
    """The parts of a model that may carry position; `members` are `with_masks`."""
    for i, e in enumerate(members):
        name = type(e).__name__
        if isinstance(e, _Mask):
            name = "window" if e.window else "causal mask"
        name += f"[{e.layers}]" * (e.layers != ":")
        if {*sites(e)} - {"at", "limit", "reach"}:
            yield Part(name, i)
        drawn = jax.eval_shape(e.init, jax.random.key(0)) if mixes(e) else {}
        for entry in sorted(ENTRIES.keys() & drawn.keys()):
            yield Part(f"{ENTRIES[entry]} of {name}", i, entry)


class Windows(NamedTuple):
    """Windows of text, or samples, with the target at one place of each."""

    tokens: Int[np.ndarray, "W T"]
    targets: Int[np.ndarray, "W"]
    places: Int[np.ndarray, "W"]


# ln p of the first `ids` ids at the places, [W, V], with a part disturbed; `members`, with
# masks, are set for T tokens.
@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _log_probabilities(
    config, members, ids, part, params, windows: Windows, disturbance: Disturbance
):
    masked = dataclasses.replace(config, attention="dense", causal=False)  # by a member
    own = tuple(e for e in members if not isinstance(e, _Mask))
    model = nnx.merge(structure(masked, own)[0], params, copy=True)

    def of_window(window: Windows):
        tokens, target, place = window
        T, key = len(tokens), jax.random.key(0)
        same, free = jnp.arange(T), jnp.arange(T) < (place if config.causal else T)
        noise = jax.random.uniform(jax.random.fold_in(key, target * T + place), (T,))
        away = 0 if part.entry else disturbance.radius * noise
        order = jnp.argsort(jnp.where(free, same + away, jnp.inf))
        by = [(same, Disturbance(), "")] * len(members)
        by[part.member] = order, disturbance, part.entry
        disturbed = tuple(_disturbed(e, *how) for e, how in zip(members, by, strict=True))
        size = place + 1 if config.causal else None
        rows, _ = model(tokens[None], encodings=disturbed, key=key, size=size, rows=True)
        return jax.nn.log_softmax(model.logits_of(rows[:, place][:, None])[0, 0, :ids])

    return jax.lax.map(of_window, windows, batch_size=16)


class Measured(NamedTuple):
    """What was measured of a part, or of the model as it is, which loses nothing."""

    name: str
    reach: int
    lost: Mapping[str, Interval | str]  # nats by disturbance; a text: why there are none

    @property
    def carries(self) -> bool:
        """Whether it carries position, as NOTE says."""
        nats = self.lost["frozen"], self.lost["shuffled"]
        return any(isinstance(n, Interval) and n.mean - n.half > LEAST for n in nats)


def measure(
    config: LmConfig, encodings: Sequence[Encoding], params: Any, windows: Windows, ids: int
) -> list[Measured]:
    """The model as it is, then each part that may carry position. `ids` ids are predicted."""
    (W, T), length = windows.tokens.shape, encodings[0].dims.train_len
    members, targets = with_masks([e.at(T) for e in encodings]), (np.arange(W), windows.targets)
    disturbances = {
        "frozen": Disturbance(1e6, same=True),
        "shuffled": Disturbance(float(RADIUS)),
        "shifted by 1": Disturbance(shift=1),
        f"shifted by {length}": Disturbance(shift=length),
    }
    run = functools.partial(_log_probabilities, config, members, ids, Part("", -1), params)
    plain = np.asarray(run(windows, Disturbance()), np.float64)[targets]
    nothing = dict.fromkeys(disturbances, Interval(0.0, 0.0, W))
    out = [Measured("the model as it is", _reach(run, windows, Disturbance(), ids), nothing)]
    for part in parts(members):
        run = functools.partial(_log_probabilities, config, members, ids, part, params)
        lost = {
            name: _refusal(members, part, disturbance, T)
            or interval(plain - np.asarray(run(windows, disturbance), np.float64)[targets])
            for name, disturbance in disturbances.items()
        }
        out.append(Measured(part.name, _reach(run, windows, disturbances["frozen"], ids), lost))
    return out


# Why the part cannot be disturbed so; "": it can
def _refusal(members: Sequence[Encoding], part: Part, disturbance: Disturbance, tokens: int) -> str:
    e = members[part.member]
    if part.entry:
        return "" if disturbance.same else f"the {ENTRIES[part.entry]} of a mixer has no positions"
    if disturbance.shift:
        moving = [m for m in members if overrides(m, "positions")]
        highest = max([tokens, *(m.limit() or 0 for m in moving)]) + disturbance.shift
        served = min(m.limit() or highest for m in (members if e in moving else [e]))
        return f"there are {served} positions" if served < highest else ""
    distances = any(overrides(e, hook) and not _by_pairs(e, hook[9:]) for hook in RELATIVE)
    return "it gets distances, not places" if distances and not disturbance.same else ""


def _reach(predict: Callable, windows: Windows, disturbance: Disturbance, ids: int) -> int:
    (W, T), reach = windows.tokens.shape, 0
    count = max(W, T + 1)  # of W windows there is a program
    for i in range(REACHED):
        one = Windows(*(np.repeat(a[i : i + 1], count, axis=0) for a in windows))
        changed = (one.tokens + np.eye(count, T, dtype=np.int32)) % ids  # the last is as it was
        tokens = np.where(one.tokens < ids, changed, one.tokens)  # hidden ones stay hidden
        p = np.exp(predict(one._replace(tokens=tokens), disturbance))
        moved = np.flatnonzero(np.abs(p[:T] - p[-1]).max(-1) > MOVED)
        reach = max([reach, *np.abs(moved - windows.places[i])])
    return int(reach)


def of_model(model: Trained) -> list[Measured]:
    """The parts of a trained model, by its text, or by samples of its task, of the training length.
    Raises as `weights.sequences`.
    """
    run, rng = model.run, np.random.default_rng(0)
    task, keys = run.task.scored_form(), jax.random.split(jax.random.key(0), WINDOWS)
    if task.reads_text:
        texts = jnp.asarray(sequences(model, WINDOWS)[:, : run.train.length + 1])
        drawn = jax.vmap(functools.partial(task.cut, vocab=run.lm.vocab))(texts, keys)
    else:
        length = max(n for n in range(1, run.train.length + 1) if task.has(n))
        drawn = jax.vmap(lambda key: task.sample(key, jnp.int32(length), length))(keys)
    tokens, targets, scored = (np.asarray(a)[drawn.scored.any(1)] for a in drawn)
    places = np.array([rng.choice(row[len(row) // 2 :]) for row in map(np.flatnonzero, scored)])
    windows = Windows(tokens, targets[np.arange(len(places)), places], places)
    ids = run.lm.vocab - task.masks()
    return measure(run.lm, run.encodings, jax.device_put(model.params), windows, ids)


def sheet(name: str, every: Sequence[Measured]) -> Sheet:
    """The table of the parts of a model."""

    def cell(lost: Interval | str) -> Printed:
        if isinstance(lost, str):
            return Printed("n/a", reason=lost)
        return Printed(plusminus(lost.mean, lost.half, "+"), lost.mean)

    rows = tuple(
        (Printed(one.name), Printed(str(one.reach)), *map(cell, one.lost.values())) for one in every
    )
    columns = ("part", "reach", *every[0].lost)
    texts = [[cell.text for cell in row] for row in rows]
    numbers = tuple({"model": name} | dict(zip(columns, row, strict=True)) for row in texts)
    carrying = [one.name for one in every if one.carries] or ["no part"]
    lead = f"Position is carried by {join(carrying)}."
    return Sheet(name, columns, (("", rows),), (NOTE,), numbers, lead=lead)
