"""How long runs will take, by the arithmetic of the model and a matrix product timed on this
machine.
"""

from __future__ import annotations

import time

from pe_jax.run import Run

EFFICIENCY = 0.4  # of the matrix product's speed, that small models reach
LOGIT = 60  # operations that one attention logit costs besides its products: masks, exponentials
COMPILE = 0.7  # seconds a program


def estimates(runs: list[Run]) -> list[float]:
    """Seconds of each run, one at a time on this machine."""
    speed = EFFICIENCY * _matmul_speed()
    return [_operations(run) / speed + _programs(run) * COMPILE for run in runs]


def _operations(run: Run) -> float:
    seeds = len(run.run.seeds)
    tokens = run.train.steps * run.train.batch * run.train.length
    trained = 3 * tokens * _forward(run, run.train.length)
    scored = 0.0
    for length in run.eval.lengths:
        windows = {
            "same_targets": run.eval.targets / run.eval.last,
            "last_k": run.eval.targets / run.eval.last,
            "sliding": run.eval.targets / run.eval.stride,
            "nonoverlapping": run.eval.targets / length,
        }
        count = sum(windows[metric] for metric in run.eval.metrics)
        scored += (1 + len(run.eval.swaps)) * count * length * _forward(run, length)
    return seeds * (trained + scored)


def _forward(run: Run, length: int) -> float:
    """Operations a token."""
    weights = run.parameters()["total"]
    dims = run.encodings[0].dims
    keys = length / 2
    return 2 * weights + dims.layers * keys * (4 * dims.model + LOGIT * dims.heads)


def _programs(run: Run) -> int:
    return len(run.groups) * 2 + len(run.eval.lengths) * len(run.eval.metrics) * (
        1 + len(run.eval.swaps)
    )


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
