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
from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.evaluate import Models, cuts_of, evaluate
from pe_jax.evaluation.passes import jobs, plan, wanted
from pe_jax.evaluation.scorers import SampleScorer
from pe_jax.training.session import Session, Validate
from pe_jax.training.step import structure

VALIDATED = 8192
"""Scored tokens, where the validation text has as many; of a task the tokens of its samples."""


def validation(run: Any, text: Tokens, mesh: Mesh | None) -> Validate | None:
    """Scores the validation text by `same_targets`, or the samples of the split "valid" by `bits`,
    at the training length. None where the text is shorter than one window.
    """
    if run.task.reads_text:
        config, cuts = _of_text(run, text)
        if not cuts:
            return None
    else:
        config, cuts = _of_samples(run), {}
    graphdef, _ = structure(run.lm, run.encodings)

    def validate(params: Any) -> list[float | None]:
        seeds, session = range(len(jax.tree.leaves(params)[0])), Session(mesh=mesh)
        fields = graphdef, jax.device_get(params), run.encodings, {}, run.train.length, run.task
        models = Models.stacked(*fields, seeds=seeds)
        if run.task.reads_text:
            scored = evaluate(models, cuts, config, session)
            return [row.value for row in scored.rows]
        passes = plan(run.encodings, config, task=run.task)
        (job,) = jobs(passes, keys := wanted(passes, config, seeds))
        of_samples = SampleScorer(models, config, session)(job)
        return [of_samples[key].row.value for key in keys]

    return validate


def _of_samples(run: Any) -> EvalConfig:
    """The evaluation of samples that have about VALIDATED tokens."""
    length, samples = run.train.length, max(1, VALIDATED // int(run.task.size(run.train.length)))
    config = EvalConfig((length,), ("bits",), (), samples=samples, split="valid")
    config = dataclasses.replace(config, batch_tokens=run.eval.batch_tokens)
    return config.resolved(length, task=run.task)


def _of_text(run: Any, text: Tokens) -> tuple[EvalConfig, dict]:
    """The evaluation of VALIDATED targets, or of half or a quarter of them and so on; its windows,
    {} where the text has none.
    """
    length, targets = run.train.length, VALIDATED
    whole = EvalConfig((length,), ("same_targets",), (), batch_tokens=run.eval.batch_tokens)
    while targets >= max(1, length // 2):
        config = dataclasses.replace(whole, targets=targets).resolved(length)
        with contextlib.suppress(ValueError):
            return config, cuts_of(text.splits["valid"], config, text.tokenizer)
        targets //= 2
    return whole, {}
