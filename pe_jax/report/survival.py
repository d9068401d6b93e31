"""Up to which multiple of its training length a model keeps a level, over the tasks of a study: a
performance profile (Dolan and More, 2002; arXiv:cs/0102001) whose measure is length.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pe_jax.record import Result
from pe_jax.report import stats, tables
from pe_jax.report.cells import Table, by_seed, of_samples, value

LEVEL = 90.0


@dataclass(frozen=True)
class Profile:
    """Of one encoding the `failure` of each cell, a task with a seed."""

    label: str
    failures: Mapping[int, Sequence[float]]
    """By seed, one for each task."""
    missing: tuple[int, ...]
    """The tasks, by their numbers in the study, of which there is no run of it."""

    def share(self, multiple: float) -> float:
        """The share of the cells that have not failed up to a multiple of the training length."""
        cells = [failed for own in self.failures.values() for failed in own]
        return sum(failed > multiple for failed in cells) / len(cells)

    def area(self, longest: float) -> stats.Interval:
        """The area below the shares, in [0, 1], with its interval over seeds."""
        return stats.interval(list(self.areas(longest).values()))

    def areas(self, longest: float) -> dict[int, float]:
        """The area of each seed's own cells."""
        return {seed: area(own, longest) for seed, own in self.failures.items()}


@dataclass(frozen=True)
class Profiles:
    """The profiles of a study."""

    tables: tuple[Table, ...]
    """Of the tasks, each by its first metric."""
    longest: float
    """The longest multiple of the training length that all tasks were evaluated at."""
    encodings: tuple[Profile, ...]
    """In the order in which the tables have them."""


def failure(
    lengths: Sequence[int], values: Sequence[float], train: int, level: float = LEVEL
) -> float:
    """The shortest evaluated length whose value is below the level or NaN, in training lengths;
    infinity where there is none.
    """
    failed = [n for n, own in zip(lengths, values, strict=True) if not own >= level]
    return min(failed, default=math.inf) / train


def area(failures: Sequence[float], longest: float) -> float:
    """The mean, over log2 of the multiple from 1 to `longest`, of the share of the cells that have
    not failed: a cell that fails at 4 of 16 training lengths adds a half.
    """
    whole = math.log2(longest)
    lasted = [min(max(math.log2(failed), 0.0), whole) / whole for failed in failures]
    return sum(lasted) / len(lasted)


def profiles(results: Iterable[Result], reported: Iterable[Table]) -> Profiles | None:
    """The profiles over the tasks of the study with these tables; None for fewer than two tasks, or
    where a task was not evaluated beyond its training length.
    """
    by_id = {result.id: result for result in results}
    tasks = [table for table in tables.headlines(reported) if of_samples(table.metric)]
    if len(tasks) < 2:
        return None
    longest = min(table.lengths[-1] / table.train_length for table in tasks)
    if longest <= 1:
        return None
    runs = [{row.label: by_id[row.run] for row in table.rows if row.trained} for table in tasks]
    labels = dict.fromkeys(label for own in runs for label in own)
    found = [_profile(label, [own.get(label) for own in runs], tasks) for label in labels]
    return Profiles(tuple(tasks), longest, tuple(found))


def _profile(label: str, runs: Sequence[Result | None], tasks: Sequence[Table]) -> Profile:
    seeds = sorted({seed for run in runs if run for seed in run.seeds})
    missing = tuple(i for i, run in enumerate(runs) if run is None)
    present = [(run, task) for run, task in zip(runs, tasks, strict=True) if run]
    failures = {seed: [_failure(run, task, seed) for run, task in present] for seed in seeds}
    return Profile(label, failures, missing)


def _failure(run: Result, table: Table, seed: int) -> float:
    lengths = table.evaluated
    rows = (by_seed(run, table.metric, length).get(seed) for length in lengths)
    return failure(lengths, [value(row) if row else math.nan for row in rows], run.train.length)
