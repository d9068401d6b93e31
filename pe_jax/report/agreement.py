"""How far two rankings of the same encodings agree."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

FEWEST = 5
"""Below so many encodings the signs of pairs are counted."""
SQUARES = {4: 0, 5: 2, 6: 6, 7: 16, 8: 30, 9: 48, 10: 72}
"""The largest sum of squared differences of ranks, by the number of encodings n, to which one of 20
random orders comes at most: Spearman's rho is then 1 - 6 sum / (n (n^2 - 1)).
"""


class Pairs(NamedTuple):
    """How many pairs of encodings are ordered as published, of those that are not equal there."""

    alike: int
    of: int


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's rho, equal values sharing the mean of their ranks; NaN where all of a side are
    equal, or below two values.
    """
    from scipy.stats import rankdata

    ranks = [rankdata(side) for side in (a, b)]
    if len(a) < 2 or any(np.ptp(rank) == 0 for rank in ranks):
        return math.nan
    return float(np.corrcoef(*ranks)[0, 1])


def critical(n: int) -> float:
    """The smallest rho of n encodings that is significant, one-sided at 5 %; NaN below four, where
    no order is. Above ten the normal approximation.
    """
    if n < min(SQUARES):
        return math.nan
    if n in SQUARES:
        return 1 - 6 * SQUARES[n] / (n * (n**2 - 1))
    return 1.6449 / math.sqrt(n - 1)


def pairs(published: Sequence[float], ours: Sequence[float]) -> Pairs:
    """How many pairs have the sign of the published difference."""
    every = list(itertools.combinations(zip(published, ours, strict=True), 2))
    told = [(p - q, a - b) for (p, a), (q, b) in every if p != q]
    return Pairs(sum(theirs * own > 0 for theirs, own in told), len(told))
