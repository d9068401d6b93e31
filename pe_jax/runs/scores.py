"""What the trained models of a run score, kept beside them. A score is computed once: who asks for
more of the same evaluation, or for seeds that came later, computes only what is missing.

evaluations/ has a record for each protocol, which holds all that was scored by it: what decides
which tokens are scored and how. Lengths up to the longest, metrics, swaps and seeds are no part of
a protocol: they may be asked for one after another.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import jax
import numpy as np

from pe_jax import metric
from pe_jax.compose.parse import sources
from pe_jax.data.tokenizer import Tokens
from pe_jax.errors import Refused
from pe_jax.evaluation.config import EvalConfig
from pe_jax.evaluation.evaluate import Evaluation, Models, evaluate, longest
from pe_jax.evaluation.passes import Key
from pe_jax.reason import Reason
from pe_jax.record import Baseline, Corpus, Curve, Result, Row, UsersMetric
from pe_jax.runs import environment
from pe_jax.runs.run import Run
from pe_jax.runs.sections import section
from pe_jax.storage import records
from pe_jax.storage.hashes import canonical, sha256
from pe_jax.task import Task
from pe_jax.training.session import Session
from pe_jax.training.step import State, structure

T = TypeVar("T")
PROTOCOL = ("split", "source", "targets", "stride", "last", "batch_tokens")
"""What of section `eval` decides how text is scored; of other tasks `samples` does."""


@dataclasses.dataclass(frozen=True)
class Kept:
    """All that is known of a run's models by one protocol, and the file that holds it."""

    path: Path
    result: Result | None

    @classmethod
    def of(cls, folder: Path, run: Run, say: Callable[[str], None]) -> Kept:
        """What the run's folder holds of its protocol; damaged files are set aside, which `say` is
        told.
        """
        path = file_of(folder, run.eval, run.task)
        if not path.parent.exists():
            _take_from_before(folder, run, say)
        return cls(path, records.read_whole(Result, path, say))

    @property
    def done(self) -> frozenset[Key]:
        """The scores that are known. One for which there was too little memory is not: there may be
        more today.
        """
        rows = self.result.rows if self.result else ()
        return frozenset(_key(row) for row in rows if row.reason is not Reason.OUT_OF_MEMORY)

    @property
    def seconds(self) -> float:
        """What they took to compute."""
        return self.result.seconds.evaluate if self.result and self.result.seconds else 0.0

    def check(self, scored: Corpus) -> None:
        """Refused if what is known was scored on other text."""
        before = (self.result.scored or self.result.corpus) if self.result else scored
        if before.hash != scored.hash:
            raise Refused(
                f"{self.path} was scored on other text ({scored.source} has changed since): delete "
                "it to score the text of today"
            )

    def joined(self, result: Result, run: Run) -> Result:
        """Keeps a result of the scores that were not known, and gives what the run asks for."""
        rows, curves = result.rows, result.curves
        here = environment.process() if rows else None
        by = self.result.scored_by if self.result else ()
        if here and here not in by:
            by = (*by, here)
        baselines = result.baselines
        if self.result:
            rows = _newest((*self.result.rows, *rows), _key)
            curves = (*self.result.curves, *curves)
            curves = longest(curves) if run.task.reads_text else _newest(curves, _key)
            baselines = _newest(
                (*self.result.baselines, *baselines),
                lambda one: (one.name, one.metric, one.length, one.swap),
            )
        every = tuple(sorted({row.seed for row in rows}))
        asked = _users_metrics(run.eval.metrics)
        whole = dataclasses.replace(
            result,
            seeds=every,
            rows=rows,
            curves=curves,
            baselines=baselines,
            metrics=(self.result.metrics if self.result else {}) | asked,
            scored_by=by,
        )
        if result.rows or not self.path.exists():
            records.write(self.path, whole)
        return dataclasses.replace(
            whole,
            seeds=result.seeds,
            metrics=asked,
            rows=_asked_rows(run, rows),
            curves=_asked_curves(run, curves),
            baselines=_asked_baselines(run, baselines),
        )


def _key(scored: Row | Curve) -> Key:
    return Key(scored.seed, scored.swap, scored.metric, scored.length)


def _newest(items: Iterable[T], key: Callable[[T], Hashable]) -> tuple[T, ...]:
    """Of the items of one key the last one."""
    return tuple({key(item): item for item in items}.values())


def file_of(folder: Path, config: EvalConfig, task: Task) -> Path:
    """Where the scores by a resolved config are kept. It depends on what the users' files of swaps
    and metrics hold.
    """
    files = sources(*config.swaps) | metric.sources(config.metrics)
    if not task.reads_text:
        text = canonical([config.samples, files])
        return folder / "evaluations" / f"{config.samples}-samples-{sha256(text)[:8]}.json"
    fixed = {name: getattr(config, name) for name in PROTOCOL}
    text = canonical([max(config.lengths), fixed, files])
    name = f"{config.split}-{max(config.lengths)}-{sha256(text)[:8]}.json"
    return folder / "evaluations" / name


def _users_metrics(names: Iterable[str]) -> dict[str, UsersMetric]:
    """What the record says of the users' metrics among these."""
    return {
        name: UsersMetric(
            sentence=found.sentence,
            unit=found.unit,
            better=found.better,
            samples=isinstance(found, metric.SampleMetric),
            sources=metric.sources([name]),
        )
        for name in names
        if ":" in name and (found := metric.named(name))
    }


def _take_from_before(folder: Path, run: Run, say: Callable[[str], None]) -> None:
    """Keeps the evaluation of a release that had it in result.json alone."""
    result = records.read_whole(Result, folder / "result.json", say)
    if result is None:
        return
    try:
        asked = section("eval", result.config.get("eval", {}))
        resolved = asked.resolved(run.train.length, run.lm.memory, run.task)
        path = file_of(folder, resolved, run.task)
    except (ValueError, TypeError, OSError):  # it cannot be asked for any more
        return
    records.write(path, result)


def _ways(run: Run) -> tuple[str, ...]:
    """The ways in which a model is evaluated: "" as trained, with each swap, on each variant of the
    task, with each memory.
    """
    memories = (f"memory {size}" for size in run.eval.memory)
    return ("", *run.eval.swaps, *run.eval.variants, *memories)


def _asked_rows(run: Run, rows: Sequence[Row]) -> tuple[Row, ...]:
    """Those that the run asks for, in the order in which it would score them."""
    known = {(row.swap, row.length, row.metric, row.seed): row for row in rows}
    wanted = itertools.product(_ways(run), run.eval.lengths, run.eval.metrics, run.run.seeds)
    return tuple(known[key] for key in wanted if key in known)


def _asked_curves(run: Run, curves: Sequence[Curve]) -> tuple[Curve, ...]:
    """Those that the run asks for: of text one for each metric, of samples one for each length."""
    known: dict[tuple[str, str, int], list[Curve]] = {}
    for curve in sorted(curves, key=lambda curve: curve.length):
        if run.task.reads_text or curve.length in run.eval.lengths:
            known.setdefault((curve.swap, curve.metric, curve.seed), []).append(curve)
    wanted = itertools.product(_ways(run), run.eval.metrics, run.run.seeds)
    return tuple(curve for key in wanted for curve in known.get(key, ()))


def _asked_baselines(run: Run, baselines: Sequence[Baseline]) -> tuple[Baseline, ...]:
    known = {(one.swap, one.length, one.metric): [] for one in baselines}
    for one in baselines:
        known[one.swap, one.length, one.metric].append(one)
    wanted = itertools.product(_ways(run), run.eval.lengths, run.eval.metrics)
    return tuple(one for key in wanted for one in known.get(key, ()))


def scores(
    run: Run,
    states: Sequence[State],
    seeds: Sequence[int],
    corpus: Tokens,
    session: Session | None = None,
    done: frozenset[Key] = frozenset(),
    keep: Callable[[Evaluation], object] = lambda evaluation: None,
) -> Evaluation:
    """What the models of the run's seeds score, by its metrics at its lengths, but for what is
    `done`. `states` are those of the programs which trained `seeds`, in their order; some of these
    may not be asked for. `keep` is as in evaluate().
    """
    session = session or Session()
    graphdef, _ = structure(run.lm, run.encodings)
    rows = [seeds.index(seed) for seed in run.run.seeds]

    def of_seeds(*leaves: np.ndarray) -> np.ndarray:
        return np.concatenate(leaves)[rows]

    models = Models(
        graphdef,
        jax.tree.map(of_seeds, *(state["params"] for state in states)),
        run.encodings,
        run.run.seeds,
        tuple(of_seeds(*(state["diverged"] for state in states)).tolist()),
        run.train.length,
        run.task,
    )
    # XLA's CPU runs the blocks of attention one after another: a second core would be idle.
    alone = jax.default_backend() == "cpu" and not session.mesh
    return evaluate(
        models,
        corpus.splits[run.eval.split],
        run.eval,
        corpus.tokenizer.sizes,
        session,
        threads=environment.threads() if alone else 1,
        done=done,
        keep=keep,
    )
