"""Statistics over replicas, seeds or places: intervals, paired differences, effective length,
reciprocal ranks.

Intervals of means are Student's t at every number of seeds: they cover what they claim at 3 seeds
already, where a percentile bootstrap covers about two thirds. The bootstrap serves mean reciprocal
ranks, which are bounded and far from normal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

REPLICATES = 10
"""Fewer replicates are not resampled."""


class Interval(NamedTuple):
    """A mean, the half width of its 95 % interval and the number of values behind it."""

    mean: float
    half: float
    n: int

    @property
    def bare(self) -> Interval:
        """The mean alone."""
        return self._replace(half=math.nan)


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


def paired(a: Mapping[Any, float], b: Mapping[Any, float]) -> Interval:
    """Mean and interval of a[replica] - b[replica] over the replicas that both have."""
    return interval([a[key] - b[key] for key in sorted(a.keys() & b.keys())])


def welch(a: Sequence[float], b: Sequence[float]) -> Interval:
    """mean(a) - mean(b) of independent samples, with Welch's 95 % interval.

    n counts all values. A sample of one value has no interval, an empty one no mean either.
    """
    n = len(a) + len(b)
    if not len(a) or not len(b):
        return Interval(math.nan, math.nan, 0)
    mean = float(np.mean(a) - np.mean(b))
    if min(len(a), len(b)) == 1:
        return Interval(mean, math.nan, n)
    if not np.ptp(a) and not np.ptp(b):  # no degrees of freedom: scipy gives NaN and warns
        return Interval(mean, 0.0, n)
    from scipy import stats

    low, high = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    return Interval(mean, float(high - low) / 2, n)


def effective_length(
    lengths: Sequence[int],
    values: Sequence[float | None],
    train_length: int,
    tolerance: float = 0.01,
    sign: int = 1,
) -> tuple[int | None, bool]:
    """The longest evaluated length up to which values stay close to the one at `train_length`.

    It is the longest E such that no evaluated length from `train_length` to E has a value that is
    worse than the one at `train_length` by more than `tolerance` times its size. Lower is better
    with sign 1, higher with -1. None or NaN counts as not evaluated, infinity times the sign as a
    length that cannot be served. Returns (E, censored); censored says that no longer length was
    evaluated, so the truth is "at least E". (None, False) when the value at `train_length` is
    missing.
    """
    measured = {
        length: value
        for length, value in sorted(zip(lengths, values, strict=True))
        if length >= train_length and value is not None and not math.isnan(value)
    }
    if train_length not in measured:
        return None, False
    trained = measured[train_length]
    bound = (1 + math.copysign(tolerance, sign * trained)) * trained
    longest = train_length
    for length, value in measured.items():
        if sign * value > sign * bound:
            return longest, False
        longest = length
    return longest, True


def solved_length(
    lengths: Sequence[int],
    values: Sequence[Sequence[float]],
    train_length: int,
    level: float = 90.0,
) -> tuple[int, bool]:
    """(E, censored) of the longest evaluated length E such that at every one from `train_length` to
    E more than half of the seeds have at least `level`; `values` are those of all seeds at each
    length, NaN for one that is missing. Censored says that no longer length was evaluated. (0,
    False) where the training length itself is not solved.
    """
    longest = 0
    for length, of_seeds in sorted(zip(lengths, values, strict=True)):
        if length < train_length:
            continue
        if 2 * sum(value >= level for value in of_seeds) <= len(of_seeds):
            return longest, False
        longest = length
    return longest, longest > 0


def reciprocal_ranks(values: np.ndarray) -> list[Rank]:
    """Mean reciprocal rank of each row of `values` [rows, seeds, lengths]; lower values are better.

    Rows are ranked (1 is the best) within every seed and length, equal values share the better rank
    and a NaN, a score that was not computed, ranks last. Lengths of one seed are not independent:
    each seed's mean over lengths is one observation, and the seeds are resampled (percentile
    bootstrap, fixed seed). Fewer than REPLICATES seeds have no interval (NaN): of 3, resampling
    repeats what they share, with intervals of no width.
    """
    from scipy import stats

    values = np.asarray(values, float)
    ranks = stats.rankdata(np.where(np.isnan(values), np.inf, values), method="min", axis=0)
    ranks = np.where(np.isnan(values), len(values), ranks)
    by_seed = (1 / ranks).mean(axis=2)
    if values.shape[1] < REPLICATES:
        return [Rank(float(mean), math.nan, math.nan) for mean in by_seed.mean(axis=1)]
    resampled = stats.bootstrap(
        (by_seed,), np.mean, axis=1, method="percentile", rng=np.random.default_rng(0)
    )
    ends = zip(*resampled.confidence_interval, strict=True)
    return [
        Rank(float(mean), float(low), float(high))
        for mean, (low, high) in zip(by_seed.mean(axis=1), ends, strict=True)
    ]
