"""Differences of scores and their tests: of models from a baseline (`against`), and of one run in
two studies (`difference`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pe_jax.report import stats


@dataclass(frozen=True)
class Difference:
    """Scores minus other scores: the mean with its 95 % interval, and the two-sided p.

    The test is the paired t test, or Welch's for independent samples. Answers that are right or
    wrong (`stats.yes_or_no`) have McNemar's exact test and no interval.
    """

    change: stats.Interval
    p: float  # NaN: no test; of `against` adjusted by Holm's method
    same: bool  # all shared scores are equal to the bit
    p_within: float = math.nan  # of equivalence within a margin, adjusted likewise

    @property
    def equivalent(self) -> bool:
        """Whether the tests show that the difference lies within the margin."""
        return self.p_within <= stats.LEVEL

    def verdict(self, sign: int) -> str:
        """ "better", "worse", "equal", "not distinguishable", or "" without a test.

        Lower scores are better with sign 1, higher with -1.
        """
        if self.same:
            return "equal"
        if self.change.n < 2 or math.isnan(self.p):
            return ""
        if self.p > stats.LEVEL:
            return "not distinguishable"
        return "better" if sign * self.change.mean < 0 else "worse"


def difference(a: Mapping[Any, float], b: Mapping[Any, float], paired: bool = True) -> Difference:
    """a - b by replica, over those that both have; or, not `paired`, of independent samples."""
    if not paired:
        change, p = stats.welch([*a.values()], [*b.values()])
        return Difference(change, p, same=False)
    shared = a.keys() & b.keys()
    same = bool(shared) and all(a[key] == b[key] for key in shared)
    change = stats.paired(a, b)
    if stats.yes_or_no([a, b]):
        change = change._replace(half=0.0 if same else math.nan)
    return Difference(change, stats.p_values([a], b)[0], same)


def against(
    samples: Sequence[Mapping[Any, float]],
    base: Mapping[Any, float],
    margin: float | None = None,
    best: bool = False,
) -> list[Difference]:
    """Each sample minus the base, paired, with p adjusted by Holm's method over the samples; over
    all pairs where the base is the `best` of them and was not named beforehand (`stats.of_best`).
    With a margin, in the unit of the scores, `p_within` is that of `stats.equivalence`.
    """
    p = stats.of_best([base, *samples], 0)[1:] if best else stats.p_values(samples, base)
    within = [math.nan] * len(samples)
    if margin is not None:
        within = stats.holm([stats.equivalence(sample, base, margin) for sample in samples])
    return [
        replace(difference(sample, base), p=adjusted, p_within=near)
        for sample, adjusted, near in zip(
            samples, p if best else stats.holm(p), within, strict=True
        )
    ]
