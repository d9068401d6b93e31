"""The training loop around the jitted steps of step.py: batches in, metrics and checkpoints out.
Called again, it goes on from the newest checkpoint. Seeds that diverge are reported; training ends
early where all have.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from pe_jax.data import batches as data
from pe_jax.encoding import Encoding
from pe_jax.model.config import LmConfig
from pe_jax.record import divergence
from pe_jax.storage.checkpoints import Checkpoints
from pe_jax.task import Task
from pe_jax.tasks.text import TEXT
from pe_jax.training import samples
from pe_jax.training.config import TrainConfig
from pe_jax.training.mesh import batch_sharding, place_batches, place_state, placed_shapes
from pe_jax.training.need import check_compiled
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
    checkpoints = Checkpoints(folder)
    fresh = functools.partial(init, lm, encodings, config, seeds, session.mesh)
    like = placed_shapes(session.mesh, jax.eval_shape(fresh))
    call = _Calls(lm, encodings, config, seeds, documents, bos, like, session.mesh, task)
    begins = max(checkpoints.steps, default=0)
    if begins < config.steps:  # before anything is allocated
        check_compiled(call.program(call.count(begins)), session.mesh)
    if restored := checkpoints.restore(like):
        step, state, note = restored
        LOG.info("seeds %s: going on from step %s of %s", seeds, step, config.steps)
        state, earlier = place_state(session.mesh, state), note["seconds"]
    else:
        step, state, earlier = 0, fresh(), 0.0
        if start:
            state = place_state(session.mesh, start(jax.device_get(state), seeds))
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

    while step < config.steps and len(diverged) < len(seeds):
        count = call.count(step)
        state, out, seconds = call(state, step)
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


# The jitted calls of a training, each of some steps, on a state of the shapes `like`.
class _Calls:
    def __init__(
        self,
        lm: LmConfig,
        encodings: Sequence[Encoding],
        config: TrainConfig,
        seeds: Sequence[int],
        documents: Sequence[np.ndarray],
        bos: int | None,
        like: State,
        mesh: Mesh | None,
        task: Task,
    ):
        self.steps = make_steps(structure(lm, encodings)[0], config, seeds, mesh, task)
        self.config, self.seeds, self.like, self.mesh = config, len(seeds), like, mesh
        self.programs: dict[int, Any] = {}  # by their numbers of steps
        self.reader = ThreadPoolExecutor(1)
        self.ahead: dict[int, Future] = {}  # what is read for the call after so many steps
        shape = config.length, config.batch
        self.replicas: Sequence[data.Batches] | Sequence[data.Segments] = ()
        if lm.memory and task.reads_text:
            self.replicas = [data.Segments(documents, *shape, s, lm.memory, bos) for s in seeds]
        elif task.reads_text:
            self.replicas = [data.Batches(documents, *shape, seed, bos) for seed in seeds]

    # The batches of `count` steps of each seed, as make_steps takes them.
    def read(self, step: int, count: int) -> Any:
        if not self.replicas:
            return samples.rows(count, self.seeds, self.config.batch)
        return data.stack(self.replicas, step, count)

    def program(self, count: int) -> Any:
        if count not in self.programs:
            place = batch_sharding(self.mesh) if self.mesh else None
            shapes = jax.tree.map(
                lambda a: jax.ShapeDtypeStruct((count, *a.shape[1:]), a.dtype, sharding=place),
                self.read(0, 1),
            )
            self.programs[count] = self.steps.lower(self.like, shapes).compile()
        return self.programs[count]

    # How many steps the call makes that begins after `step` of them.
    def count(self, step: int) -> int:
        return min(self.config.steps_per_call, self.config.steps - step)

    # The call after `step` steps: the state, the losses and norms, and the seconds of a step of one
    # seed without reading and compilation. Batches of the next call are read meanwhile.
    def __call__(self, state: State, step: int) -> tuple[State, dict[str, np.ndarray], float]:
        count = self.count(step)
        program = self.program(count)
        for first in (step, step + count):
            if first < self.config.steps and first not in self.ahead:
                self.ahead[first] = self.reader.submit(self.read, first, self.count(first))
        batches = place_batches(self.mesh, self.ahead.pop(step).result())
        called = time.monotonic()
        state, out = program(state, batches)
        out = jax.device_get(out)
        return state, out, (time.monotonic() - called) / (count * self.seeds)


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
