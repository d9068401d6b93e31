"""Validation text or samples scored while a run trains: one of train.rates is chosen by this score,
and it shows whether training goes on, has come to a halt or diverges.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from pe_jax.data.tokenizer import Tokens
from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.evaluate import Models, evaluate
from pe_jax.evaluation.passes import jobs, plan, wanted
from pe_jax.evaluation.scorers import SampleScorer
from pe_jax.evaluation.windows import windows
from pe_jax.runs.run import Run
from pe_jax.training.processes import gather
from pe_jax.training.session import Session, Validate
from pe_jax.training.step import structure

METRIC = "same_targets"
TARGETS = 8192
"""Scored tokens, where the validation text has as many; of a task the tokens of its samples."""


def validation(run: Run, text: Tokens, mesh: Mesh | None) -> Validate | None:
    """What scores the validation text by `same_targets` at the training length; None where that
    text is shorter than one window. Of a task that draws its samples it scores those of the split
    "valid" at the training length by `bits`.
    """
    if not run.task.reads_text:
        return _of_samples(run, mesh)
    documents = text.splits["valid"]
    config = _config(run.train.length, documents)
    if config is None:
        return None
    config = dataclasses.replace(config, batch_tokens=run.eval.batch_tokens)
    graphdef, _ = structure(run.lm, run.encodings)

    def validate(params: Any) -> list[float | None]:
        replicas = range(len(jax.tree.leaves(params)[0]))
        models = Models.stacked(graphdef, gather(params), run.encodings, seeds=replicas)
        scored = evaluate(models, documents, config, text.tokenizer, Session(mesh=mesh))
        return [row.value for row in scored.rows]

    return validate


def _of_samples(run: Run, mesh: Mesh | None) -> Validate:
    length, task = run.train.length, run.task
    samples = max(1, TARGETS // int(task.size(length)))
    config = EvalConfig((length,), ("bits",), (), samples=samples, split="valid")
    config = dataclasses.replace(config, batch_tokens=run.eval.batch_tokens)
    config = config.resolved(length, task=task)
    graphdef, _ = structure(run.lm, run.encodings)

    def validate(params: Any) -> list[float | None]:
        seeds = range(len(jax.tree.leaves(params)[0]))
        fields = graphdef, gather(params), run.encodings, {}, length, task
        models = Models.stacked(*fields, seeds=seeds)
        passes = plan(run.encodings, config, task=task)
        (job,) = jobs(passes, keys := wanted(passes, config, seeds))
        scored = SampleScorer(models, config, Session(mesh=mesh))(job)
        return [scored[key].row.value for key in keys]

    return validate


def _config(length: int, documents: Sequence[np.ndarray]) -> EvalConfig | None:
    """The evaluation of TARGETS targets, or of half or a quarter of them and so on."""
    targets = TARGETS
    while targets >= max(1, length // 2):
        config = EvalConfig((length,), (METRIC,), (), targets=targets).resolved(length)
        try:
            windows(documents, METRIC, length, config)
        except ValueError:
            targets //= 2
        else:
            return config
    return None
