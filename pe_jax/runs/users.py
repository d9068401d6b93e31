"""Users' own encodings, tasks and metrics: their files, and the checks before a run."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import ShapeDtypeStruct

from pe_jax import contract
from pe_jax.attention.bound import fold_positions
from pe_jax.encoding import Dims, Encoding
from pe_jax.evaluation.config import EvalConfig, variant
from pe_jax.fields import check_value
from pe_jax.metric import Predictions, SampleMetric, TextMetric
from pe_jax.metrics import named
from pe_jax.model import probe
from pe_jax.model.config import DTYPES, LmConfig
from pe_jax.runs import environment
from pe_jax.specs import hooks
from pe_jax.specs.parse import Spec, parse, sources
from pe_jax.task import Task
from pe_jax.tasks import TASKS, oracle
from pe_jax.training import samples
from pe_jax.training.config import TrainConfig


def scoring_files(swaps: Sequence[str], metrics: Sequence[str]) -> dict[str, str]:
    """SHA-256 of the users' files of swaps and metrics, by path."""
    return sources(*swaps) | contract.sources(*metrics)


def check_users_hooks(members: Spec, swaps: Sequence[str], dims: Dims, lm: LmConfig) -> None:
    """ValueError for a wrong hook of a user's own encoding, such as one that reads later tokens in
    a causal model; the encodings that are swapped in are checked, too.
    """
    for spec in (members, *map(parse, swaps)):
        names = [member.name for member in spec]
        encodings = spec.encodings(dims)
        hooks.check(encodings, names, DTYPES[lm.dtype])
        if any(":" in name for name in names):
            environment.keep_programs()  # before the first program, as below
            probe.check(encodings, names)
            _check_positions_are_shared(encodings, dims)


def _check_positions_are_shared(encodings: tuple[Encoding, ...], dims: Dims) -> None:
    """TypeError for an encoding that reads the tokens in `positions` and is not `per_sequence`."""
    L = dims.train_len
    tokens, pos = ShapeDtypeStruct((2, L), jnp.int32), ShapeDtypeStruct((L,), jnp.int32)
    for train in (True, False):
        fold = functools.partial(fold_positions, encodings, key=jax.random.key(0), train=train)
        jax.eval_shape(fold, tokens, pos)


def check_users_metrics(names: Sequence[str], task: Task) -> None:
    """ValueError if a user's own metric raises, or gives no number, for two tokens or samples."""
    for name in (name for name in names if ":" in name):
        own = named(name, TextMetric if task.reads_text else SampleMetric)
        nats = np.array([[0.5], [2.0]])
        predictions = Predictions(np.ones((2, 1), bool), nats < 1, nats, nats, nats, nats)
        scored: Any = (nats[:, 0], np.array([1, 3])) if task.reads_text else (predictions,)
        check_value(own.value(*scored), float, f"the value of {name}")


def check_users_task(task: Task, name: str, train: TrainConfig, evaluation: EvalConfig) -> None:
    """ValueError if a user's own task that draws its samples, or one of its variants, raises or
    gives lists of a wrong length, or if one of a hundred samples, of lengths from the shortest of
    training to the longest of evaluation, contradicts its oracle or its Bayes-optimal prediction,
    where it has one.
    """
    if type(task) in TASKS.values() or task.reads_text:
        return
    knows = type(task).oracle is not Task.oracle or type(task).bayes is not Task.bayes
    environment.keep_programs()  # before the first program, which decides whether JAX keeps any
    trained = (n for part in samples.parts(task, train) for n in part)
    lengths = {"": sorted({*trained, *evaluation.lengths})}
    lengths |= {fields: sorted(evaluation.lengths) for fields in evaluation.variants}
    for fields, every in lengths.items():
        spread = {every[i] for i in np.linspace(0, len(every) - 1, 10).astype(int)}
        with contract.calling(f"{name}{fields and f', {fields}'}", name):
            made = variant(task, fields) if fields else task
            oracle.check_lists(made, (every[0], every[-1]))
            if knows:
                oracle.check(made, tuple(sorted(spread)), -(-100 // len(spread)))
