"""Evaluation of trained models by every metric at every length and in every way: as trained, with
every swap, on every variant of the task, and with every segment memory.

    windows.py    cuts the text
    passes.py     lists the passes, and the jobs that compute them
    scorers.py    scores a job, by the programs of scoring.py, for kl and longppl with reference.py

Evaluation text, samples and random positions are fixed, so every seed and encoding meets the same
ones.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from pe_jax.data.tokenizer import Tokenizer
from pe_jax.evaluation.baselines import baselines
from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.passes import Key, key_of, left, plan
from pe_jax.evaluation.scorers import SampleScorer, Scored, TextScorer
from pe_jax.evaluation.scoring import Models, Programs
from pe_jax.evaluation.windows import Windows, windows
from pe_jax.metric import SampleMetric, TextMetric
from pe_jax.metrics import named
from pe_jax.record import Baseline, Curve, Row
from pe_jax.training.session import Session


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The evaluation of a run."""

    rows: tuple[Row, ...]
    curves: tuple[Curve, ...] = ()
    """By the metrics that have curves: of text at the longest length that has a value, of samples
    and prompts at every length.
    """
    baselines: tuple[Baseline, ...] = ()
    """Of samples, at the lengths of the rows."""
    targets: dict[str, int] = dataclasses.field(default_factory=dict)
    """Scored tokens of each metric of text, the same at every length."""
    target_bytes: dict[str, dict[int, int]] = dataclasses.field(default_factory=dict)
    """Bytes of the scored tokens, by metric and length: bits per byte times these over `targets`
    are bits per token.
    """


def evaluate(
    models: Models,
    cuts: Mapping[tuple[str, int], Windows],
    config: EvalConfig,
    session: Session | None = None,
    threads: int = 1,
    known: Sequence[Scored] = (),
    keep: Callable[[list[Scored], list[Baseline]], object] = lambda scored, baselines: None,
) -> Evaluation:
    """Scores the models by a resolved config: on `cuts`, the windows of each metric and length, or
    where their task draws its samples on these.

    `threads` passes run at a time. `keep` gets the baselines first, and after each pass the scores,
    and then the session's history gets a line. Interrupted when `session.stop` says so.

    A `known` score is not computed and not returned, and also serves ways that share its pass. It
    changes no other score. `longest` joins known curves of text and new ones.
    """
    session, reads_text = session or Session(), models.task.reads_text
    passes = plan(models.encodings, config, models.segment, models.task)
    there = {key_of(one.row): one for one in known}
    keys, equal, jobs = left(passes, config, tuple(models.params), there)
    scored = {key: there[old].of(key.way) for key, old in equal.items()}
    programs = Programs(models, config, session)
    scorer = TextScorer(programs, cuts) if reads_text else SampleScorer(programs)
    costs = [scorer.tokens(job) for job in jobs]
    pool = ThreadPoolExecutor(threads)
    scores: Iterator[dict[Key, Scored]] = (pool.map if threads > 1 else map)(scorer, jobs)
    try:
        # Of the lengths of missing scores: after a kill these would be fewer.
        missing = {(key.way, key.length) for key in keys}
        of_task = [
            baseline
            for part in (() if reads_text else passes)
            if (part.way, part.length) in missing and not part.way.swap
            for baseline in baselines(part.task, part.length, config, part.way)
        ]
        keep([*scored.values()], of_task)
        for i, new in enumerate(scores):
            scored |= new
            keep([*new.values()], [])
            session.history.add(evaluated=sum(costs[: i + 1]), of=sum(costs))
            session.stop(lambda: None)
    finally:
        pool.shutdown(cancel_futures=True)
    of_text = [m for m in config.metrics if isinstance(named(m), TextMetric)]
    return Evaluation(
        tuple(scored[key].row for key in keys),
        longest(curve for key in keys if (curve := scored[key].curve)),
        tuple(of_task),
        targets={m: cuts[m, config.lengths[0]].targets for m in of_text},
        target_bytes={m: {n: cuts[m, n].bytes for n in config.lengths} for m in of_text},
    )


def cuts_of(
    documents: Sequence[np.ndarray], config: EvalConfig, tokenizer: Tokenizer
) -> dict[tuple[str, int], Windows]:
    """The windows of every metric at every length; of a metric that compares with the model as it
    is also at eval.reference. Prompts that two metrics share are written once. ValueError where the
    text does not suffice.
    """
    cuts, written = dict[tuple[str, int], Windows](), dict[tuple[Any, int], Windows]()
    for name in config.metrics:
        metric = named(name)
        more = {config.reference or 0} if getattr(metric, "compares", "") else set()
        for length in sorted({*config.lengths, *more}):
            prompt = getattr(metric, "prompt", name), length
            if prompt not in written:
                written[prompt] = windows(documents, name, length, config, tokenizer)
            cuts[name, length] = dataclasses.replace(written[prompt], metric=metric)
    return cuts


def longest(curves: Iterable[Curve]) -> tuple[Curve, ...]:
    """Of each metric, replica and way, the curve of the longest length; of samples and prompts the
    curves of all lengths, since each has its own depths.
    """
    kept: dict[tuple[object, ...], Curve] = {}
    for curve in curves:
        alone = curve.length if isinstance(named(curve.metric), SampleMetric) else 0
        key = curve.metric, curve.replica, curve.way, alone
        if key not in kept or kept[key].length <= curve.length:
            kept.pop(key, None)
            kept[key] = curve
    return tuple(kept.values())
