"""Performance profiles over tasks, against values that were computed by hand."""

import math

import pytest
from drawn import LENGTHS, drawn

from pe_jax.report import survival, tables

INF = math.inf


def test_a_cell_fails_at_its_first_length_below_the_level_or_without_a_value():
    assert survival.failure((20, 40, 80, 160), (99, 90, 89.9, 95), 40) == 2
    assert survival.failure((20, 40, 80), (99, math.nan, 95), 40) == 1
    assert survival.failure((20, 40, 80), (50, 99, 95), 40) == 0.5
    assert survival.failure((20, 40, 80), (99, 99, 95), 40) == INF


def test_the_area_is_the_mean_share_over_the_logarithm_of_the_multiple():
    # Of 1 to 16 training lengths, 4 doublings: failing at 4 lasts 2 of them, at 2 lasts 1.
    assert survival.area([4.0], 16) == 0.5
    assert survival.area([INF, 4.0, 2.0, 1.0, 0.5], 16) == pytest.approx((1 + 0.5 + 0.25) / 5)
    assert survival.area([INF, 64.0], 16) == 1
    # The share as a step function: 3/5 on the first doubling, 2/5 on the second, 1/5 on the others.
    profile = survival.Profile("rope", {0: [INF, 4.0], 1: [2.0, 1.0], 2: [0.5]}, ())
    shares = [profile.share(multiple) for multiple in (1, 1.99, 2, 3.9, 4, 16)]
    assert shares == [0.6, 0.6, 0.4, 0.4, 0.2, 0.2]
    assert survival.area([INF, 4.0, 2.0, 1.0, 0.5], 16) == pytest.approx(
        (0.6 + 0.4 + 0.2 + 0.2) / 4
    )


def made(results):
    return survival.profiles(results, tables.study(results))


def test_the_profiles_of_a_study_have_every_task_and_seed():
    # Seed s of a task is right up to reach + s training lengths: 2, 3, 4 and 1, 2, 3.
    results = [drawn("even_pairs", "rope", 2), drawn("odds_first", "rope", 1)]
    profiles = made(results)
    (rope,) = profiles.encodings
    assert profiles.longest == LENGTHS[-1] / 40 == 8
    assert rope.failures == {0: [4, 2], 1: [4, 4], 2: [8, 4]}
    assert rope.areas(8) == pytest.approx({0: 1 / 2, 1: 2 / 3, 2: 5 / 6})
    assert rope.area(8).mean == pytest.approx(2 / 3)


def test_the_profile_ends_at_the_longest_multiple_that_all_tasks_have():
    short = drawn("odds_first", "rope", 9, lengths=(20, 40, 80))
    assert made([drawn("even_pairs", "rope", 2), short]).longest == 2


def test_a_missing_task_is_told_and_a_missing_seed_has_not_lasted():
    results = [
        drawn("even_pairs", "rope", 9),
        drawn("odds_first", "rope", 9, seeds=(0,)),
        drawn("even_pairs", "alibi", None),
    ]
    by_label = {one.label: one for one in made(results).encodings}
    assert by_label["rope"].failures == {0: [INF, INF], 1: [INF, 0.5], 2: [INF, 0.5]}
    assert by_label["alibi"].missing == (1,) and not by_label["rope"].missing
    assert by_label["alibi"].share(1) == 0


def test_one_task_has_no_profile_and_neither_have_tasks_of_the_training_length_alone():
    assert made([drawn("even_pairs", "rope", 2)]) is None
    short = [drawn(task, "rope", 2, lengths=(20, 40)) for task in ("even_pairs", "odds_first")]
    assert made(short) is None
