"""The training loop around the jitted steps of step.py: batches in, metrics and checkpoints out.
Called again, it goes on from the newest checkpoint. Seeds that diverge are reported; training ends
early where all have.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np

from pe_jax.data import batches as data
from pe_jax.encoding import Encoding
from pe_jax.model.config import LmConfig
from pe_jax.record import divergence
from pe_jax.storage.checkpoints import Checkpoints
from pe_jax.task import Task
from pe_jax.tasks.text import TEXT
from pe_jax.training import samples
from pe_jax.training.config import TrainConfig
from pe_jax.training.device_memory import check_compiled
from pe_jax.training.mesh import batch_sharding, place_batches, place_state, placed_shapes
from pe_jax.training.session import Session
from pe_jax.training.step import State, init, make_steps, structure

LOG = logging.getLogger("pe_jax")


def train(
    lm: LmConfig,
    encodings: Sequence[Encoding],
    config: TrainConfig,
    seeds: Sequence[int],
    documents: Sequence[np.ndarray],
    folder: Path,
    session: Session,
    start: Callable[[State, Sequence[int]], State] | None = None,
    task: Task = TEXT,
    bos: int | None = None,
) -> tuple[State, float]:
    """Trains `seeds` together in one program, from the newest checkpoint in `folder` on. Gives the
    final state and the seconds of training in all, those before a resumption included.

    `documents` are the tokens [n] of the training text, for a task that reads text; `bos` stands
    before every window of them, as for `data.Batches`. `start(state, seeds)` gives the state to
    begin with, made from one with random parameters.
    `folder` gets a checkpoint every `session.checkpoint_seconds` and one at the end; one from
    before a divergence is kept. Every call of the program begins at a multiple of steps_per_call,
    so a resumed training makes the same calls as an undisturbed one. Raises Interrupted when
    `session.stop` says so. Training ends after the call in which the last seed diverges.
    """
    checkpoints, mesh = Checkpoints(folder), session.mesh
    fresh = functools.partial(init, lm, encodings, config, seeds, mesh)
    like = placed_shapes(mesh, jax.eval_shape(fresh))
    steps = make_steps(structure(lm, encodings)[0], config, seeds, mesh, task)
    shape, replicas = (config.length, config.batch), []
    if lm.memory and task.reads_text:
        replicas = [data.Segments(documents, *shape, seed, lm.memory, bos) for seed in seeds]
    elif task.reads_text:
        replicas = [data.Batches(documents, *shape, seed, bos) for seed in seeds]

    def read(step: int, count: int) -> Any:
        if not task.reads_text:
            return samples.rows(count, len(seeds), config.batch)
        return data.stack(replicas, step, count)

    @functools.cache
    def program(count: int) -> Any:
        place = batch_sharding(mesh) if mesh else None
        shapes = jax.tree.map(
            lambda a: jax.ShapeDtypeStruct((count, *a.shape[1:]), a.dtype, sharding=place),
            read(0, 1),
        )
        return steps.lower(like, shapes).compile()

    first = max(checkpoints.steps, default=0)
    if first < config.steps:  # before anything is allocated
        check_compiled(program(_count(config, first)), mesh)
    if restored := checkpoints.restore(like):
        step, state, note = restored
        LOG.info("seeds %s: going on from step %s of %s", seeds, step, config.steps)
        state, earlier = place_state(mesh, state), note["seconds"]
    else:
        step, state, earlier = 0, fresh(), 0.0
        if start:
            state = place_state(mesh, start(jax.device_get(state), seeds))
    diverged = _diverged(seeds, jax.device_get(state["diverged"]), {})
    # What was measured after this step goes: it is measured again.
    if not session.history.rewind(seeds, step) and step > 0:
        LOG.warning("seeds %s: metrics.jsonl has lost lines of earlier steps", seeds)
    if step == config.steps or len(diverged) == len(seeds):
        return jax.device_get(state), earlier
    session.forget(seeds)
    begun = saved = time.monotonic()

    def save() -> State:
        note, arrays = {"seconds": earlier + time.monotonic() - begun}, jax.device_get(state)
        checkpoints.save(step, arrays, note, diverged.values())
        return arrays

    reader = ThreadPoolExecutor(1)
    ahead = reader.submit(read, step, _count(config, step))
    while step < config.steps and len(diverged) < len(seeds):
        count = _count(config, step)
        call, batches = program(count), place_batches(mesh, ahead.result())
        if step + count < config.steps:  # read while the device computes
            ahead = reader.submit(read, step + count, _count(config, step + count))
        called = time.monotonic()
        state, out = call(state, batches)
        out = jax.device_get(out)
        seconds = (time.monotonic() - called) / (count * len(seeds))  # of a step of one seed
        step += count
        diverged = _diverged(seeds, out["diverged"][-1], diverged)
        line = {
            "of": config.steps,
            "loss": _finite(out["loss"].mean(0)),
            "grad_norm": _finite(out["grad_norm"].mean(0)),
            "rate": float(np.asarray(_rates(config)(step - 1))),
            "ms_per_step": 1e3 * seconds,
            "tokens_per_second": config.batch * samples.mean_size(task, config) / seconds,
        }
        due = step == config.steps or step % session.valid_every < count
        if session.validate and due:
            scores = zip(seeds, session.validate(state["params"]), strict=True)
            line["valid"] = [None if seed in diverged else score for seed, score in scores]
        session.history.add(seeds=list(seeds), step=step, **line)
        if time.monotonic() - saved >= session.checkpoint_seconds and step < config.steps:
            save()
            saved = time.monotonic()
        session.stop(save)
    return save(), earlier + time.monotonic() - begun


# How many steps the call makes that begins after `step` of them.
def _count(config: TrainConfig, step: int) -> int:
    return min(config.steps_per_call, config.steps - step)


# The rate at a step in one program: operation by operation it would be a dozen.
@functools.lru_cache(maxsize=8)
def _rates(config: TrainConfig) -> Callable:
    return jax.jit(config.rates_by_step())


# Numbers as JSON can hold them: None for NaN and infinities.
def _finite(values: np.ndarray) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]


# {seed: step at which it diverged}, of the leaf "diverged" of a state; seeds that are not `known`
# are reported.
def _diverged(seeds: Sequence[int], leaf: np.ndarray, known: Mapping[int, int]) -> dict[int, int]:
    steps = {seed: step for seed, step in zip(seeds, leaf.tolist(), strict=True) if step >= 0}
    if new := {seed: step for seed, step in steps.items() if seed not in known}:
        then = "training stops" if len(steps) == len(seeds) else "the other seeds go on"
        LOG.warning("%s: %s", divergence(new), then)
    return steps
