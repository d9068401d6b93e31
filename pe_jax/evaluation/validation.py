"""Validation: text or samples that are scored while a run trains. One of train.rates is chosen by
this score, and it shows whether training goes on, has come to a halt or diverges.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import jax
from jax.sharding import Mesh

from pe_jax.data.tokenizer import Tokens
from pe_jax.encoding import Encoding
from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.evaluate import cuts_of, evaluate
from pe_jax.evaluation.scoring import Models
from pe_jax.evaluation.windows import Windows
from pe_jax.model.config import LmConfig
from pe_jax.task import Task
from pe_jax.training.session import Session, Validate
from pe_jax.training.step import structure

VALIDATED = 8192
"""Scored tokens, where the validation text has as many; of a task the tokens of its samples."""


def validation(
    lm: LmConfig,
    encodings: tuple[Encoding, ...],
    task: Task,
    text: Tokens,
    length: int,
    batch_tokens: int,
    mesh: Mesh | None,
) -> Validate | None:
    """Scores the validation text by `same_targets`, or the samples of the split "valid" by `bits`,
    at the training length. None where the text is shorter than one window.
    """
    config, cuts = EvalConfig((length,), swaps=(), batch_tokens=batch_tokens), {}
    if task.reads_text:
        config, cuts = _text_windows(config, text, length)
        if not cuts:
            return None
    else:
        samples = max(1, VALIDATED // int(task.size(length)))
        config = dataclasses.replace(config, metrics=("bits",), samples=samples, split="valid")
        config = config.resolved(length, task=task)
    graphdef, _ = structure(lm, encodings)

    def validate(params: Any) -> list[float | None]:
        seeds = range(len(jax.tree.leaves(params)[0]))
        fields = graphdef, jax.device_get(params), encodings, {}, length, task
        models = Models.stacked(*fields, seeds=seeds)
        passes = evaluate(models, cuts, config, Session(mesh=mesh))
        value = {one.row.replica.number: one.row.value for part in passes for one in part}
        return [value[seed] for seed in seeds]

    return validate


# The evaluation of VALIDATED targets, or of half or a quarter of them and so on, and its windows;
# {} where the text has none.
def _text_windows(
    config: EvalConfig, text: Tokens, length: int
) -> tuple[EvalConfig, dict[tuple[str, int], Windows]]:
    targets = VALIDATED
    while targets >= max(1, length // 2):
        fields = {"metrics": ("same_targets",), "targets": targets}
        resolved = dataclasses.replace(config, **fields).resolved(length)
        with contextlib.suppress(ValueError):
            return resolved, cuts_of(text.splits["valid"], resolved, text.tokenizer)
        targets //= 2
    return config, {}
