"""Validation text scored while a run trains: by what `train.rate` is chosen, and what shows whether
training goes on, has come to a halt or diverges.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
from jax.sharding import Mesh

from pe_jax.data.tokenizer import Tokens
from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.scoring import score, target_nats
from pe_jax.evaluation.windows import Windows, windows
from pe_jax.reason import Reason
from pe_jax.runs.run import Run
from pe_jax.training.mesh import copies
from pe_jax.training.session import Validate
from pe_jax.training.step import structure

METRIC = "same_targets"
TARGETS = 8192
"""Scored tokens, where the validation text has as many."""


def validation(run: Run, corpus: Tokens, mesh: Mesh | None) -> Validate | None:
    """What scores the validation text by `same_targets` at the training length; None where that
    text is shorter than one window.
    """
    cut = _windows(run, corpus)
    if cut is None:
        return None
    graphdef, _ = structure(run.lm, run.encodings)
    encodings = tuple(e.at(run.train.length) for e in run.encodings)
    program = functools.partial(target_nats, graphdef=graphdef, encodings=encodings)

    def value(params: Any) -> float | None:
        own = functools.partial(program, copies(mesh, params))
        nats = score(cut, own, run.eval.batch_tokens, mesh)
        return None if isinstance(nats, Reason) else cut.value(nats)

    def validate(params: Any) -> list[float | None]:
        params = jax.device_get(params)
        replicas = len(jax.tree.leaves(params)[0])
        return [value(jax.tree.map(lambda a: a[row], params)) for row in range(replicas)]  # noqa: B023

    return validate


def _windows(run: Run, corpus: Tokens) -> Windows | None:
    """The windows with TARGETS targets, or with half or a quarter of them and so on."""
    length, targets = run.train.length, TARGETS
    while targets >= max(1, length // 2):
        config = EvalConfig((length,), (METRIC,), (), targets=targets, split="valid")
        try:
            documents, sizes = corpus.splits["valid"], corpus.tokenizer.sizes
            return windows(documents, METRIC, length, config.resolved(length), sizes)
        except ValueError:
            targets //= 2
    return None
