"""Error rates of the statistical tests in reports, by simulation: the figures of docs/runs.md.

python -m experiments.docs.marks [DRAWS]

Values of models and seeds are simulated with known truth: a shared effect of each seed, plus noise
of each model, with standard deviations that are equal or log-normally distributed (sigma 1). Prints
how often at least one of the truly best models is not bold, and how often a paired 95 % interval
contains the true difference.
"""

from __future__ import annotations

import sys

import numpy as np

from pe_jax.report import stats

WORSE = 1.0
"""The deficit of the other models: 50 standard deviations of equal noise."""


def draw(rng: np.random.Generator, models: int, seeds: int, tied: int, spread: float) -> list[dict]:
    """Values by seed of each model, lower being better; the first `tied` models are the best."""
    deviations = 0.02 * np.exp(spread * rng.normal(size=(models, 1)))
    values = 0.01 * rng.normal(size=seeds) + deviations * rng.normal(size=(models, seeds))
    values[tied:] += WORSE
    return [dict(enumerate(row)) for row in values.tolist()]


def unmarked(models: int, seeds: int, tied: int, spread: float, draws: int) -> float:
    """How often at least one of the best models is not bold."""
    rng = np.random.default_rng(models * seeds)
    # digits=12: no model is bold because it is equal as printed
    found = (stats.best(draw(rng, models, seeds, tied, spread), digits=12) for _ in range(draws))
    return float(np.mean([not all(marked[:tied]) for marked in found]))


def covered(seeds: int, draws: int) -> float:
    """How often the interval of a paired difference contains the true difference, here 0."""
    rng = np.random.default_rng(seeds)
    found = (stats.paired(*draw(rng, 2, seeds, 2, 1.0)) for _ in range(draws))
    return float(np.mean([abs(change.mean) <= change.half for change in found]))


def main(draws: int) -> None:
    print(f"{draws} draws\n\n| models | best | noise | 3 seeds | 5 seeds | 10 seeds |")
    print("|---|---|---|---|---|---|")
    for models, tied in ((7, 2), (7, 7), (54, 2), (54, 54)):
        for noise, spread in (("equal", 0.0), ("spread", 1.0)):
            cells = [f"{unmarked(models, n, tied, spread, draws):.3f}" for n in (3, 5, 10)]
            print(f"| {models} | {tied} | {noise} | {' | '.join(cells)} |")
    cells = [f"{covered(n, draws):.3f}" for n in (3, 5, 10)]
    print(f"| | | interval holds | {' | '.join(cells)} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
