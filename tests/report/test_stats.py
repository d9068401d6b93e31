"""Statistics against scipy and against cases worked by hand."""

import math

import numpy as np
import scipy.stats

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


def effective(values, sign=1):
    """Of values at five lengths, trained at the second, in no order."""
    by_length = dict(zip([32, 64, 128, 256, 512], values, strict=True))
    return stats.effective_length(dict(reversed(by_length.items())), 64, sign)


def test_effective_length():
    for values, expected in (
        ([9.9, 2.0, 1.9, 1.8, 1.7], (512, True)),  # improves; below training length is ignored
        ([1.0, 2.0, 2.0199, 2.0, 2.0199], (512, True)),  # within 1 %
        ([1.0, 2.0, 2.0, 2.03, 1.9], (128, False)),  # a later recovery does not count
        ([1.0, 2.0, 2.03, 2.0, 2.0], (64, False)),
        ([1.0, 2.0, 2.0, 2.0, math.nan], (256, True)),  # not evaluated: at least 256
        ([1.0, 2.0, 2.0, math.inf, math.nan], (128, False)),
        ([1.0, math.nan, 2.0, 2.0, 2.0], (None, False)),
    ):
        assert effective(values) == expected, values


def test_effective_length_stays_close_on_the_worse_side():
    for values, sign, expected in (
        ([0.9, 0.5, 0.6, 0.7, 0.8], -1, (512, True)),  # higher is better: it improves
        ([0.9, 0.5, 0.4951, 0.5, 0.4951], -1, (512, True)),  # within 1 %
        ([0.9, 0.5, 0.5, 0.49, 0.6], -1, (128, False)),
        ([0.9, 0.5, 0.5, -math.inf, math.nan], -1, (128, False)),  # cannot be served
        ([0.0, -2.0, -2.01, -2.03, -1.0], -1, (128, False)),  # as of a log-likelihood
        ([0.0, -2.0, -2.5, -1.97, -2.0], 1, (128, False)),
    ):
        assert effective(values, sign) == expected, values


def test_a_length_is_reached_if_all_from_that_of_training_on_are():
    for held, expected in (
        ({8: True, 16: True, 32: False}, (16, False)),
        ({8: True, 32: True, 16: False}, (8, False)),
        ({4: False, 8: True, 16: True}, (16, True)),
        ({8: False, 16: True}, (0, False)),
    ):
        assert stats.reach(held, 8) == expected
