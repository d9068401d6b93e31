"""The passes of an evaluation over its windows or samples: of the model as it is, with every swap,
on every variant of the task and with every segment memory; and the jobs that compute them.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pe_jax.encoding import Encoding, overrides, sites
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
ROTARY = {"at", "qk", "scale", "far", "far_positions", "reach"}
"""The hooks of an encoding that may be RoPE in short sequences (`_as_rope`)."""


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
    """The number of positions that the encodings serve, where these are too few; the pass is then
    not computed.
    """

    def computed(self) -> Pass:
        """The pass without what changes no score, so that ways can share it: without its way, with
        RoPE for encodings that equal it at this length, and without the last members of the spec if
        they are windows that hide nothing. A pass with a memory is shared by no other way.
        """
        if self.way.memory:
            return self
        members, tokens = self.encodings, int(self.task.size(self.length))
        if not any(overrides(e, "positions") for e in members):
            members = tuple(_as_rope(e, tokens) for e in members)
        while members and {*sites(members[-1])} - {"at"} == {"reach"}:
            if _hides(members[-1], tokens):
                break
            members = members[:-1]
        return self._replace(way=AS_TRAINED, encodings=members)


class Scored(NamedTuple):
    """The score of one replica by one metric in one way at one length."""

    row: Row
    curve: Curve | None = None

    def of(self, way: Way) -> Scored:
        """The same in another way, which shares its pass."""
        curve = self.curve and dataclasses.replace(self.curve, way=way)
        return Scored(dataclasses.replace(self.row, way=way), curve)


class Job(NamedTuple):
    """A pass that is computed once for all ways of equal scores."""

    part: Pass
    ways: dict[tuple[str, Replica], list[Way]]
    """The ways that lack the score, for each metric and replica."""


def work(tokens: int, width: int) -> int:
    """The work of a window of n tokens in a model of width D: n (n + 3 D), since attention grows
    with n. So does the time of SmolLM2-135M on a CPU, within a quarter, from 512 to 16,384 tokens.
    """
    return tokens * (tokens + 3 * width)


def plan(
    encodings: tuple[Encoding, ...], config: EvalConfig, segment: int = 0, task: Task = TEXT
) -> tuple[Pass, ...]:
    """The passes at every length: of the model as it is, with each swap, on each variant of the
    task, and with each memory in segments of `segment` tokens. ValueError for what is not possible.
    """
    passes = []
    for way in config.ways:
        members = swap(encodings, way.swap) if way.swap else encodings
        of_way = variant(task, way.variant).scored_form()
        if way.memory:
            memory.check(encodings, way.memory, segment)
        for length in config.lengths:
            needed = way.memory + segment if way.memory else of_way.size(length)
            limits = [n for e in members if (n := e.at(needed).limit()) is not None]
            limit = min(limits, default=None)
            beyond = limit if limit is not None and limit < needed else None
            longest = length if of_way.reads_text else padded(of_way, length, members, limit)
            positions = needed if way.memory else of_way.size(longest)
            made = tuple(e.at(positions) for e in members)
            passes.append(Pass(way, length, longest, made, of_way, beyond))
    return tuple(passes)


def padded(task: Task, n: int, members: Sequence[Encoding] = (), limit: int | None = None) -> int:
    """The length to whose size samples of length n are padded: the next power of two, so that few
    programs serve many lengths. n itself where an encoding is made for a length (`Encoding.at`) or
    has no such positions, or a sample would have over twice the tokens or is none of a user's task.
    """
    longest = max(SHORTEST, 1 << (n - 1).bit_length())
    made_for_it = any(overrides(e, "at") for e in members)
    unknown = type(task) not in TASKS.values() and not task.has(longest)
    most = 2 * task.size(max(n, SHORTEST))
    return n if made_for_it or unknown or task.size(longest) > min(most, limit or most) else longest


def missing_jobs(
    passes: Sequence[Pass],
    config: EvalConfig,
    seeds: Sequence[int],
    known: Mapping[Key, Scored],
) -> tuple[list[Scored], list[Job]]:
    """(the scores that a `known` one of a shared pass gives; the jobs that compute the others).

    Places and samples come one after another, each in every way at every length, so that the scores
    so far always compare all ways.
    """
    sharing: dict[tuple[Pass, str, Replica], list[Key]] = {}
    for part in passes:
        computed = part.computed()
        for metric in config.metrics:
            for replica in config.replicas(metric, seeds):
                key = Key(replica, part.way, metric, part.length)
                sharing.setdefault((computed, metric, replica), []).append(key)
    shared, jobs = [], dict[tuple[int, Pass], Job]()
    for (part, metric, replica), keys in sharing.items():
        there = [known[key] for key in keys if key in known]
        ways = [key.way for key in keys if key not in known]
        if there:
            shared += [there[-1].of(way) for way in ways]
        else:  # seeds share a job, places and samples do not
            turn = 0 if replica.kind == "seed" else replica.number
            job = jobs.setdefault((turn, part), Job(part, {}))
            job.ways[metric, replica] = ways
    return shared, [jobs[turn] for turn in sorted(jobs, key=lambda turn: turn[0])]


# RoPE where e turns by the frequencies of RoPE, to the bit, and does nothing else to tokens at
# the positions 0, 1, .., as a scaling within the training length; else the encoding itself.
@functools.cache
def _as_rope(e: Encoding, tokens: int) -> Encoding:
    if not isinstance(e, Rotary) or not {*sites(e)} <= ROTARY or overrides(e, "init"):
        return e
    if (type(e).qk, type(e)._angles) != (Rotary.qk, Rotary._angles) or _hides(e, tokens):
        return e
    rope = RoPE(e.dims, e.base, e.rotary_pct, per_layer=e.per_layer, layers=e.layers)
    pos = jnp.arange(tokens)
    if not np.array_equal(e._frequencies(), rope._frequencies()) or e._gain() != 1:
        return e
    if overrides(e, "scale") and np.any(np.asarray(e.scale({}, pos)) != 1):
        return e
    return e if overrides(e, "far") and _moves(e, pos) else rope


# Whether a far pair of tokens has another distance than i - j.
@functools.partial(jax.jit, static_argnums=0)
def _moves(e: Encoding, pos: jax.Array) -> jax.Array:
    q, k = e.far_positions(pos, pos)
    return (e.far(pos, pos) & (q[:, None] - k[None] != pos[:, None] - pos[None])).any()


# Whether a window hides a key before a query of a sequence of so many tokens.
def _hides(encoding: Encoding, tokens: int) -> bool:
    reach = encoding.reach()  # two-sided, the first token sees no key after its window
    return reach is not None and reach[0] + encoding.dims.causal * reach[1] < tokens
