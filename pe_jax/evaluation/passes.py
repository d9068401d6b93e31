"""The passes of an evaluation over its windows or samples: of the model as it is, with every swap,
and with every segment memory; and what is to be computed for them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from pe_jax.compose.swap import swap
from pe_jax.encoding import Encoding, overrides, sites
from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.variants import variant
from pe_jax.model import memory
from pe_jax.task import Task
from pe_jax.tasks.text import TEXT

SHORTEST = 16
"""The shortest length to which samples are padded."""


class Key(NamedTuple):
    """Which score it is, of all that an evaluation computes."""

    seed: int
    swap: str
    metric: str
    length: int


class Pass(NamedTuple):
    """One way to work through the windows or the samples of one length."""

    swap: str
    """The spec that is swapped in; "": none; "memory M": windows are taken segment by segment; the
    fields of a variant of the task.
    """
    length: int
    longest: int
    """Samples are padded to the size of those of this length; of text it is `length`."""
    encodings: tuple[Encoding, ...]
    """Those for this length, or for the size of the padded samples."""
    memory: int = 0
    """Tokens of the segment memory; 0: none."""
    task: Task = TEXT
    """The task of training, or a variant of it."""
    beyond: int | None = None
    """How many positions the encodings can serve, where these are too few; the pass is then not
    computed.
    """

    def computed(self, tokens: int) -> Pass:
        """The pass that gives the same scores, as it is computed: no swap has a name, and windows
        at the end that no sequence of so many tokens is longer than, which hide nothing, are left
        out.
        """
        members = self.encodings
        while not self.memory and members and _hides_nothing(members[-1], tokens):
            members = members[:-1]
        return self._replace(swap="", encodings=members)


class Job(NamedTuple):
    """A pass that is computed, once for all swaps that come to the same."""

    part: Pass
    todo: dict[tuple[str, int], list[Key]]
    """The scores that are wanted of it, for each metric and seed."""


def plan(
    encodings: tuple[Encoding, ...], config: EvalConfig, segment: int = 0, task: Task = TEXT
) -> tuple[Pass, ...]:
    """The passes at every length: of the model as it is, with each swap, on each variant of the
    task, and with each memory in segments of `segment` tokens. ValueError for what is not possible.
    """
    ways = [_Way("", encodings, task)]
    ways += [_Way(spec, swap(encodings, spec), task) for spec in config.swaps]
    ways += [_Way(text, encodings, variant(task, text)) for text in config.variants]
    for size in config.memory:
        memory.check(encodings, size, segment)
        ways.append(_Way(f"memory {size}", encodings, task, size))
    return tuple(_pass(way, length, segment) for way in ways for length in config.lengths)


class _Way(NamedTuple):
    """A way in which a model is evaluated at every length."""

    name: str
    encodings: tuple[Encoding, ...]
    task: Task
    memory: int = 0


def _pass(way: _Way, length: int, segment: int) -> Pass:
    name, members, task, size = way
    needed = size + segment if size else task.size(length)
    limit = min((n for e in members if (n := e.at(needed).limit()) is not None), default=None)
    beyond = limit if limit is not None and limit < needed else None
    longest = length if task.reads_text else padded(task, length, members, limit)
    positions = size + segment if size else task.size(longest)
    made = tuple(e.at(positions) for e in members)
    return Pass(name, length, longest, made, size, task, beyond)


def padded(task: Task, n: int, members: Sequence[Encoding] = (), limit: int | None = None) -> int:
    """The length to whose size samples of length n are padded: the next power of two, so that few
    programs serve many lengths. n itself where an encoding is made for a length (`Encoding.at`), or
    could not serve so many positions.
    """
    longest = max(SHORTEST, 1 << (n - 1).bit_length())
    made_for_it = any(overrides(e, "at") for e in members)
    too_many = limit is not None and limit < task.size(longest)
    return n if made_for_it or too_many else longest


def wanted(passes: Sequence[Pass], config: EvalConfig, seeds: Sequence[int]) -> list[Key]:
    """All scores of the passes, in the order of the record: by pass, metric and seed."""
    every = itertools.product(passes, config.metrics, seeds)
    return [Key(seed, part.swap, metric, part.length) for part, metric, seed in every]


def jobs(passes: Sequence[Pass], keys: Sequence[Key]) -> list[Job]:
    """What is to be computed for the scores `keys`."""
    computed = {
        (part.swap, part.length): part.computed(part.task.size(part.length)) for part in passes
    }
    found: dict[Pass, Job] = {}
    for key in keys:
        part = computed[key.swap, key.length]
        job = found.setdefault(part, Job(part, {}))
        job.todo.setdefault((key.metric, key.seed), []).append(key)
    return list(found.values())


def _hides_nothing(encoding: Encoding, length: int) -> bool:
    """Whether it is a window, and nothing besides, that is as wide as the sequence."""
    reach = encoding.reach()
    return reach is not None and reach[0] >= length and {*sites(encoding)} <= {"reach", "at"}
