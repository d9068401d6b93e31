"""Statistics over replicas, which are seeds, places or samples: intervals, effective length, and
paired tests with their correction for many comparisons.

Models are compared replica by replica by Student's paired t test, two-sided, at 5 %. The variance
is that of each pair alone. Pooling it over models, as an analysis of variance does, supposes equal
variances, and beyond the training length the standard deviations over seeds differ a hundredfold:
in a simulation with log-normal values (sigma 1), a pooled test against the best of 54 equal models,
corrected by Holm's method, told some of them apart four times in five.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pe_jax.record import Replica

LEVEL = 0.05
DOCUMENTS = 5
"""Effective documents from which on there is an interval over them."""
TOLERANCE = 0.01
"""How much worse than at the training length a value may be that holds, as a share of its size."""


def p_values(samples: Sequence[Mapping[Any, float]], base: Mapping[Any, float]) -> list[float]:
    """The two-sided p of each sample against the base, over the replicas that both have: of answers
    that are right or wrong by `mcnemar`, else of the paired t test of sample[replica] -
    base[replica], as scipy.stats.ttest_rel has it. NaN below two of them; differences that are all
    the same number have p 0, or 1 if that is 0.
    """
    return _of_pairs([base, *samples], np.zeros(len(samples), int), 1 + np.arange(len(samples)))


def _of_pairs(samples: Sequence[Mapping[Any, float]], a: np.ndarray, b: np.ndarray) -> list[float]:
    from scipy import special  # scipy.stats would cost seconds

    if yes_or_no(samples):
        return [mcnemar(samples[j], samples[i]) for i, j in zip(a, b, strict=True)]
    keys = sorted({key for sample in samples for key in sample})
    values = np.array([[one.get(key, math.nan) for key in keys] for one in samples], ndmin=2)
    differences = values[b] - values[a]
    n = (~np.isnan(differences)).sum(axis=1)
    enough = n > 1
    mean, error = np.full((2, len(n)), math.nan)
    mean[enough] = np.nanmean(differences[enough], axis=1)
    error[enough] = np.nanstd(differences[enough], axis=1, ddof=1) / np.sqrt(n[enough])
    with np.errstate(divide="ignore", invalid="ignore"):
        p = 2 * special.stdtr(n - 1, -abs(mean / error))
    return np.where(error == 0, mean == 0, p).tolist()


def yes_or_no(samples: Iterable[Mapping[Any, float]]) -> bool:
    """Whether all values are answers to drawn questions, each right (100) or wrong (0)."""
    every = [pair for sample in samples for pair in sample.items()]
    return bool(every) and all(
        isinstance(replica, Replica) and replica.kind == "sample" and value in (0, 100)
        for replica, value in every
    )


def mcnemar(a: Mapping[Any, float], b: Mapping[Any, float]) -> float:
    """The two-sided p of McNemar's exact test (McNemar, 1947) of answers to the same questions:
    twice the probability, under binomial(n, 1/2), of a smaller side at most as small as that seen,
    at most 1. n questions are answered right by only one of the two. NaN without a shared question.
    """
    shared = a.keys() & b.keys()
    only_a, only_b = sum(a[q] > b[q] for q in shared), sum(a[q] < b[q] for q in shared)
    n = only_a + only_b
    tail = sum(math.comb(n, k) for k in range(min(only_a, only_b) + 1)) / 2**n
    return min(1.0, 2 * tail) if shared else math.nan


def equivalence(a: Mapping[Any, float], b: Mapping[Any, float], margin: float) -> float:
    """The p of the test that the mean of a[replica] - b[replica], over the replicas that both have,
    is within `margin` of 0 (null: it is not). NaN below two replicas.

    By two one-sided paired t tests (TOST; Schuirmann, 1987) the larger of their p values;
    differences that are all the same number have p 0 within the margin, else 1. Of answers that are
    right or wrong by the exact binomial test that less than `margin` percent of the questions are
    answered differently: 300 answered alike give p = 0.05 for a margin of 1.
    """
    from scipy import special

    differences = np.array([a[key] - b[key] for key in sorted(a.keys() & b.keys())])
    if len(differences) < 2:
        return math.nan
    if yes_or_no([a, b]):
        differ = np.count_nonzero(differences)
        return float(special.bdtr(differ, len(differences), min(1, margin / 100)))
    inside = margin - abs(differences.mean())
    error = differences.std(ddof=1) / math.sqrt(len(differences))
    if not error:
        return float(inside <= 0)
    return float(special.stdtr(len(differences) - 1, -inside / error))


def holm(p: Sequence[float] | np.ndarray) -> list[float]:
    """The p values of one family, adjusted by Holm's step-down method (Holm, 1979): of m tests the
    smallest p times m, the next times m - 1 and so on, each at most 1 and not below the one before
    it. Those up to 0.05 are significant, with a chance of at most 5 % that any of them is so
    wrongly. NaN, where there was no test, stays NaN and does not count.
    """
    adjusted = np.array(p, float)
    tested = np.flatnonzero(~np.isnan(adjusted))
    order = tested[np.argsort(adjusted[tested], kind="stable")]
    times = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(adjusted[order] * times))
    return adjusted.tolist()


def seeds_needed(deviation: float, difference: float, tests: int = 1) -> int:
    """The least n with which a two-sided paired t test at 5 % over `tests` finds a true difference
    with probability 0.8, by Cohen (1988): P(T > t(1 - 0.025 / tests, n - 1)) >= 0.8, T of the
    noncentral t distribution with n - 1 degrees and noncentrality sqrt(n) difference / deviation.
    """
    from scipy import special

    tail, ratio = 1 - LEVEL / 2 / tests, difference / max(deviation, 1e-12)
    n = max(2, int((special.ndtri([tail, 0.8]).sum() / ratio) ** 2))  # of a known deviation
    while special.nctdtr(n - 1, n**0.5 * ratio, special.stdtrit(n - 1, tail)) > 0.2:
        n += 1
    return n


def of_best(samples: Sequence[Mapping[Any, float]], first: int) -> list[float]:
    """The p values of every model against the model number `first`, by `p_values`, adjusted by
    `holm` over all pairs of the models; NaN for `first` itself and where there was no test.

    The family is that of all pairs because the same seeds decide which model is the best: counted
    for the pairs with it alone, as for a model named beforehand, the chance that a model as good as
    the best differs significantly is 8 to 10 % of 7 models and 14 to 30 % of 54 that are all equal,
    at 3 to 10 seeds.
    """
    a, b = np.triu_indices(len(samples), 1)
    adjusted = np.full((len(samples), len(samples)), math.nan)
    adjusted[a, b] = adjusted[b, a] = holm(_of_pairs(samples, a, b))
    return adjusted[first].tolist()


def unless_many(marks: Sequence[bool]) -> list[bool]:
    """The marks of the rows of a column, or no marks where more than a third of the rows have one:
    so many say nothing. A single mark stays, unless the column has only one row.
    """
    number, rows = sum(marks), len(marks)
    return list(marks) if rows > 1 and number <= max(1, rows // 3) else [False] * rows


def best(samples: Sequence[Mapping[Any, float]], sign: int = 1, digits: int = 2) -> list[bool]:
    """Of each model, whether no test tells it apart from the one with the best mean.

    `samples` are the values by seed; the least is the best with sign 1, the greatest with -1. The
    best is among them, and so are those of equal mean to `digits` decimals and those that share
    fewer than two seeds with it, for which there is no test.
    """
    means = [float(np.mean(list(sample.values()))) if sample else math.nan for sample in samples]
    present = [i for i, mean in enumerate(means) if not math.isnan(mean)]
    if not present:
        return [False] * len(samples)
    first = min(present, key=lambda i: sign * means[i])
    p = of_best(samples, first)
    equal = [round(mean, digits) == round(means[first], digits) for mean in means]
    return [i in present and (equal[i] or not p[i] <= LEVEL) for i in range(len(samples))]


class Interval(NamedTuple):
    """A mean, the half width of its 95 % interval and the number of values behind it."""

    mean: float
    half: float
    n: int


class Reach(NamedTuple):
    """A length up to which a model holds."""

    length: int | None
    censored: bool
    """Whether no longer length was evaluated, so that the truth is "at least"."""


def interval(values: Sequence[float] | np.ndarray) -> Interval:
    """Mean and 95 % interval by Student's t: half = t(0.975, n - 1) s / sqrt(n).

    One value has no interval (half is NaN), and no value has no mean either.
    """
    from scipy import special  # scipy.stats would cost seconds

    n = len(values)
    mean = float(np.mean(values)) if n else math.nan
    if n < 2:
        return Interval(mean, math.nan, n)
    half = special.stdtrit(n - 1, 0.975) * np.std(values, ddof=1) / math.sqrt(n)
    return Interval(mean, float(half), n)


def over_documents(values: np.ndarray, sizes: Sequence[float]) -> Interval:
    """Mean and 95 % interval of values of documents, weighted by their scored bytes.

    With w the shares of the bytes and n = 1 / sum w^2 (Kish, 1965): mean = sum w x, and half =
    t(0.975, n - 1) sqrt(n / (n - 1) sum (w (x - mean))^2), by the cluster-robust standard error of
    a ratio of sums. Of equal sizes it is `interval`. NaN where n is below DOCUMENTS.
    """
    from scipy import special

    shares = np.divide(sizes, sum(sizes))
    mean, n = float(shares @ values), sum(sizes) ** 2 / sum(size**2 for size in sizes)
    if n < DOCUMENTS:
        return Interval(mean, math.nan, len(values))
    error = math.sqrt(n / (n - 1)) * np.linalg.norm(shares * (values - mean))
    return Interval(mean, float(special.stdtrit(n - 1, 0.975) * error), len(values))


def paired(a: Mapping[Any, float], b: Mapping[Any, float]) -> Interval:
    """Mean and interval of a[replica] - b[replica] over the replicas that both have."""
    return interval([a[key] - b[key] for key in sorted(a.keys() & b.keys())])


def effective_length(values: Mapping[int, float], train_length: int, sign: int = 1) -> Reach:
    """The longest evaluated length up to which values are hardly worse than at `train_length`.

    It is the longest E such that no evaluated length from `train_length` to E has a value that is
    worse than the one at `train_length` by more than TOLERANCE times its size. `values` are by
    length, NaN where it was not evaluated, infinity times the sign where it cannot be served. Lower
    is better with sign 1, higher with -1. The length is None without a value at `train_length`.
    """
    trained = values.get(train_length, math.nan)
    if math.isnan(trained):
        return Reach(None, False)
    bound = sign * (1 + math.copysign(TOLERANCE, sign * trained)) * trained
    held = {n: sign * value <= bound for n, value in values.items() if not math.isnan(value)}
    return reach(held, train_length)


def reach(held: Mapping[int, bool], train_length: int) -> Reach:
    """The longest evaluated length E such that `held` is true at every one from `train_length` to
    E. 0 where it is not at the training length.
    """
    longest = 0
    for length in sorted(n for n in held if n >= train_length):
        if not held[length]:
            return Reach(longest, False)
        longest = length
    return Reach(longest, longest > 0)
