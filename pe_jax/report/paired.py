"""Paired tests over replicas, seeds or places, corrected for how many there are.

Models are compared seed by seed, by Student's paired t test, two-sided, at 5 %. The variance is
that of each pair alone. To pool it over models, as an analysis of variance does, supposes that all
scatter alike over seeds, and they do not: beyond the training length their standard deviations
differ a hundredfold. In a simulation with log-normal ones (sigma 1) a pooled test against the best
of 54 equal models, corrected by Holm's method, told some of them apart four times in five.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

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
    from scipy import special  # scipy.stats would cost seconds

    differences = np.array([a[key] - b[key] for key in sorted(a.keys() & b.keys())])
    if len(differences) < 2:
        return math.nan
    mean, error = differences.mean(), differences.std(ddof=1) / math.sqrt(len(differences))
    if not error:
        return float(not mean)
    return float(2 * special.stdtr(len(differences) - 1, -abs(mean / error)))


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


def holm(p: Sequence[float]) -> list[float]:
    """The p values of one family, adjusted by Holm's method: those up to 0.05 are significant, with
    a chance of 5 % that any of them is so wrongly. NaN, where there was no test, stays NaN.
    """
    return _stepped(p, lambda left: left)


def holm_of_best(p: Sequence[float]) -> list[float]:
    """The p values of the best of several models against each other one, adjusted by Holm's method
    for the pairs of models.

    Which model has the best mean is known from the same seeds, so each comparison with it is one
    that was chosen among those of all pairs: of m models that are left, p counts m (m - 1) / 2
    times. With that the chance that any model is told apart from the best which is as good is at
    most 5 %. Counted m - 1 times, as for a model named beforehand, it is 8 to 10 % of 7 models and
    14 to 30 % of 54 that are all equal, at 3 to 10 seeds.
    """
    return _stepped(p, lambda left: left * (left + 1) // 2)


def standard_errors(models: int, seeds: int) -> float:
    """How many standard errors of the difference the first of `models` must lie from the best to be
    told apart by `holm_of_best`, where each has `seeds` values.
    """
    from scipy import special

    return float(special.stdtrit(seeds - 1, 1 - LEVEL / (models * (models - 1))))


def tested(models: int, seeds: int) -> bool:
    """Whether so many seeds allow tests of so many models against the best of them."""
    return models > 1 and seeds > 1 and standard_errors(models, seeds) <= FAR


def _stepped(p: Sequence[float], comparisons) -> list[float]:
    """p from the least on, each times the number of `comparisons` that are left, at most 1 and not
    below the one before it.
    """
    values = np.asarray(p, float)
    tested = np.flatnonzero(~np.isnan(values))
    order = tested[np.argsort(values[tested], kind="stable")]
    times = [comparisons(left) for left in range(len(order), 0, -1)]
    adjusted = values.copy()
    adjusted[order] = np.minimum(1, np.maximum.accumulate(values[order] * np.array(times, float)))
    return adjusted.tolist()


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
    others = [i for i in range(len(samples)) if i != first]
    adjusted = holm_of_best([p_value(samples[i], samples[first]) for i in others])
    told = {
        i: not (tests and p > LEVEL) for i, p in zip(others, adjusted, strict=True)
    }  # NaN: no test
    equal = [round(mean, digits) == round(means[first], digits) for mean in means]
    return [i == first or equal[i] or not told[i] for i in range(len(samples))]
