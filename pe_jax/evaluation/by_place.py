"""Scores of one window at a time: place after place, each in every way and at every length, so that
what is there at any time compares all ways.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flax import nnx

from pe_jax.evaluation import effect
from pe_jax.evaluation.passes import Pass
from pe_jax.evaluation.room import Room
from pe_jax.evaluation.scoring import Missing, score, target_nats
from pe_jax.evaluation.windows import Windows
from pe_jax.reason import Reason
from pe_jax.training.session import Session

Key = tuple[int, str, int]
"""(number of the place, swap, length)"""
Line = dict[str, Any]
"""place, swap, length, value, reason and at, as in record.Row, whose `seed` is the place; seconds,
of a pass that was compiled before and that no other swap comes to, else None; evaluated and of, in
tokens, as in a history.
"""


def key_of(line: Line) -> Key:
    """What a line is the score of."""
    return line["place"], line["swap"], line["length"]


def by_place(
    graphdef: nnx.GraphDef,
    params: Any,
    passes: Sequence[Pass],
    cuts: Mapping[int, Windows],
    known: Mapping[Key, Line],
    session: Session,
) -> Iterator[Line]:
    """A line, also added to the session's history, for each score that is not known, of one seed's
    `params`. `cuts` has for each length a window of every place. Interrupted when `session.stop`
    says so.
    """
    same = {(part.swap, part.length): _computed(part, passes) for part in passes}
    places = range(min(len(cut.tokens) for cut in cuts.values()))
    every = [(place, *way) for place in places for way in same]
    todo = [key for key in every if key not in known or known[key]["reason"] == "out_of_memory"]
    costs = {(place, same[swap, length]): length for place, swap, length in todo}
    total, done, compiled = sum(costs.values()), 0, set()
    found: dict[tuple[int, Pass], float | Missing] = {}
    room = Room(None)
    for place, swap, length in todo:
        part = same[swap, length]
        began = time.monotonic()
        fresh = (place, part) not in found
        if fresh:
            program = functools.partial(
                target_nats, graphdef=graphdef, encodings=part.encodings, segment=0, memory=0
            )
            found[place, part] = _score(program, params, part, cuts[length], place, session, room)
        value = found[place, part]
        missing = value if isinstance(value, Missing) else None
        done += length * fresh
        line = {
            "place": place,
            "swap": swap,
            "length": length,
            "value": None if missing else value,
            "reason": missing and missing.reason.value,
            "at": missing and missing.at,
            "seconds": time.monotonic() - began if fresh and part in compiled else None,
            "evaluated": done,
            "of": total,
        }
        compiled.add(part)
        session.history.add(**line)
        yield line
        session.stop(lambda: None)


def _computed(part: Pass, passes: Sequence[Pass]) -> Pass:
    """The first pass of the same length that gives the same scores: of a scaling within the
    training length that is the model as it is.
    """
    of_length = (other for other in passes if other.length == part.length)
    return next(other for other in of_length if other == part or effect.alike(other, part))


def _score(
    program: functools.partial,
    params: Any,
    part: Pass,
    cut: Windows,
    place: int,
    session: Session,
    room: Room,
) -> float | Missing:
    """What the model scores at one place, or why it has no score."""
    if part.beyond is not None:
        return Missing(Reason.BEYOND_POSITIONS, part.beyond)
    here = slice(place, place + 1)
    one = dataclasses.replace(
        cut, tokens=cut.tokens[here], sizes=cut.sizes[here], lo=cut.lo[here], hi=cut.hi[here]
    )
    nats = score(one, program, params, 1, session, room)
    return nats if isinstance(nats, Missing) else one.value(nats)
