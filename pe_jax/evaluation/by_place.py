"""Scores of one window at a time: place after place, each in every way and at every length, so that
what is there at any time compares all ways.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from flax import nnx

from pe_jax.evaluation.budget import Budget
from pe_jax.evaluation.passes import Pass
from pe_jax.evaluation.scoring import Missing, score, target_nats
from pe_jax.evaluation.windows import Windows
from pe_jax.reason import Reason
from pe_jax.training.session import Session

Key = tuple[int, str, int]
"""(number of the place, swap, length)"""
Line = dict[str, Any]
"""place, swap, length, value, reason and at, as in record.Row, whose `seed` is the place; seconds
of the pass, which several swaps may come to, None where it was compiled in them; evaluated and of,
in tokens, as in a history.
"""
Score = Callable[[Pass, int], float | Missing]
"""What a model scores in a pass at a place, or why it has no score."""


def key_of(line: Line) -> Key:
    """What a line is the score of."""
    return line["place"], line["swap"], line["length"]


def by_place(
    passes: Sequence[Pass],
    places: int,
    scored: Score,
    known: Mapping[Key, Line],
    session: Session,
) -> Iterator[Line]:
    """A line, also added to the session's history, for each score that is not known. Interrupted
    when `session.stop` says so.
    """
    same = {(part.swap, part.length): part.computed(part.task.size(part.length)) for part in passes}
    todo: dict[tuple[int, Pass], list[Key]] = {}
    for key in ((place, *way) for place in range(places) for way in same):
        if key not in known or known[key]["reason"] == "out_of_memory":
            todo.setdefault((key[0], same[key[1:]]), []).append(key)
    compiled, done = set(), 0
    total = sum(part.length for _, part in todo)
    for (place, part), keys in todo.items():
        began = time.monotonic()
        beyond = None if part.beyond is None else Missing(Reason.BEYOND_POSITIONS, part.beyond)
        value = beyond or scored(part, place)
        seconds = time.monotonic() - began if part in compiled else None
        compiled.add(part)
        done += part.length
        for _, swap, length in keys:
            line = {"place": place, "swap": swap, "length": length} | _told(value)
            line |= {"seconds": seconds, "evaluated": done, "of": total}
            session.history.add(**line)
            yield line
        session.stop(lambda: None)


def _told(value: float | Missing) -> Line:
    """What a line says of a value, or of why there is none."""
    if isinstance(value, Missing):
        return {"value": None, "reason": value.reason.value, "at": value.at}
    return {"value": value, "reason": None, "at": None}


def of_text(
    graphdef: nnx.GraphDef, params: Any, cuts: Mapping[int, Windows], session: Session
) -> Score:
    """What scores the windows of each length, one of every place, with one seed's `params`."""
    budget = Budget(None)

    def score_of(part: Pass, place: int) -> float | Missing:
        cut, here = cuts[part.length], slice(place, place + 1)
        one = dataclasses.replace(
            cut, tokens=cut.tokens[here], sizes=cut.sizes[here], lo=cut.lo[here], hi=cut.hi[here]
        )
        program = functools.partial(
            target_nats, graphdef=graphdef, encodings=part.encodings, segment=0, memory=0
        )
        nats = score(one, program, params, 1, session, budget)
        return nats if isinstance(nats, Missing) else one.value(nats)

    return score_of
