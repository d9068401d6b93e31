"""The share of the headroom that a model uses: what a longer context gains it, over what the same
context gains the Bayes-optimal prediction.

    100 (value at L - value at E) / (Bayes at L - Bayes at E)

in percent, for each replicate, at each evaluation length E beyond the training length L. Values are
bits per token of the metric BITS, whose Bayes values the record has among its baselines. As trained
and with a swap, the value at L is that of the same way of evaluation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from pe_jax.metric import Predictions, SampleMetric
from pe_jax.record import AS_TRAINED, Result, Row

BITS = "last_bits"


def _without_predictions(predictions: Predictions) -> float:
    return math.nan  # it compares two lengths


HEADROOM = SampleMetric(
    "headroom",
    "The headroom used at a length: the bits per token that the model gains from the training "
    "length to it, over those that the Bayes-optimal prediction gains on the same samples. 100 %: "
    "the whole longer context is used as well as possible; 0 %: it is not used; below 0: it harms.",
    unit="headroom used in %",
    value=_without_predictions,
)


def added(results: Iterable[Result]) -> list[Result]:
    """The results, with rows of the metric HEADROOM where they have the values for it."""
    return [replace(result, rows=(*result.rows, *_rows(result))) for result in results]


def _rows(result: Result) -> list[Row]:
    train = result.train.length
    bayes = {
        (one.way, one.length): one.value
        for one in result.baselines
        if (one.name, one.metric) == ("bayes", BITS)
    }
    scored = [row for row in result.rows if row.metric == BITS]
    starts = {(row.replica, row.way): row for row in scored if row.length == train}
    shares = []
    for row in scored:
        task = row.way if (row.way, train) in bayes else AS_TRAINED  # a variant has its own
        start, ends = starts.get((row.replica, row.way)), ((task, train), (task, row.length))
        if row.length <= train or start is None or not bayes.keys() >= {*ends}:
            continue
        share = None
        if start.value is not None and row.value is not None:
            share = 100 * (start.value - row.value) / (bayes[ends[0]] - bayes[ends[1]])
        why = start if start.value is None else row
        shares.append(replace(why, metric=HEADROOM.name, length=row.length, value=share))
    return shares
