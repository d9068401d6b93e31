"""Validation text scored while a run trains: by what `train.rate` is chosen, and what shows whether
training goes on, has come to a halt or diverges.
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
from pe_jax.evaluation.windows import windows
from pe_jax.runs.run import Run
from pe_jax.training.processes import gather
from pe_jax.training.session import Session, Validate
from pe_jax.training.step import structure

METRIC = "same_targets"
TARGETS = 8192
"""Scored tokens, where the validation text has as many."""


def validation(run: Run, text: Tokens, mesh: Mesh | None) -> Validate | None:
    """What scores the validation text by `same_targets` at the training length; None where that
    text is shorter than one window, or where the task has no text.
    """
    if not run.task.reads_text:
        return None
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
