"""Statistics against scipy and cases worked by hand, and how often tests err, by simulation."""

import math

import numpy as np
import pytest
import scipy.stats
from studies import make_record, table_of

from experiments.docs import marks
from pe_jax.report import stats


def test_interval_is_scipys_t_interval():
    for n in (2, 3, 5, 12):
        values = np.random.default_rng(n).normal(2.5, 0.1, n)
        mean, half, count = stats.interval(values)
        low, high = scipy.stats.t.interval(0.95, n - 1, np.mean(values), scipy.stats.sem(values))
        assert count == n
        np.testing.assert_allclose([mean - half, mean + half], [low, high], rtol=1e-12)


def test_interval_of_one_value_has_a_mean_and_no_width():
    assert stats.interval([2.5])[::2] == (2.5, 1) and math.isnan(stats.interval([2.5]).half)
    assert stats.interval([]).n == 0 and math.isnan(stats.interval([]).mean)


def test_paired_uses_common_seeds_and_cancels_what_they_share():
    a = {0: 2.0, 1: 3.0, 2: 7.0, 9: 100.0}
    b = {2: 6.5, 1: 2.5, 0: 1.5, 4: -100.0}
    assert stats.paired(a, b) == (0.5, 0.0, 3)


@pytest.mark.parametrize(
    ("sign", "values", "expected"),
    [
        (1, [9.9, 2.0, 1.9, 1.8, 1.7], (512, True)),  # below the training length is ignored
        (1, [1.0, 2.0, 2.0199, 2.0, 2.0199], (512, True)),  # within 1 %
        (1, [1.0, 2.0, 2.0, 2.03, 1.9], (128, False)),  # a later recovery does not count
        (1, [1.0, 2.0, 2.03, 2.0, 2.0], (64, False)),
        (1, [1.0, 2.0, 2.0, 2.0, math.nan], (256, True)),  # not evaluated: at least 256
        (1, [1.0, 2.0, 2.0, math.inf, math.nan], (128, False)),
        (1, [1.0, math.nan, 2.0, 2.0, 2.0], (None, False)),
        (-1, [0.9, 0.5, 0.4951, 0.5, 0.6], (512, True)),  # higher is better: within 1 %
        (-1, [0.9, 0.5, 0.5, 0.49, 0.6], (128, False)),
        (-1, [0.9, 0.5, 0.5, -math.inf, math.nan], (128, False)),  # cannot be served
        (-1, [0.0, -2.0, -2.01, -2.03, -1.0], (128, False)),  # as of a log-likelihood
        (1, [0.0, -2.0, -2.5, -1.97, -2.0], (128, False)),
    ],
)
def test_effective_length(sign, values, expected):
    by_length = dict(zip([32, 64, 128, 256, 512], values, strict=True))
    assert stats.effective_length(dict(reversed(by_length.items())), 64, sign) == expected


def test_a_length_is_reached_if_all_from_that_of_training_on_are():
    for held, expected in (
        ({8: True, 16: True, 32: False}, (16, False)),
        ({8: True, 32: True, 16: False}, (8, False)),
        ({4: False, 8: True, 16: True}, (16, True)),
        ({8: False, 16: True}, (0, False)),
    ):
        assert stats.reach(held, 8) == expected


def by_seed(values):
    return dict(enumerate(values))


def test_p_is_that_of_scipys_paired_t_test():
    for n in (2, 3, 5, 12):
        a, b = np.random.default_rng(n).normal(2.5, 0.1, (2, n))
        wanted = scipy.stats.ttest_rel(a, b).pvalue
        assert stats.p_values([by_seed(a)], by_seed(b))[0] == pytest.approx(wanted, rel=1e-10)


def test_p_takes_shared_seeds_and_needs_two():
    a, b = {0: 1.0, 1: 2.0, 2: 4.0, 7: 9.0}, {2: 3.5, 1: 1.7, 0: 0.9, 8: 0.0}
    wanted = scipy.stats.ttest_rel([1.0, 2.0, 4.0], [0.9, 1.7, 3.5]).pvalue
    assert stats.p_values([a], b)[0] == pytest.approx(wanted)
    assert math.isnan(stats.p_values([{0: 1.0, 1: 2.0}], {1: 3.0, 2: 4.0})[0])
    assert stats.p_values([{0: 1.5, 1: 2.5}], {0: 1.0, 1: 2.0})[0] == 0.0
    assert stats.p_values([{0: 1.5, 1: 2.5}], {0: 1.5, 1: 2.5})[0] == 1.0


def test_holm_by_hand():
    assert stats.holm([0.01, 0.04, 0.03, math.nan]) == pytest.approx(
        [0.03, 0.06, 0.06, math.nan], nan_ok=True
    )
    assert stats.holm([0.9, 0.8]) == [1.0, 1.0] and stats.holm([]) == []


def test_best_marks_what_is_equal_and_what_no_test_tells_apart():
    best = by_seed([2.400, 2.410, 2.420])
    equal = {seed: value + 0.001 for seed, value in best.items()}  # p 0, but the same as printed
    noisy, far = by_seed([2.41, 2.60, 2.30]), by_seed([2.70, 2.71, 2.72])
    alone, none = {0: 2.5}, {}
    found = stats.best([far, noisy, best, equal, alone, none])
    assert found == [False, True, True, True, True, False]
    flipped = [{seed: -value for seed, value in sample.items()} for sample in (far, noisy, best)]
    assert stats.best(flipped, sign=-1) == [False, True, True]


def test_what_cannot_be_tested_is_not_told_apart():
    assert stats.best([{0: 2.501}, {0: 2.502}, {0: 2.51}]) == [True] * 3
    assert stats.best([{}, {0: 2.5}]) == [False, True]
    assert stats.best([{}, {}]) == [False, False] and stats.best([]) == []
    noisy = [by_seed([2.41, 2.60, 2.30]), by_seed([2.40, 2.41, 2.42])]
    assert stats.best(noisy) == [True, True]
    for seeds in (1, 5):
        results = [make_record(f"e{i}", [2.5 + i] * 5, seeds=range(seeds)) for i in range(3)]
        table = table_of(results)
        marks = [any(cell.best for cell in row.cells) for row in table.rows if row.trained]
        assert marks == [seeds > 1, False, False]


def highest(wanted, draws):
    """`wanted` and what chance adds to it in so many draws, three standard deviations."""
    return wanted + 3 * math.sqrt(wanted * (1 - wanted) / draws)


@pytest.mark.parametrize("seeds", [3, 5, 10])
@pytest.mark.parametrize(
    "models, tied, spread", [(7, 2, 0.0), (7, 7, 0.0), (7, 7, 1.0), (54, 54, 0.0)]
)
def test_all_of_the_best_models_are_bold_in_nineteen_of_twenty_columns(models, tied, spread, seeds):
    draws = 1000 if models == 7 else 200
    assert marks.unmarked(models, seeds, tied, spread, draws) <= highest(0.05, draws)


def test_holm_for_a_model_named_beforehand_errs_too_often_with_the_best(monkeypatch):
    """The simulation is able to find a procedure at fault."""

    def beforehand(samples, first):
        p = stats.p_values([*samples[:first], *samples[first + 1 :]], samples[first])
        adjusted = stats.holm(p)
        return [*adjusted[:first], math.nan, *adjusted[first:]]

    monkeypatch.setattr(stats, "of_best", beforehand)
    for models, draws in ((7, 1000), (54, 200)):
        assert marks.unmarked(models, 10, models, 0.0, draws) > highest(0.05, draws)


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_the_interval_of_a_paired_difference_covers_it(seeds):
    draws = 4000
    assert abs(marks.covered(seeds, draws) - 0.95) <= highest(0.05, draws) - 0.05


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_holm_keeps_the_error_against_a_named_baseline(seeds):
    """All of six models equal the baseline; at least one is called better or worse."""
    rng, draws, wrong = np.random.default_rng(seeds), 1500, 0
    for _ in range(draws):
        base, *others = marks.draw(rng, 7, seeds, 7, 0.0)
        wrong += min(stats.holm(stats.p_values(others, base))) <= stats.LEVEL
    assert wrong / draws <= highest(0.05, draws)
