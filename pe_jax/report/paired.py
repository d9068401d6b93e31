"""Paired tests over replicas, seeds or places, corrected for how many there are.

Models are compared seed by seed, by Student's paired t test, two-sided, at 5 %. The variance is
that of each pair alone. To pool it over models, as an analysis of variance does, supposes that all
scatter alike over seeds, and they do not: beyond the training length their standard deviations
differ a hundredfold. In a simulation with log-normal ones (sigma 1) a pooled test against the best
of 54 equal models, corrected by Holm's method, told some of them apart four times in five.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pe_jax.record import Replica

LEVEL = 0.05
FAR = 50.0
"""Standard errors. Where tests would tell apart only what lies farther from the best, as of 54
models with 3 seeds, nearly all of a column would be marked, however bad: then there are no tests.
"""


def p_value(a: Mapping[Any, float], b: Mapping[Any, float]) -> float:
    """The two-sided p of the paired t test of a[replica] - b[replica] over the replicas that both
    have, as scipy.stats.ttest_rel has it. NaN below two of them; differences that are all the same
    number have p 0, or 1 if that is 0.
    """
    differences = [a[key] - b[key] for key in sorted(a.keys() & b.keys())]
    return float(_p_values(np.array([differences]))[0])


def yes_or_no(samples: Iterable[Mapping[Replica, float]]) -> bool:
    """Whether all values are answers to drawn questions, each right (100) or wrong (0)."""
    every = [pair for sample in samples for pair in sample.items()]
    return bool(every) and all(
        replica.kind == "sample" and value in (0, 100) for replica, value in every
    )


def mcnemar(a: Mapping[Replica, float], b: Mapping[Replica, float]) -> float:
    """The two-sided p of McNemar's exact test (McNemar, 1947) of answers to the same questions: of
    the n questions that only one of the two answers right, how likely the smaller side is at most
    as small as it is, where each side has them with probability 1/2, times 2, at most 1. NaN
    without a question that both were asked.
    """
    shared = a.keys() & b.keys()
    only_a, only_b = sum(a[q] > b[q] for q in shared), sum(a[q] < b[q] for q in shared)
    n = only_a + only_b
    tail = sum(math.comb(n, k) for k in range(min(only_a, only_b) + 1)) / 2**n
    return min(1.0, 2 * tail) if shared else math.nan


def equivalence(a: Mapping[Any, float], b: Mapping[Any, float], margin: float) -> float:
    """The p of the two one-sided paired t tests (TOST; Schuirmann, 1987) that a[replica] -
    b[replica], over the replicas that both have, has a mean within `margin` of 0: the larger of the
    two p values. NaN below two replicas; differences that are all the same number have p 0 within
    the margin, else 1.
    """
    from scipy import special

    differences = np.array([a[key] - b[key] for key in sorted(a.keys() & b.keys())])
    if len(differences) < 2:
        return math.nan
    inside = margin - abs(differences.mean())
    error = differences.std(ddof=1) / math.sqrt(len(differences))
    if not error:
        return float(inside <= 0)
    return float(special.stdtr(len(differences) - 1, -inside / error))


def holm(p: Sequence[float] | np.ndarray) -> list[float]:
    """The p values of one family, adjusted by Holm's step-down method (Holm, 1979): the least of m
    times m, the next times m - 1 and so on, each at most 1 and not below the one before it. Those
    up to 0.05 are significant, with a chance of at most 5 % that any of them is so wrongly. NaN,
    where there was no test, stays NaN and does not count.
    """
    values = np.asarray(p, float)
    tested = np.flatnonzero(~np.isnan(values))
    order = tested[np.argsort(values[tested], kind="stable")]
    times = np.arange(len(order), 0, -1)
    adjusted = values.copy()
    adjusted[order] = np.minimum(1, np.maximum.accumulate(values[order] * times))
    return adjusted.tolist()


def of_best(samples: Sequence[Mapping[Any, float]], first: int) -> list[float]:
    """The p values of every model against the model number `first`, by `p_value`, adjusted by
    `holm` over all pairs of the models; NaN for `first` itself and where there was no test.

    The family is that of all pairs because the same seeds decide which model is the best: counted
    for the pairs with it alone, as for a model named beforehand, the chance that a model as good as
    the best is told apart from it is 8 to 10 % of 7 models and 14 to 30 % of 54 that are all equal,
    at 3 to 10 seeds.
    """
    seeds = sorted({seed for sample in samples for seed in sample})
    values = np.array([[sample.get(seed, math.nan) for seed in seeds] for sample in samples])
    a, b = np.triu_indices(len(samples), 1)
    adjusted = np.full((len(samples), len(samples)), math.nan)
    adjusted[a, b] = adjusted[b, a] = holm(_p_values(values[a] - values[b]))
    return adjusted[first].tolist()


def _p_values(differences: np.ndarray) -> np.ndarray:
    """`p_value` of each row of differences [pairs, replicas], NaN where one is missing."""
    from scipy import special  # scipy.stats would cost seconds

    n = (~np.isnan(differences)).sum(axis=1)
    enough = n > 1
    mean, error = np.full((2, len(n)), math.nan)
    kept = differences[enough]
    mean[enough] = np.nanmean(kept, axis=1)
    error[enough] = np.nanstd(kept, axis=1, ddof=1) / np.sqrt(n[enough])
    with np.errstate(divide="ignore", invalid="ignore"):
        p = 2 * special.stdtr(n - 1, -abs(mean / error))
    return np.where(error == 0, mean == 0, p)


def standard_errors(models: int, seeds: int) -> float:
    """How many standard errors of the difference the first pair of `models` must lie apart to be
    told apart by `of_best`, where each has `seeds` values.
    """
    from scipy import special

    return float(special.stdtrit(seeds - 1, 1 - LEVEL / (models * (models - 1))))


def tested(models: int, seeds: int) -> bool:
    """Whether so many seeds allow tests of so many models against the best of them."""
    return models > 1 and seeds > 1 and standard_errors(models, seeds) <= FAR


def few(marks: Sequence[bool]) -> list[bool]:
    """The marks of the rows of a column, or none where more than a third of the rows have one: that
    many say nothing. A single mark stays, unless it is that of the only row.
    """
    number, rows = sum(marks), len(marks)
    return list(marks) if rows > 1 and number <= max(1, rows // 3) else [False] * rows


def best(
    samples: Sequence[Mapping[Any, float]], sign: int = 1, digits: int = 2, tests: bool = True
) -> list[bool]:
    """Of each model, whether no test tells it apart from the one with the best mean.

    `samples` are the values by seed; the least is the best with sign 1, the greatest with -1. The
    best is among them, and so are those of equal mean to `digits` decimals. A model that shares
    fewer than two seeds with the best has no test, and without `tests` none has: it is among them
    only if it is equal.
    """
    means = [float(np.mean(list(sample.values()))) if sample else math.nan for sample in samples]
    present = [i for i, mean in enumerate(means) if not math.isnan(mean)]
    if not present:
        return [False] * len(samples)
    first = min(present, key=lambda i: sign * means[i])
    p = of_best(samples, first) if tests else [math.nan] * len(samples)
    equal = [round(mean, digits) == round(means[first], digits) for mean in means]
    return [i == first or equal[i] or p[i] > LEVEL for i in range(len(samples))]
