"""The candidates of a search (evolution.py) in a trained model: swaps as candidates, and the loss
of a candidate, by one compiled program for all of them.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from pe_jax.encoding import Encoding
from pe_jax.encodings.longrope import spared_angles
from pe_jax.encodings.rotary import Rotary, Turned
from pe_jax.errors import Refused
from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.evolution import Candidate
from pe_jax.evaluation.passes import plan
from pe_jax.evaluation.room import Room
from pe_jax.evaluation.scoring import Missing, score, target_nats
from pe_jax.evaluation.windows import Windows
from pe_jax.fields import Positive
from pe_jax.geometry import inverse_timescales
from pe_jax.model.config import LmConfig
from pe_jax.reason import Reason, sentence
from pe_jax.spec.swap import swap
from pe_jax.training.session import Session
from pe_jax.training.step import structure


@dataclasses.dataclass(frozen=True)
class Searched(Turned):
    """LongRoPE with a candidate as its parameters."""

    base: Positive = 10000.0

    def init(self, key):
        factors = jnp.ones(self.dims.head // 2)
        return {"factors": factors, "first": jnp.zeros(()), "attention_factor": jnp.ones(())}

    def _angles(self, params, pos):
        w = inverse_timescales(self.dims.head, self.base)
        return spared_angles(pos, params["first"], w, w / params["factors"])

    def scale(self, params, q_pos):
        sharper = params["attention_factor"] ** 2
        return jnp.full((q_pos.shape[0], self.dims.heads), sharper)


def place_of(encodings: tuple[Encoding, ...]) -> int | None:
    """The place of the encoding that `longrope` takes in a swap; None if it takes none. ValueError
    if it would rotate a second time.
    """
    swapped = swap(encodings, "longrope")
    places = (i for i, (a, b) in enumerate(zip(encodings, swapped, strict=False)) if a is not b)
    return next(places, None)


def candidate_of(encodings: tuple[Encoding, ...], name: str, length: int) -> Candidate:
    """A swap of RoPE at a length as a candidate: what it divides frequencies by, and its
    temperature.
    """
    swapped = swap(encodings, name)
    (member,) = (new.at(length) for new, old in zip(swapped, encodings, strict=True) if new != old)
    assert isinstance(member, Rotary)
    w = inverse_timescales(member.dims.head, member.base)
    factors = np.maximum.accumulate(np.asarray(w / member._frequencies(), np.float64))
    sharper = np.max(member.scale({}, jnp.arange(1)))
    rounded = tuple(round(float(factor), 5) for factor in factors)
    return Candidate(rounded, 0, round(math.sqrt(sharper), 5))


class Loss:
    """The value of a metric on windows with a candidate; inf where it is not finite."""

    def __init__(
        self,
        lm: LmConfig,
        encodings: tuple[Encoding, ...],
        params: dict[str, Any],
        cut: Windows,
        config: EvalConfig,
        session: Session,
    ):
        """`params` are those of one seed; `config` is resolved. Refused where an encoding cannot
        serve so many positions, ValueError without rope.
        """
        place, members = place_of(encodings), [*encodings]
        if place is None:
            raise ValueError("there is no rope that factors could be for")
        replaced = swap(encodings, "longrope")[place]
        assert isinstance(replaced, Rotary)
        members[place] = Searched(replaced.dims, base=replaced.base, layers=replaced.layers)
        parts = plan(tuple(members), config)
        part = next(part for part in parts if part.length == cut.length)
        if part.beyond is not None:
            raise Refused(f"the model serves {part.beyond} positions, got {cut.length} tokens")
        graphdef, _ = structure(lm, members)
        self.program = functools.partial(
            target_nats, graphdef=graphdef, encodings=part.encodings, segment=0, memory=0
        )
        self.params, self.place, self.cut = params, place, cut
        self.batch_tokens, self.session, self.room = config.batch_tokens, session, Room(None)

    def __call__(self, candidate: Candidate) -> float:
        own = {name: np.asarray(value, np.float32) for name, value in candidate._asdict().items()}
        params = self.params | {"shared": self.params.get("shared", {}) | {self.place: own}}
        size = self.batch_tokens
        nats = score(self.cut, self.program, params, size, self.session, self.room)
        if not isinstance(nats, Missing):
            return self.cut.value(nats)
        if nats.reason is Reason.OUT_OF_MEMORY:
            raise Refused(f"{self.cut.length} tokens: {sentence(*nats)}; take a shorter length")
        return math.inf
