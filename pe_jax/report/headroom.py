"""The share of the headroom that a model uses: the model's gain from a longer context, over an
oracle's gain from the same context.

    100 (value at L - value at E) / (oracle at L - oracle at E)

in percent, for each replica, at each evaluation length E beyond the training length L. Of a task
whose targets are drawn, the oracle is the Bayes-optimal prediction, by the metric BITS; the record
has its values among its baselines. Of text, it is a model trained at each length E, by the metric
TEXT (reference_rows.py), the mean over its seeds, at the lengths at which it gains at least LEAST.
The model's values at L and E are scored in the same way: both as trained, or both with one swap.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pe_jax.metric import SampleMetric
from pe_jax.record import AS_TRAINED, Result, Row, Way
from pe_jax.report import groups, labels
from pe_jax.report.groups import Group

BITS, TEXT = "last_bits", "same_targets"
LEAST = 0.05
"""Bits per byte. Where the oracle gains less from a longer context there is no headroom to use, and
a share of it would be noise."""
BAYES, LONGER = "the Bayes-optimal prediction", "a model trained at that length"
"""The oracles of tasks and of text in words."""


HEADROOM = SampleMetric(
    "headroom",
    "The headroom used at a length: the bits that the model gains from the training length to it, "
    "over the bits that {oracle} gains on the same targets. 100 %: the longer context is used as "
    "well as by it; 0 %: it is not used; below 0: it harms.",
    unit="headroom used in %",
    reach="90 % used up to",
    value=lambda predictions: math.nan,  # `added` computes it, from the values at two lengths
)


def added(results: Iterable[Result]) -> list[Result]:
    """The results, with rows of the metric HEADROOM where they have the values for it."""
    results = list(results)
    of_text = {
        result.id: _of_oracle(group)
        for group in groups.groups(results)
        for result in group.results
        if group.oracles
    }
    found = []
    for result in results:
        best = {
            (one.way, one.length): one.value
            for one in result.baselines
            if (one.name, one.metric) == ("bayes", BITS)
        }
        shares = [
            *_rows(result, BITS, best),
            *_rows(result, TEXT, of_text.get(result.id, {})),
        ]
        found.append(replace(result, rows=(*result.rows, *shares)))
    return found


def _of_oracle(group: Group) -> dict[tuple[Way, int], float]:
    """The values of the oracle of a group of text, at the training length and at the lengths at
    which it gains LEAST or more; of several oracles, the one with the lowest value at its longest
    length.
    """
    length, found = group.results[0].train.length, []
    models = {result.id: result for result in group.results}
    for id, oracles in by_model(group.oracles, group.results).items():
        if id not in models:
            continue
        means = {run.train.length: _mean(run) for run in (models[id], *oracles)}
        start = means.pop(length)
        gained = {n: mean for n, mean in means.items() if start - mean >= LEAST}
        if gained:
            found.append({length: start} | gained)
    best = min(found, key=lambda means: means[max(means)], default={})
    return {(AS_TRAINED, n): mean for n, mean in best.items()}


def by_model(oracles: Iterable[Result], results: Sequence[Result]) -> dict[str, list[Result]]:
    """{id of a model: its oracles, trained alike but for the length}. A model is the result with
    the oracle's label, of several the one with its settings too; an oracle without one such result
    stands under its label.
    """
    found: dict[str, list[Result]] = {}
    for oracle in oracles:
        same = [one for one in results if one.label == oracle.label]
        if len(same) > 1:
            same = [one for one in same if _training(one) == _training(oracle)]
        found.setdefault(same[0].id if len(same) == 1 else oracle.label, []).append(oracle)
    return found


def _training(result: Result) -> dict[str, Any]:
    """The settings of its training, but for those in which an oracle may differ."""
    free = groups.OF_TRAINING | labels.COMPUTED | {"lm.attention"}
    every = labels.settings(result.config).items()
    of_training = [item for item in every if not item[0].startswith(("eval.", "run."))]
    return {name: value for name, value in of_training if name not in free}


def _mean(run: Result) -> float:
    """The mean over seeds at the run's own training length; NaN without values."""
    values = [
        row.value
        for row in run.rows
        if (row.metric, row.length, row.way) == (TEXT, run.train.length, AS_TRAINED)
        and row.value is not None
    ]
    return statistics.fmean(values) if values else math.nan


def _rows(result: Result, metric: str, best: Mapping[tuple[Way, int], float]) -> list[Row]:
    """The shares of a result as rows; `best` has the oracle's values by way and length."""
    train = result.train.length
    scored = [row for row in result.rows if row.metric == metric]
    starts = {(row.replica, row.way): row for row in scored if row.length == train}
    shares = []
    for row in scored:
        # A variant of the task has an oracle of its own.
        task = row.way if (row.way, train) in best else AS_TRAINED
        start, ends = starts.get((row.replica, row.way)), ((task, train), (task, row.length))
        if row.length <= train or start is None or not best.keys() >= {*ends}:
            continue
        if (most := best[ends[0]] - best[ends[1]]) <= 0:  # no context to use
            continue
        share = None
        if start.value is not None and row.value is not None:
            share = 100 * (start.value - row.value) / most
        why = start if start.value is None else row
        shares.append(replace(why, metric=HEADROOM.name, length=row.length, value=share))
    return shares
