"""A run carried out: trained for all its seeds, evaluated, recorded. The same call goes on after a
kill.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from pe_jax import (
    atomic,
    environment,
    errors,
    hashes,
    history,
    locks,
    mesh,
    record,
    state,
    tokenizer,
    train,
)
from pe_jax.checkpoint import digests
from pe_jax.evaluate import Evaluation, evaluate
from pe_jax.fit import Interrupted, fit, stopping
from pe_jax.record import Stage
from pe_jax.run import Run
from pe_jax.trackers import Trackers, require


def execute(
    run: Run,
    workdir: Path,
    command: str = "",
    say: Callable[[str], None] = lambda message: None,
    watch: Callable[[dict[str, Any]], None] = lambda line: None,
    begin: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """The run's result; what `<workdir>/<run id>/` has of it already is not done again.

    `command` is what the record gives as reproducing it; `say` gets messages for people, `watch`
    every line of metrics.jsonl; `begin` is called when nothing stands in the way of a run. Raises
    Refused for what the user can mend, and Interrupted after a signal, with the state saved.
    """
    folder = workdir / run.id
    if done := atomic.read(folder / "result.json"):
        return done
    require(run.log.trackers)
    corpus = run.load()
    try:
        devices = mesh.make(run.run.mesh)
    except ValueError as error:
        raise errors.Refused(str(error)) from error
    with locks.locked(folder), stopping(say) as stop, contextlib.ExitStack() as closing:
        if done := atomic.read(folder / "result.json"):  # by a process that was faster
            return done
        about = _begin(run, folder, corpus, command, say)
        closing.enter_context(_told(folder))
        trackers = closing.enter_context(Trackers(run.log.trackers, folder, about, say))

        def follow(line: dict[str, Any]) -> None:
            trackers.watch(line)
            watch(line)

        metrics = history.Metrics(folder / "metrics.jsonl", follow)
        begin()
        states, seconds = _trained(run, folder / "checkpoints", corpus, metrics, stop, say, devices)
        begun = time.monotonic()
        found = _evaluated(run, states, corpus, metrics, stop, devices)
        evaluating = time.monotonic() - begun
        result = about | {
            **vars(found),
            "parameters": run.parameters(),
            "train": _training(run, history.read_lines(metrics.path)),
            "seconds": {"train": seconds, "evaluate": evaluating, "total": seconds + evaluating},
            "peak_memory_mib": environment.peak_memory_mib(),
            "digests": {
                "-".join(map(str, seeds)): hashes.sha256(record.canonical(digests(state)))
                for seeds, state in zip(run.groups, states, strict=True)
            },
        }
        trackers.finish(result)
        atomic.write(folder / "result.json", record.canonical(result))
        return result


@contextlib.contextmanager
def _told(folder: Path):
    """Writes down in state.json how the run of this folder begins and ends."""
    state.put(folder, Stage.RUNNING)
    try:
        yield
    except Interrupted as error:
        state.put(folder, Stage.STOPPED, f"by {error}")
        raise
    except errors.Refused as error:
        state.put(folder, Stage.FAILED, str(error))
        raise
    except Exception as error:
        state.put(folder, Stage.FAILED, f"{type(error).__name__}: {error}")
        raise
    state.put(folder, Stage.DONE)


def _trained(
    run: Run, folder: Path, corpus: tokenizer.Tokens, metrics: history.Metrics, stop, say, devices
) -> tuple[list[train.State], float]:
    """(the final state of each program's seeds, the seconds of all)."""
    found = [
        fit(
            run.lm,
            run.encodings,
            run.train,
            seeds,
            corpus.splits["train"],
            folder,
            metrics,
            stop,
            say,
            checkpoint_seconds=run.log.checkpoint_seconds,
            mesh=devices,
            start=run.start,
        )
        for seeds in run.groups
    ]
    return [state for state, _ in found], sum(note["seconds"] for _, note in found)


def _evaluated(
    run: Run, states, corpus: tokenizer.Tokens, metrics: history.Metrics, stop, devices
) -> Evaluation:
    def report(done: int, of: int) -> None:
        metrics.add(evaluated=done, of=of)
        stop(lambda: None)

    graphdef, _ = train.structure(run.lm, run.encodings)
    params = jax.tree.map(lambda *a: np.concatenate(a), *(state["params"] for state in states))
    diverged = np.concatenate([state["diverged"] for state in states]).tolist()
    documents = corpus.splits[run.eval.split]
    # XLA's CPU runs the blocks of attention one after another: a second core would be idle.
    threads = environment.threads() if jax.default_backend() == "cpu" and not devices else 1
    return evaluate(
        graphdef,
        params,
        run.encodings,
        documents,
        run.eval,
        run.run.seeds,
        diverged,
        report,
        threads=threads,
        mesh=devices,
        sizes=corpus.tokenizer.sizes,
        segment=run.train.length,
    )


def _begin(run: Run, folder: Path, corpus: tokenizer.Tokens, command: str, say) -> dict[str, Any]:
    """Writes config.json (and tokenizer.json), or holds it against what the run was begun with."""
    about = {
        "id": run.id,
        "label": run.label,
        "command": command,
        "config": run.config,
        "seeds": list(run.run.seeds),
        "corpus": corpus.about,
        "tokenizer": corpus.tokenizer.describe(),
        "parent": run.start.about() if run.start else None,
        "advice": list(run.advice),
        "started": record.now(),
        **environment.environment(),
    }
    earlier = atomic.read(folder / "config.json")
    if earlier is None:
        if corpus.tokenizer.json is not None:
            atomic.write(folder / "tokenizer.json", corpus.tokenizer.json)
        if run.start:
            say(run.start.summary())
        for doubt in run.advice:
            say(f"note: {doubt}")
        atomic.write(folder / "config.json", record.canonical(about))
        return about
    if earlier["corpus"]["hash"] != about["corpus"]["hash"]:
        raise errors.Refused(
            f"{folder} was begun on other text ({run.data.source} has changed since): "
            "delete the folder, or give another --workdir"
        )
    if earlier.get("tokenizer", about["tokenizer"]) != about["tokenizer"]:
        raise errors.Refused(
            f"{folder} was begun with other tokens ({run.data.tokenizer} by another version of its "
            "library): delete the folder, or give another --workdir"
        )
    for part in ("versions", "device", "commit"):
        if earlier[part] != about[part]:
            say(
                f"{run.label}: {part} changed since the run was begun; "
                "its results are not bit-reproducible"
            )
    return about | {"started": earlier["started"]}


def _training(run: Run, lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Final losses and speed, from metrics.jsonl; None where it has lost its lines."""
    lines = [line for line in lines if "loss" in line]
    ends = {tuple(line["seeds"]): line["loss"] for line in lines if line["step"] == run.train.steps}
    ms = statistics.median(line["ms_per_step"] for line in lines) if lines else None
    return {
        "length": run.train.length,
        "steps": run.train.steps,
        "loss": [x for seeds in run.groups for x in ends.get(seeds, [None] * len(seeds))],
        "ms_per_step": ms,
        "tokens_per_second": ms and run.train.batch * run.train.length / ms * 1e3,
    }
