"""Checks of encodings, tasks and metrics of your own, for your own tests.

    from pe_jax import Dims
    from pe_jax.testing import check

    def test_mine():
        check(Mine(Dims(model=32, heads=2, head=16, layers=2, train_len=64)), lengths=(64, 256))

Before it trains, a run checks users' classes in the same way, and encodings in its own model on its
own text, at the training length and at the longest evaluated one (`check_model`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pe_jax.contract import calling
from pe_jax.encoding import Encoding
from pe_jax.fields import check_value
from pe_jax.metric import Metric, Predictions, SampleMetric, Scope, TextMetric
from pe_jax.task import Task
from pe_jax.testing.encodings import check_encoding, check_model
from pe_jax.testing.hooks import check_members
from pe_jax.testing.tasks import check_task

__all__ = ["check", "check_members", "check_metric", "check_model", "check_task"]


def check(checked: Encoding | Task | Metric, lengths: Sequence[int] = ()) -> None:
    """Holds an encoding, a task or a metric against its contract.

    An encoding: each hook that it overrides returns arrays of the contract's shapes and dtypes, and
    calls no Python while the program runs; numbers in a model are finite; where `dims.causal`, they
    depend on no later tokens; they are the same by blocks of keys, and where `dims.causal` for a
    shorter text and for a single token with the others in a cache.

    A task that draws its samples: each sample is what `oracle` says, or targets are drawn from
    `bayes`; ids, labels and padding are as the contract says; `guess`, `depths` and `distances`
    have an entry for each token.

    A metric: its windows lie within the documents, and its value is a finite number.

    Args:
        checked: an instance.
        lengths: of an encoding the tokens of the texts, (dims.train_len,) by default; of a task the
            n of the samples, its ten shortest by default; of a metric the evaluation lengths.

    Raises:
        ValueError: the first fault; of a hook with the line of its file.
    """
    if isinstance(checked, Encoding):
        check_encoding(checked, lengths)
    elif isinstance(checked, Task):
        check_task(checked, tuple(lengths))
    else:
        check_metric(checked, lengths or (32, 64, 128))


def check_metric(metric: Any, lengths: Sequence[int] = ()) -> None:
    """ValueError if the value of a TextMetric or a SampleMetric is no finite number, or a window of
    text at one of the evaluation lengths lies outside its document.
    """
    nats = np.array([[0.5], [2.0]])  # of two targets, or of two samples
    scored: Any = (nats[:, 0], np.array([1, 3]))
    if isinstance(metric, SampleMetric):
        scored = (Predictions(np.ones((2, 1), bool), nats < 1, nats, nats, nats, nats),)
    with calling(f"{metric.name}.value"):
        value: Any = metric.value(*scored)
        value = value.item() if hasattr(value, "item") else value
    check_value(value, float, f"the value of {metric.name}")
    if isinstance(metric, TextMetric) and lengths:
        longest = max(lengths)
        sizes = (5 * longest + metric.beyond, 9 * longest + metric.beyond)
        for E in lengths:
            with calling(f"{metric.name}.places"):
                metric.windows(sizes, E, Scope(longest, 4 * longest, max(1, min(lengths) // 2)))
