"""How long runs will take, by the arithmetic of the model and a matrix product timed on this
machine: what `sweep --dry_run` prints.
"""

from __future__ import annotations

import sys
import time

from pe_jax.run import Run

EFFICIENCY = 0.4  # of the matrix product's speed, that small models reach
LOGIT = 60  # operations that one attention logit costs besides its products: masks, exponentials
COMPILE = 0.7  # seconds a program


def show(runs: list[Run], left: list[Run]) -> None:
    """Prints the runs, their parameters and time; `left` are those to do."""
    from rich.console import Console
    from rich.table import Table

    from experiments import console

    table = Table("run", "id", "seeds", "steps", "parameters", "about", "")
    sizes = [run.parameters().total for run in runs]
    seconds = dict(zip((run.id for run in runs), estimates(runs, sizes), strict=True))
    waiting = {run.id for run in left}
    for run, size in zip(runs, sizes, strict=True):
        row = (run.label, run.id, len(run.run.seeds), run.train.steps, f"{size:,}")
        done = "" if run.id in waiting else "finished"
        table.add_row(*map(str, row), console.duration(seconds[run.id]), done)
    Console(width=None if sys.stdout.isatty() else 140).print(table)
    for run in runs:
        for doubt in run.advice:
            print(f"note: {run.label}: {doubt}")
    total = console.duration(sum(seconds[run.id] for run in left))
    print(
        f"{len(runs)} runs, {len(left)} to do: about {total} with one job on this machine, by the "
        "arithmetic of the model and a timed matrix product"
    )


def estimates(runs: list[Run], sizes: list[int]) -> list[float]:
    """Seconds of each run, of `sizes` parameters, one at a time on this machine."""
    speed = EFFICIENCY * _matmul_speed()
    return [
        _operations(run, size) / speed + _programs(run) * COMPILE
        for run, size in zip(runs, sizes, strict=True)
    ]


def _operations(run: Run, size: int) -> float:
    seeds = len(run.run.seeds)
    tokens = run.train.steps * run.train.batch * run.train.length
    trained = 3 * tokens * _forward(run, size, run.train.length)
    scored = 0.0
    for length in run.eval.lengths:
        windows = {
            "same_targets": run.eval.targets / run.eval.last,
            "last_k": run.eval.targets / run.eval.last,
            "sliding": run.eval.targets / run.eval.stride,
            "nonoverlapping": run.eval.targets / length,
        }
        count = sum(windows[metric] for metric in run.eval.metrics)
        scored += _ways(run) * count * length * _forward(run, size, length)
    return seeds * (trained + scored)


def _forward(run: Run, size: int, length: int) -> float:
    """Operations a token."""
    dims = run.encodings[0].dims
    keys = length / 2
    return 2 * size + dims.layers * keys * (4 * dims.model + LOGIT * dims.heads)


def _programs(run: Run) -> int:
    return len(run.groups) * 2 + len(run.eval.lengths) * len(run.eval.metrics) * _ways(run)


def _ways(run: Run) -> int:
    """In how many ways each window is evaluated."""
    return 1 + len(run.eval.swaps) + len(run.eval.memory)


def _matmul_speed() -> float:
    """Operations a second of a float32 product of two 1024 x 1024 matrices."""
    import jax
    import jax.numpy as jnp

    a = jnp.ones((1024, 1024))
    product = jax.jit(lambda a: a @ a)
    product(a).block_until_ready()
    begun = time.perf_counter()
    for _ in range(5):
        product(a).block_until_ready()
    return 5 * 2 * 1024**3 / (time.perf_counter() - begun)
