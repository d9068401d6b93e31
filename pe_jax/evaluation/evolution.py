"""The search of LongRoPE for its factors (Ding et al., 2024; arXiv:2402.13753, section 3.2), over
any loss of a candidate: nothing here knows of models.

A population begins with the scalings that are known, and mutations of them. Each generation takes
the best half of it, of all that was scored so far, as parents; a quarter of its size are mutations
of parents, and a quarter crossovers of two. Factors never decrease from one pair to the next slower
one, and are those of the paper's table 4: 1 to 1.25 s in steps of 0.01, but for what comes
unchanged from a scaling that the search began with.

The paper has a population of 64, 16 mutations and 16 crossovers over 40 generations, and mutates
with probability 0.3; the 32 parents are those of the authors' code. That code mutates until a
candidate is new, and tries crossovers until one is new and in order; here what is not new is left
out, and a crossover is drawn in order. The paper leaves the temperature alone: here a candidate has
one of those that the search began with, so that each of these scalings is a candidate as it is.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

STEP = 0.01
CHANCE = 0.3  # that a mutation draws an entry anew
FIRST = (0, 1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 64, 128, 256)


class Candidate(NamedTuple):
    """Fields of `longrope`."""

    factors: tuple[float, ...]
    """`long`"""
    first: int
    attention_factor: float


@dataclasses.dataclass(frozen=True)
class Space:
    """What a candidate may be."""

    highest: float
    """The largest factor."""
    first: tuple[int, ...]
    attention_factor: tuple[float, ...]

    @classmethod
    def of(cls, begin: Sequence[Candidate], scale: float, length: int) -> Space:
        """The space of a search from these candidates, for texts of `scale` times the `length` of
        training, in whose first tokens, which are left as they were, all angles are known.
        """
        temperatures = sorted({one.attention_factor for one in begin})
        first = tuple(n for n in FIRST if n <= length)
        return cls(1.25 * scale, first, tuple(temperatures))


class Search(NamedTuple):
    """How long and from where a search goes."""

    begin: tuple[Candidate, ...]
    space: Space
    population: int
    generations: int
    seed: int

    @property
    def most(self) -> int:
        """How many candidates it scores, at most."""
        return self.population + self.generations * 2 * (self.population // 4)


Score = Callable[[int, Sequence[Candidate]], Sequence[float]]
"""score(generation, candidates) -> the loss of each. Lower is better; inf is allowed."""


def evolve(search: Search, score: Score) -> dict[Candidate, float]:
    """The loss of every candidate that is scored. Equal searches and losses give equal candidates,
    and more generations begin with those of fewer. ValueError for a population that is too small.
    """
    least = max(4, len(search.begin))
    if search.population < least:
        raise ValueError(f"a population must have at least {least}, got {search.population}")
    known: dict[Candidate, float] = {}
    for generation in range(search.generations + 1):
        rng = np.random.default_rng([search.seed, generation])
        if generation:
            drawn = children(rng, best(known, search.population // 2), search)
        else:
            drawn = first_population(rng, search)
        new = [one for one in dict.fromkeys(drawn) if one not in known]
        known |= zip(new, score(generation, new), strict=True)
    return known


def best(known: Mapping[Candidate, float], count: int) -> list[Candidate]:
    """The `count` candidates of the lowest loss, the best first; of equal ones the earlier."""
    return sorted(known, key=lambda one: known[one])[:count]


def first_population(rng: np.random.Generator, search: Search) -> list[Candidate]:
    """The candidates that it begins with, and mutations of them."""
    begin, lacking = search.begin, search.population - len(set(search.begin))
    drawn = (begin[int(rng.integers(len(begin)))] for _ in range(lacking))
    return [*begin, *(mutated(rng, one, search.space) for one in drawn)]


def children(
    rng: np.random.Generator, parents: Sequence[Candidate], search: Search
) -> list[Candidate]:
    """Mutations of one parent, and crossovers of two."""
    count = search.population // 4
    chosen = rng.integers(len(parents), size=count).tolist()
    out = [mutated(rng, parents[i], search.space) for i in chosen]
    for _ in range(count):
        a, b = sorted(rng.choice(len(parents), 2, replace=False).tolist())
        out.append(crossed(rng, parents[a], parents[b]))
    return out


def mutated(rng: np.random.Generator, parent: Candidate, space: Space) -> Candidate:
    """The parent with some entries drawn anew, each factor between those of its neighbours."""
    factors, first, attention_factor = list(parent.factors), *parent[1:]
    for i, factor in enumerate(factors):
        if rng.random() < CHANCE:
            low = factors[i - 1] if i else 1.0
            high = factors[i + 1] if i + 1 < len(factors) else space.highest
            factors[i] = _drawn(rng, low, high, factor)
    if rng.random() < CHANCE:
        first = space.first[rng.integers(len(space.first))]
    if rng.random() < CHANCE:
        attention_factor = space.attention_factor[rng.integers(len(space.attention_factor))]
    return Candidate(tuple(factors), first, attention_factor)


def _drawn(rng: np.random.Generator, low: float, high: float, factor: float) -> float:
    """A multiple of STEP from `low` to `high`; where there is none, the factor as it is."""
    lowest, highest = math.ceil(low / STEP - 1e-6), math.floor(high / STEP + 1e-6)
    return round(int(rng.integers(lowest, highest + 1)) * STEP, 2) if lowest <= highest else factor


def crossed(rng: np.random.Generator, a: Candidate, b: Candidate) -> Candidate:
    """Each entry of one of two parents: with equal chance, but for factors below the one before,
    which at least one of the parents does not have.
    """
    factors = [1.0]
    for pair in zip(a.factors, b.factors, strict=True):
        allowed = [factor for factor in pair if factor >= factors[-1]]
        factors.append(allowed[rng.integers(len(allowed))])
    first, attention_factor = (pair[rng.integers(2)] for pair in zip(a[1:], b[1:], strict=True))
    return Candidate(tuple(factors[1:]), int(first), attention_factor)
