"""Evaluation of trained models by every metric at every length: as they are, with every swap, and
with every segment memory. windows.py cuts the text, passes.py lists what is to be computed,
scorers.py computes it.

Evaluation text, samples and random positions are fixed, so every seed and encoding meets the same
ones.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from pe_jax.evaluation.baselines import baselines
from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.passes import Job, Key, Pass, jobs, plan, wanted
from pe_jax.evaluation.scorers import Models, SampleScorer, Scored, TextScorer
from pe_jax.evaluation.windows import windows
from pe_jax.record import Baseline, Curve, Row
from pe_jax.training.processes import broadcast
from pe_jax.training.session import Session


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """What a run's result holds of its evaluation."""

    rows: tuple[Row, ...]
    curves: tuple[Curve, ...] = ()
    """By the metrics that have curves: of text at the longest length that has a value, of samples
    at every length.
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
    documents: Sequence[np.ndarray],
    config: EvalConfig,
    sizes: np.ndarray | None = None,
    session: Session | None = None,
    threads: int = 1,
    done: frozenset[tuple[int, str, str, int]] = frozenset(),
    keep: Callable[[Evaluation], object] = lambda evaluation: None,
) -> Evaluation:
    """Scores the models by a resolved config: on `documents`, the token ids [n] of each, or where
    their task draws its samples on these.

    `sizes` [V] are the bytes of each token, None where tokens are bytes; `threads` passes run at a
    time. The session's history gets a line after each pass; its mesh splits the windows. ValueError
    where the text does not suffice, Interrupted when `session.stop` says so: `keep` then gets the
    scores of the passes that are done.

    What is `done`, as (seed, swap, metric, length), is neither computed nor compiled, and has no
    row or curve in what comes back; all else is what it would be without it, to the bit. `longest`
    joins old curves of text and new.
    """
    session = session or Session()
    passes = plan(models.encodings, config, models.segment, models.task)
    keys = [key for key in wanted(passes, config, models.seeds) if key not in done]
    reads_text = models.task.reads_text
    cuts = {
        (metric, length): windows(documents, metric, length, config, sizes)
        for metric in config.metrics
        for length in config.lengths
        if reads_text
    }
    scorer = (
        TextScorer(models, cuts, config, session)
        if reads_text
        else SampleScorer(models, config, session)
    )

    def evaluation(found: dict[Key, Scored]) -> Evaluation:
        scored = [found[key] for key in keys if key in found]
        rows = tuple(entry.row for entry in scored)
        curves = tuple(entry.curve for entry in scored if entry.curve)
        if not reads_text:
            return Evaluation(rows, curves, tuple(_baselines(passes, [*found], config)))
        return Evaluation(
            rows,
            longest(curves),
            targets={m: cuts[m, config.lengths[0]].targets for m in config.metrics},
            target_bytes={m: {n: cuts[m, n].bytes for n in config.lengths} for m in config.metrics},
        )

    todo = jobs(passes, keys)
    return evaluation(
        _carried_out(todo, scorer, session, threads, lambda found: keep(evaluation(found)))
    )


def _carried_out(
    todo: Sequence[Job],
    scorer: TextScorer | SampleScorer,
    session: Session,
    threads: int,
    keep: Callable[[dict[Key, Scored]], object],
) -> dict[Key, Scored]:
    """What the passes score. `keep` gets the scores so far where `session.stop` ends it."""
    costs = [scorer.tokens(job) for job in todo]
    found: dict[Key, Scored] = {}
    pool = ThreadPoolExecutor(threads)
    # One thread means this one, since all processes must use their devices in one order.
    scores: Iterator[dict[Key, Scored]] = (pool.map if threads > 1 else map)(scorer, todo)
    try:
        for i, new in enumerate(scores):
            found |= new
            broadcast(session.history.add, evaluated=sum(costs[: i + 1]), of=sum(costs))
            session.stop(functools.partial(keep, found))
    finally:
        pool.shutdown(cancel_futures=True)
    return found


def _baselines(
    passes: Sequence[Pass], keys: Sequence[Key], config: EvalConfig
) -> Iterator[Baseline]:
    """What methods without a model score at the lengths of these scores, in the task of training
    and in each variant.
    """
    wanted = {(key.swap, key.length) for key in keys}
    for part in passes:
        if (part.swap, part.length) in wanted and part.swap in ("", *config.variants):
            yield from baselines(part.task, part.length, config.samples, config.metrics, part.swap)


def longest(curves: Iterable[Curve]) -> tuple[Curve, ...]:
    """Of each metric, seed and swap, the curve of the longest length."""
    kept: dict[tuple[str, int, str], Curve] = {}
    for curve in curves:
        key = curve.metric, curve.seed, curve.swap
        if key not in kept or kept[key].length <= curve.length:
            kept.pop(key, None)
            kept[key] = curve
    return tuple(kept.values())
