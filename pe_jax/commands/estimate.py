"""What `pe-jax extend --dry_run` prints: the passes of a run of no steps, and how long they will
take by one that is timed.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection
from typing import Any

import jax
import numpy as np

from pe_jax.encoding import Encoding, overrides
from pe_jax.evaluation.passes import Key, key_of, left, plan
from pe_jax.evaluation.scorers import compared, shared
from pe_jax.evaluation.scoring import target_nats
from pe_jax.report.words import count, rounded
from pe_jax.runs.folder import Folder
from pe_jax.runs.progress import duration
from pe_jax.runs.run import Run
from pe_jax.runs.scores import Scores
from pe_jax.training.step import structure


def show(run: Run, folder: Folder) -> None:
    """Times a window of the shortest length and the compilation of the dearest program, and prints
    for each length how many windows are computed and how long they will take, by the
    multiplications of each; and how long their programs will compile. Scores that the folder has
    are not computed again.
    """
    run.load()  # what is wrong with the text is said now
    known = {key_of(one.row) for one in Scores(folder, run, print).known}
    shortest = run.eval.lengths[0]
    windows, references, programs = passes(run, known)
    if not programs:
        print("nothing is left to score: the same command without --dry_run writes the tables")
        return
    # Of far pairs with another dot product the program compiles longest.
    dearest, *_ = max(programs, key=lambda made: sum(overrides(e, "far") for e in made[0]))
    seconds, _ = _timed(run, shortest, tuple(e.at(shortest) for e in run.encodings))
    _, compiling = _timed(run, shortest, dearest)
    each = {n: seconds * work(run, n) / work(run, shortest) for n in {*windows, *references}}
    print(f"a window of {shortest} tokens takes {rounded(seconds)} s here")
    total = len(programs) * compiling
    for length in sorted(each):
        asked, more = windows[length], references[length]
        total += each[length] * (asked + more)
        compared = f" and {more} to compare with" if more else ""
        text = f"{count(asked, 'window')}{compared}"
        print(f"{length} tokens: {text}, about {rounded(each[length])} s each")
    print(f"{count(len(programs), 'program')} to compile, about {rounded(compiling)} s each")
    print(
        f"in all about {duration(total)}, more with swaps that score keys twice (self_extend, "
        "rerope, lm_infinite); the same command without --dry_run scores them, and goes on where "
        "it is cut off"
    )


def passes(run: Run, known: Collection[Key]) -> tuple[Counter[int], Counter[int], set[Any]]:
    """(how many windows are scored at each length; how many are computed to compare with; by which
    programs, with their encodings first), of a run that is scored place by place and whose `known`
    scores are there.
    """
    config = run.eval
    parts = plan(run.encodings, config, run.train.length, run.task)
    windows, references = Counter[int](), Counter[int]()
    seen, programs = set(), set()
    _, _, todo = left(parts, config, run.run.seeds, known)
    for job in todo:
        for metrics, replica in shared(job):
            programs.add((job.part.encodings, job.part.length, metrics))
            windows[job.part.length] += 1
            for kind in compared(metrics):
                if (kind, replica) not in seen:
                    seen.add((kind, replica))
                    references[config.reference or 0] += 2 if kind == "keys" else 1
                    programs.add((run.encodings, config.reference or 0, kind))
    return windows, references, programs


def work(run: Run, length: int) -> float:
    """The multiplications of a window, up to a factor: its matrices and its attention."""
    lm = run.lm
    head = lm.head or lm.model // lm.heads
    return length * (run.parameters().total + lm.layers * lm.heads * head * length)


def _timed(run: Run, length: int, encodings: tuple[Encoding, ...]) -> tuple[float, float]:
    """(seconds of a window, seconds of its compilation)."""
    assert run.start
    seed = run.run.seeds[0]
    params = run.start.models(run.lm, run.encodings, (seed,), run.eval.weights)[seed]
    graphdef, _ = structure(run.lm, run.encodings)
    last = min(length, (run.eval.last or 0) + 1)
    tokens = np.zeros((1, length + 1), np.int32)

    def once() -> float:
        began = time.monotonic()
        program = {"graphdef": graphdef, "encodings": encodings, "last": last}
        jax.block_until_ready(target_nats(params, tokens, np.int32(0), **program))
        return time.monotonic() - began

    first, second = once(), once()
    return second, max(0.0, first - second)
