"""The passes of an evaluation over its windows or samples: of the model as it is, with every swap,
and with every segment memory; and what is to be computed for them.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pe_jax.encoding import Encoding, overrides, sites
from pe_jax.encodings.by_parts import ByParts
from pe_jax.encodings.rope import RoPE
from pe_jax.encodings.rotary import Rotary
from pe_jax.evaluation.config import EvalConfig, variant
from pe_jax.model import memory
from pe_jax.record import AS_TRAINED, Curve, Replica, Row, Way
from pe_jax.specs.swap import swap
from pe_jax.task import Task
from pe_jax.tasks import TASKS
from pe_jax.tasks.text import TEXT

SHORTEST = 16
"""The shortest length to which samples are padded."""
REMAPS = "far", "far_positions", "reach"
"""The hooks by which pairs of tokens get other distances than i - j, or are hidden."""


class Key(NamedTuple):
    """Identifies a score of an evaluation."""

    replica: Replica
    way: Way
    metric: str
    length: int


def key_of(scored: Row | Curve) -> Key:
    """What identifies a score or its curve."""
    return Key(scored.replica, scored.way, scored.metric, scored.length)


class Pass(NamedTuple):
    """One way to work through the windows or the samples of one length."""

    way: Way
    length: int
    longest: int
    """The length to whose size samples are padded; of text it is `length`."""
    encodings: tuple[Encoding, ...]
    """Made for this length, or for the size of the padded samples."""
    task: Task = TEXT
    """The task of training, or a variant of it."""
    beyond: int | None = None
    """How many positions the encodings can serve, where these are too few; the pass is then not
    computed.
    """

    def computed(self, tokens: int) -> Pass:
        """The pass in a form that ways of equal scores share: its way is left out, what is RoPE in
        a sequence of so many tokens at the positions 0, 1, .. is RoPE, and windows at the end that
        hide nothing in it are left out. One with a memory is shared by no other way.
        """
        members = self.encodings
        if self.way.memory:
            return self
        if not any(overrides(e, "positions") for e in members):
            members = tuple(_as_rope(e, tokens) for e in members)
        while members and _hides_nothing(members[-1], tokens):
            members = members[:-1]
        return self._replace(way=AS_TRAINED, encodings=members)


class Job(NamedTuple):
    """A pass that is computed once for all ways of equal scores."""

    part: Pass
    todo: dict[tuple[str, Replica], list[Key]]
    """The scores that are wanted of it, for each metric and replica."""


def plan(
    encodings: tuple[Encoding, ...], config: EvalConfig, segment: int = 0, task: Task = TEXT
) -> tuple[Pass, ...]:
    """The passes at every length: of the model as it is, with each swap, on each variant of the
    task, and with each memory in segments of `segment` tokens. ValueError for what is not possible.
    """
    return tuple(
        _pass(way, *_changed(way, encodings, segment, task), length, segment)
        for way in config.ways
        for length in config.lengths
    )


def _changed(
    way: Way, encodings: tuple[Encoding, ...], segment: int, task: Task
) -> tuple[tuple[Encoding, ...], Task]:
    """The encodings and the task of a way. ValueError where it is not possible."""
    if way.swap:
        return swap(encodings, way.swap), task
    if way.variant:
        return encodings, variant(task, way.variant)
    if way.memory:
        memory.check(encodings, way.memory, segment)
    return encodings, task


def _pass(way: Way, members: tuple[Encoding, ...], task: Task, length: int, segment: int) -> Pass:
    needed = way.memory + segment if way.memory else task.size(length)
    limit = min((n for e in members if (n := e.at(needed).limit()) is not None), default=None)
    beyond = limit if limit is not None and limit < needed else None
    longest = length if task.reads_text else padded(task, length, members, limit)
    positions = needed if way.memory else task.size(longest)
    made = tuple(e.at(positions) for e in members)
    return Pass(way, length, longest, made, task, beyond)


def padded(task: Task, n: int, members: Sequence[Encoding] = (), limit: int | None = None) -> int:
    """The length to whose size samples of length n are padded: the next power of two, so that few
    programs serve many lengths. n itself where an encoding is made for a length (`Encoding.at`) or
    could not serve so many positions, and where a user's own task has no samples of that length.
    """
    longest = max(SHORTEST, 1 << (n - 1).bit_length())
    made_for_it = any(overrides(e, "at") for e in members)
    too_many = limit is not None and limit < task.size(longest)
    unknown = type(task) not in TASKS.values() and not task.has(longest)
    return n if made_for_it or too_many or unknown else longest


def wanted(passes: Sequence[Pass], config: EvalConfig, seeds: Sequence[int]) -> list[Key]:
    """All scores of the passes, in the order of the record: by pass, metric and replica."""
    return [
        Key(replica, part.way, metric, part.length)
        for part, metric in itertools.product(passes, config.metrics)
        for replica in config.replicas(metric, seeds)
    ]


def jobs(passes: Sequence[Pass], keys: Sequence[Key]) -> list[Job]:
    """What is to be computed for the scores `keys`. Places and samples come one after another, each
    in every way at every length, so that the scores so far always compare all ways.
    """
    computed = _computed(passes)
    jobs: dict[tuple[int, Pass], Job] = {}
    for key in sorted(keys, key=_turn):
        part = computed[key.way, key.length]
        job = jobs.setdefault((_turn(key), part), Job(part, {}))
        job.todo.setdefault((key.metric, key.replica), []).append(key)
    return list(jobs.values())


def left(
    passes: Sequence[Pass], config: EvalConfig, seeds: Sequence[int], known: Collection[Key]
) -> tuple[list[Key], dict[Key, Key], list[Job]]:
    """(the scores that are wanted and not `known`, in the order of the record; for those of them
    that share a pass with a known score, this one; what is to be computed for the others).
    """
    computed, there = _computed(passes), dict[tuple[Pass, str, Replica], Key]()

    def place(key: Key) -> tuple[Pass, str, Replica]:
        return computed[key.way, key.length], key.metric, key.replica

    for key in known:
        if (key.way, key.length) in computed:
            there[place(key)] = key
    keys = [key for key in wanted(passes, config, seeds) if key not in known]
    equal = {key: there[place(key)] for key in keys if place(key) in there}
    return keys, equal, jobs(passes, [key for key in keys if key not in equal])


def _computed(passes: Sequence[Pass]) -> dict[tuple[Way, int], Pass]:
    """`Pass.computed` of each, by its way and length."""
    return {(part.way, part.length): part.computed(part.task.size(part.length)) for part in passes}


def _turn(key: Key) -> int:
    """Seeds share their passes; of places and samples each has its own turn."""
    return 0 if key.replica.kind == "seed" else key.replica.number


@functools.cache
def _as_rope(encoding: Encoding, tokens: int) -> Encoding:
    """RoPE where the encoding turns by RoPE's frequencies, to the bit, and does nothing else in a
    sequence of so many tokens, as a scaling within the training length; else the encoding itself.
    Positions are 0, 1, ..
    """
    e, cls = encoding, type(encoding)
    if not isinstance(e, Rotary) or not {*sites(e)} <= {"at", "qk", "scale", *REMAPS}:
        return e
    if any(getattr(cls, own) is not getattr(Rotary, own) for own in ("qk", "_angles")):
        return e
    rope = RoPE(e.dims, e.base, per_layer=e.per_layer, layers=e.layers)
    if overrides(e, "scale"):  # that of ByParts does not depend on positions
        if cls.scale is not ByParts.scale or np.any(np.asarray(e.scale({}, jnp.zeros(1))) != 1):
            return e
    if not _keeps_all_distances(e, tokens):
        return e
    return rope if np.array_equal(e._frequencies(), rope._frequencies()) else e


def _keeps_all_distances(encoding: Encoding, tokens: int) -> bool:
    """Whether every query of a sequence of so many tokens sees all keys before it, at i - j."""
    if _hides(encoding, tokens):
        return False
    if not overrides(encoding, "far"):
        return True
    positions = jnp.arange(tokens)

    @jax.jit
    def moved():
        own = positions[:, None] - positions[None]
        q, k = encoding.far_positions(positions, positions)
        return (encoding.far(positions, positions) & (q[:, None] - k[None] != own)).any()

    return not moved()


def _hides(encoding: Encoding, tokens: int) -> bool:
    """Whether a key before a query of a sequence of so many tokens is not among the last and the
    first that the query sees.
    """
    reach = encoding.reach()
    return reach is not None and sum(reach) < tokens


def _hides_nothing(encoding: Encoding, tokens: int) -> bool:
    """Whether it is a window, and nothing besides, that hides no key of the sequence."""
    window = "reach" in sites(encoding) and {*sites(encoding)} <= {"reach", "at"}
    return window and not _hides(encoding, tokens)
