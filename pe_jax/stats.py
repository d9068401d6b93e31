"""Statistics over seeds: intervals, paired differences, effective length, reciprocal ranks.

Intervals of means are Student's t at every number of seeds: they cover what they claim at 3 seeds
already, where a percentile bootstrap covers about two thirds. The bootstrap serves mean reciprocal
ranks, which are bounded and far from normal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np


class Interval(NamedTuple):
    """A mean, the half width of its 95 % interval and the number of values behind it."""

    mean: float
    half: float
    n: int


class Rank(NamedTuple):
    """A mean reciprocal rank with the ends of its 95 % interval."""

    mean: float
    low: float
    high: float


def interval(values: Sequence[float] | np.ndarray) -> Interval:
    """Mean and 95 % interval by Student's t: half = t(0.975, n - 1) s / sqrt(n).

    One value has no interval (half is NaN), and no value has no mean either.
    """
    from scipy import special  # scipy.stats would cost seconds

    n = len(values)
    if not n:
        return Interval(math.nan, math.nan, 0)
    mean = float(np.mean(values))
    if n == 1:
        return Interval(mean, math.nan, 1)
    half = special.stdtrit(n - 1, 0.975) * np.std(values, ddof=1) / math.sqrt(n)
    return Interval(mean, float(half), n)


def paired(a: Mapping[int, float], b: Mapping[int, float]) -> Interval:
    """Mean and interval of a[seed] - b[seed] over the seeds that both have."""
    return interval([a[seed] - b[seed] for seed in sorted(a.keys() & b.keys())])


def welch(a: Sequence[float], b: Sequence[float]) -> Interval:
    """mean(a) - mean(b) of independent samples, with Welch's 95 % interval.

    With v = s^2 / n of each, half = t(0.975, df) sqrt(v_a + v_b), where Satterthwaite's
    df = (v_a + v_b)^2 / (v_a^2 / (n_a - 1) + v_b^2 / (n_b - 1)). n counts all values; a sample of
    one value has no interval, and an empty one no mean.
    """
    from scipy import special

    n = len(a) + len(b)
    if not len(a) or not len(b):
        return Interval(math.nan, math.nan, 0)
    mean = float(np.mean(a) - np.mean(b))
    if min(len(a), len(b)) == 1:
        return Interval(mean, math.nan, n)
    v = [float(np.var(x, ddof=1)) / len(x) for x in (a, b)]
    if not sum(v):
        return Interval(mean, 0.0, n)
    df = sum(v) ** 2 / (v[0] ** 2 / (len(a) - 1) + v[1] ** 2 / (len(b) - 1))
    return Interval(mean, float(special.stdtrit(df, 0.975)) * math.sqrt(sum(v)), n)


def effective_length(
    lengths: Sequence[int],
    values: Sequence[float | None],
    train_length: int,
    tolerance: float = 0.01,
) -> tuple[int | None, bool]:
    """The longest evaluated length up to which the loss stays within `tolerance` of training's.

    It is the longest E such that every evaluated length from `train_length` to E has a value of at
    most (1 + tolerance) times the one at `train_length`. A value of None or NaN counts as not
    evaluated, infinity as a length that cannot be served. Returns (E, censored); censored says
    that no longer length was evaluated, so the truth is "at least E". (None, False) when the value
    at `train_length` is missing.
    """
    measured = {
        length: value
        for length, value in sorted(zip(lengths, values, strict=True))
        if length >= train_length and value is not None and not math.isnan(value)
    }
    if train_length not in measured:
        return None, False
    bound = (1 + tolerance) * measured[train_length]
    longest = train_length
    for length, value in measured.items():
        if value > bound:
            return longest, False
        longest = length
    return longest, True


def reciprocal_ranks(values: np.ndarray) -> list[Rank]:
    """Mean reciprocal rank of each row of `values` [rows, seeds, lengths]; lower values are better.

    Rows are ranked (1 is the best) within every seed and length, equal values share the better rank
    and a NaN, a score that was not computed, ranks last. Lengths of one seed are not independent:
    each seed's mean over lengths is one observation, and the seeds are resampled (percentile
    bootstrap, fixed seed). One seed has no interval (NaN).
    """
    from scipy import stats

    values = np.asarray(values, float)
    ranks = stats.rankdata(np.where(np.isnan(values), np.inf, values), method="min", axis=0)
    ranks = np.where(np.isnan(values), len(values), ranks)
    by_seed = (1 / ranks).mean(axis=2)
    if values.shape[1] == 1:
        return [Rank(float(mean), math.nan, math.nan) for mean in by_seed[:, 0]]
    found = stats.bootstrap(
        (by_seed,), np.mean, axis=1, method="percentile", rng=np.random.default_rng(0)
    )
    ends = zip(*found.confidence_interval, strict=True)
    return [
        Rank(float(mean), float(low), float(high))
        for mean, (low, high) in zip(by_seed.mean(axis=1), ends, strict=True)
    ]
