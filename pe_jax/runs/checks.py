"""What is checked of the sections of a config together."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import ShapeDtypeStruct

from pe_jax.attention.bound import fold_positions
from pe_jax.compose import hooks
from pe_jax.compose.parse import Spec, parse
from pe_jax.encoding import Dims, Encoding, overrides
from pe_jax.evaluation.config import EvalConfig
from pe_jax.fields import check_value
from pe_jax.metric import Predictions, SampleMetric, TextMetric, named
from pe_jax.model import memory, probe
from pe_jax.model.config import DTYPES, LmConfig
from pe_jax.model.parameters import learned
from pe_jax.runs import environment
from pe_jax.runs.config import RunConfig
from pe_jax.task import Task
from pe_jax.tasks import TASKS, oracle
from pe_jax.training import mesh, samples
from pe_jax.training.config import TrainConfig


def predicts(task: Task, lm: LmConfig, train: TrainConfig) -> None:
    """ValueError unless the model can be trained on the task."""
    samples.parts(task, train)
    if task.reads_text and lm.vocab < 256:
        raise ValueError(f"lm.vocab must be at least 256, since text is bytes, got {lm.vocab}")


def users_task(task: Task, name: str, train: TrainConfig, lengths: Sequence[int]) -> None:
    """ValueError if a user's own task raises, or if one of a hundred samples, of lengths from the
    shortest of training to the longest of evaluation, contradicts its oracle or its Bayes-optimal
    prediction, where it has one.
    """
    nothing_to_check = type(task).oracle is Task.oracle and type(task).bayes is Task.bayes
    if type(task) in TASKS.values() or nothing_to_check:
        return
    environment.keep_programs()  # before the first program, which decides whether JAX keeps any
    trained = (n for part in samples.parts(task, train) for n in part.lengths)
    every = sorted({*trained, *lengths})
    spread = {every[i] for i in np.linspace(0, len(every) - 1, 10).astype(int)}
    try:
        oracle.check(task, tuple(sorted(spread)), -(-100 // len(spread)))
    except Exception as error:  # the code is the user's
        kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
        raise ValueError(f"{name}: {kind}{error}") from error


def no_steps(train: TrainConfig, evaluation: EvalConfig, run: RunConfig) -> None:
    """ValueError unless a run of no steps starts from a model, and eval.by=place has one seed."""
    if not train.steps and not train.init_from:
        raise ValueError(
            "train.steps=0 trains nothing: name by train.init_from the model that is scored, or "
            "give train.steps"
        )
    if evaluation.by == "place" and len(run.seeds) > 1:
        raise ValueError(
            f"eval.by=place scores one model, got {len(run.seeds)} seeds: set run.seeds to one"
        )


def users_metrics(names: Sequence[str], task: Task) -> None:
    """ValueError if a user's own metric raises, or gives no number, for two tokens or samples."""
    for name in (name for name in names if ":" in name):
        metric = named(name, TextMetric if task.reads_text else SampleMetric)
        try:
            if isinstance(metric, TextMetric):
                value = metric.value(np.array([0.5, 2.0]), np.array([1, 3]))
            else:
                scored, nats = np.ones((2, 1), bool), np.array([[0.5], [2.0]])
                value = metric.value(Predictions(scored, nats < 1, nats, nats, nats, nats))
        except Exception as error:  # the code is the user's
            raise ValueError(f"{name}: {type(error).__name__}: {error}") from error
        check_value(value, float, f"the value of {name}")


def devices(run: RunConfig, train: TrainConfig) -> None:
    """ValueError unless the devices can share out the seeds of one program and a batch."""
    mesh.check(run.mesh, len(run.groups(run.seeds)[0]), train.batch)


def reference(run: RunConfig, train: TrainConfig, task: Task) -> None:
    """ValueError unless a run with run.oracle_of is of text, and of a longer training length."""
    if run.oracle_of and (run.oracle_of >= train.length or not task.reads_text):
        raise ValueError(
            f"run.oracle_of must be below train.length, {train.length}, and of text, got "
            f"{run.oracle_of}: it is the training length of the runs beside which a report shows "
            "this run"
        )


def users_hooks(members: Spec, swaps: Sequence[str], dims: Dims, lm: LmConfig) -> None:
    """ValueError for a wrong hook of a user's own encoding, also of one that is swapped in, such as
    one that reads later tokens in a causal model.
    """
    for spec in (members, *map(parse, swaps)):
        names = [member.name for member in spec]
        encodings = spec.encodings(dims)
        hooks.check(encodings, names, DTYPES[lm.dtype])
        if any(":" in name for name in names):
            environment.keep_programs()  # before the first program, as above
            probe.check(encodings, names)
            _positions_are_shared(encodings, dims)


def _positions_are_shared(encodings: tuple[Encoding, ...], dims: Dims) -> None:
    """TypeError for a class that reads the tokens in `positions` and is not `per_sequence`."""
    L = dims.train_len
    tokens, pos = ShapeDtypeStruct((2, L), jnp.int32), ShapeDtypeStruct((L,), jnp.int32)
    for train in (True, False):
        fold = functools.partial(fold_positions, encodings, key=jax.random.key(0), train=train)
        jax.eval_shape(fold, tokens, pos)


def parameters(encodings: Sequence[Encoding]) -> None:
    """ValueError unless layers can own the parameters that `per_layer` names."""
    for encoding in encodings:
        if encoding.per_layer:
            learned(encoding)


def positions(encodings: Sequence[Encoding], names: Sequence[str]) -> None:
    """ValueError unless each encoding can serve the positions that those before it hand on."""
    highest, whose = 0, ""
    for encoding, name in zip(encodings, names, strict=True):
        limit = encoding.limit()
        if overrides(encoding, "positions"):
            highest, whose = encoding.highest_position() or 0, name
        elif limit is not None and limit <= highest:
            raise ValueError(
                f"{name} serves the positions 0 .. {limit - 1}, and {whose} hands on positions to "
                f"{highest} or more: give {name} room for them, or lower those of {whose}"
            )


def segment_memory(lm: LmConfig, encodings: Sequence[Encoding], train: TrainConfig) -> None:
    """ValueError unless the encodings can be trained with the segment memory of lm.memory."""
    if lm.memory:
        memory.check(encodings, lm.memory, train.length)
