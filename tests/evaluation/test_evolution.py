"""The search of LongRoPE over losses that are known, without a model."""

import itertools

import numpy as np
import pytest

from pe_jax.evaluation.evolution import (
    Candidate,
    Search,
    Space,
    best,
    children,
    crossed,
    evolve,
    first_population,
    mutated,
)

PAIRS, SCALE, LENGTH = 6, 4.0, 24
BEGIN = (
    Candidate((SCALE,) * PAIRS, 0, 1.0),
    Candidate(tuple(round(SCALE ** (i / (PAIRS - 1)), 5) for i in range(PAIRS)), 0, 1.0),
    Candidate((1.0, 1.0, 1.5, 3.0, 4.0, 4.0), 0, 1.13863),
)
SPACE = Space.of(BEGIN, SCALE, LENGTH)
BEST = Candidate((1.0, 1.2, 1.9, 2.4, 3.6, 4.8), 8, 1.13863)


def asked(population=32, generations=12, seed=0):
    return Search(BEGIN, SPACE, population, generations, seed)


def distance(one):
    """The loss of a candidate: how far from BEST it is."""
    far = np.abs(np.array(one.factors) - BEST.factors).sum()
    return float(far + 0.1 * (one.first != BEST.first) + (one[2] != BEST[2]))


def losses(generation, candidates):
    return [distance(one) for one in candidates]


def check(one):
    factors = np.array(one.factors)
    assert len(factors) == PAIRS and (np.diff(factors) >= 0).all()
    assert factors.min() >= 1 and factors.max() <= 1.25 * SCALE
    given = {factor for known in BEGIN for factor in known.factors}
    assert all(f in given or f == round(f, 2) for f in one.factors)
    assert one.first in SPACE.first and one.attention_factor in (1.0, 1.13863)


def test_the_space_is_that_of_the_paper_within_the_training_length():
    assert SPACE.highest == 5.0 and SPACE.first == (0, 1, 2, 4, 8, 12, 16, 20, 24)
    assert Space.of(BEGIN, 8.0, 4096).first[-5:] == (28, 32, 64, 128, 256)


def test_what_is_drawn_is_monotonic_and_in_the_space():
    rng = np.random.default_rng(0)
    one = BEGIN[0]
    drawn = set()
    for _ in range(300):
        check(one := mutated(rng, one, SPACE))
        check(crossed(rng, one, BEGIN[1]))
        drawn |= set(zip(range(PAIRS), one.factors, strict=False))
    assert min(f for i, f in drawn if i == 0) < 2 and max(f for i, f in drawn if i == 5) > 4.5
    for one in first_population(rng, asked()):
        check(one)


def test_a_population_begins_with_what_is_known_and_children_are_half_of_it():
    rng = np.random.default_rng(0)
    population = first_population(rng, asked(16))
    assert population[:3] == [*BEGIN] and len(population) == 16
    assert len(children(rng, population[:8], asked(16))) == 8
    every = evolve(asked(16, 0), losses)
    assert len(every) <= 16 and {*BEGIN} <= {*every}


def test_a_crossover_takes_every_entry_of_one_of_its_parents():
    a, b = BEGIN[2], Candidate((1.0, 1.0, 2.0, 2.0, 4.5, 5.0), 8, 1.0)
    found = {crossed(np.random.default_rng(seed), a, b) for seed in range(200)}
    for child in found:
        pairs = zip(*((*one.factors, *one[1:]) for one in (child, a, b)), strict=True)
        assert all(c in (x, y) for c, x, y in pairs)
        check(child)
    assert len(found) > 20 and {child.factors[3] for child in found} == {2.0, 3.0}


def test_a_known_optimum_is_found():
    start = min(map(distance, BEGIN))
    (found,) = best(known := evolve(asked(64, 40), losses), 1)
    assert known[found] < 0.25 * start
    assert (found.first, found.attention_factor) == BEST[1:]


def test_equal_seeds_give_equal_searches_and_more_generations_go_on():
    whole = evolve(asked(generations=6), losses)
    assert [*evolve(asked(generations=6), losses).items()] == [*whole.items()]
    shorter = [*evolve(asked(generations=3), losses)]
    assert [*itertools.islice(whole, len(shorter))] == shorter
    assert [*evolve(asked(generations=6, seed=1), losses)] != [*whole]
    assert len(whole) <= asked(generations=6).most == 32 + 6 * 16


def test_no_candidate_is_scored_twice_and_infinite_losses_are_never_best():
    scored = []

    def some_infinite(generation, candidates):
        scored.extend(candidates)
        return [np.inf if one.first else distance(one) for one in candidates]

    (found,) = best(evolve(asked(16, 8), some_infinite), 1)
    assert len(scored) == len(set(scored)) and found.first == 0


def test_a_population_that_is_too_small_is_refused():
    with pytest.raises(ValueError, match="at least 4, got 3"):
        evolve(asked(3), losses)
