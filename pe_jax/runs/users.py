"""Users' own encodings, tasks and metrics: their files, and the checks before a run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pe_jax import contract, testing
from pe_jax.encoding import Dims
from pe_jax.evaluation.config import EvalConfig, variant
from pe_jax.metrics import named
from pe_jax.model.config import DTYPES, LmConfig
from pe_jax.runs import environment
from pe_jax.specs.parse import Spec, parse, sources
from pe_jax.task import Task
from pe_jax.tasks import TASKS
from pe_jax.training import samples
from pe_jax.training.config import TrainConfig


def scoring_files(swaps: Sequence[str], metrics: Sequence[str]) -> dict[str, str]:
    """SHA-256 of the users' files of swaps and metrics, by path."""
    return sources(*swaps) | contract.sources(*metrics)


def check_users_hooks(members: Spec, swaps: Sequence[str], dims: Dims, lm: LmConfig) -> None:
    """ValueError for a wrong hook of a user's own encoding, or of one that is swapped in."""
    for spec in (members, *map(parse, swaps)):
        testing.check_members(spec.encodings(dims), DTYPES[lm.dtype])


def check_users_metrics(names: Sequence[str]) -> None:
    """ValueError if a user's own metric raises, or gives no number, for two tokens or samples."""
    for name in (name for name in names if ":" in name):
        testing.check_metric(named(name))


def check_users_task(task: Task, name: str, train: TrainConfig, evaluation: EvalConfig) -> None:
    """ValueError for a fault of a user's own task that draws its samples, or of one of its
    variants, at ten lengths from the shortest of training to the longest of evaluation.
    """
    if type(task) in TASKS.values() or task.reads_text:
        return
    environment.keep_programs()  # before the first program, which decides whether JAX keeps any
    trained = (n for part in samples.parts(task, train) for n in part)
    lengths = {"": sorted({*trained, *evaluation.lengths})}
    lengths |= {fields: sorted(evaluation.lengths) for fields in evaluation.variants}
    for fields, every in lengths.items():
        spread = {every[i] for i in np.linspace(0, len(every) - 1, 10).astype(int)}
        with contract.calling(f"{name}{fields and f', {fields}'}", name):
            made = variant(task, fields)
            testing.check(made, tuple(sorted(spread)))
