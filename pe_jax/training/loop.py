"""The training loop around the jitted steps of step.py: batches in, metrics and checkpoints out.
Called again, it goes on from the newest checkpoint. Seeds that diverge are reported; training ends
early where all have.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Sequence
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

Starting = Callable[[State, Sequence[int]], State]
"""start(state, seeds): the state to begin with, made from one with random parameters."""


def train(
    lm: LmConfig,
    encodings: Sequence[Encoding],
    config: TrainConfig,
    seeds: Sequence[int],
    documents: Sequence[np.ndarray],
    folder: Path,
    session: Session,
    start: Starting | None = None,
    task: Task = TEXT,
    bos: int | None = None,
) -> tuple[State, float]:
    """Trains `seeds` together in one program, from the newest checkpoint in `folder` on. Gives the
    final state and the seconds of training in all, those before a resumption included.

    `documents` are the tokens [n] of the training text, for a task that reads text; `bos` stands
    before every window of them, as for `data.Batches`.
    `folder` gets a checkpoint every `session.checkpoint_seconds` and one at the end; one from
    before a divergence is kept. Every call of the program begins at a multiple of steps_per_call,
    so a resumed training makes the same calls as an undisturbed one. Raises Interrupted when
    `session.stop` says so. Training ends after the call in which the last seed diverges.
    """
    checkpoints, divergence = Checkpoints(folder), Divergence(seeds)
    fresh = functools.partial(init, lm, encodings, config, seeds, session.mesh)
    like = placed_shapes(session.mesh, jax.eval_shape(fresh))
    read = _reading(lm, config, documents, seeds, task, bos)
    call = _Calls(lm, encodings, config, seeds, read, like, session.mesh, task)

    if restored := checkpoints.restore(like):
        step, state, note = restored
        LOG.info("seeds %s: going on from step %s of %s", seeds, step, config.steps)
        state, earlier = place_state(session.mesh, state), note["seconds"]
    else:
        call.compiled(call.count(0))  # before anything is allocated
        step, state, earlier = 0, fresh(), 0.0
        if start:
            state = place_state(session.mesh, start(jax.device_get(state), seeds))
    divergence.note(jax.device_get(state["diverged"]))
    # What was measured after this step goes: it is measured again.
    if not session.history.rewind(seeds, step) and step > 0:
        LOG.warning("seeds %s: metrics.jsonl has lost lines of earlier steps", seeds)
    first = step
    if first < config.steps and not divergence.of_all:
        session.forget(seeds)
    begun = saved = time.monotonic()

    def save() -> State:
        note, arrays = {"seconds": earlier + time.monotonic() - begun}, jax.device_get(state)
        checkpoints.save(step, arrays, note, divergence.steps.values())
        return arrays

    while step < config.steps and not divergence.of_all:
        count = call.count(step)
        state, out, seconds = call(state, step)
        step += count
        divergence.note(out["diverged"][-1])
        line = _measured(config, task, step, out, seconds)
        due = step == config.steps or step % session.valid_every < count
        if session.validate and due:
            scores = zip(session.validate(state["params"]), out["diverged"][-1], strict=True)
            line["valid"] = [None if step >= 0 else score for score, step in scores]
        session.history.add(seeds=list(seeds), step=step, **line)
        if time.monotonic() - saved >= session.checkpoint_seconds and step < config.steps:
            save()
            saved = time.monotonic()
        session.stop(save)
    if first == step:  # nothing was left to train
        return jax.device_get(state), earlier
    return save(), earlier + time.monotonic() - begun


class _Calls:
    """The jitted calls of a training, each of some steps, on a state of the shapes `like`."""

    def __init__(
        self,
        lm: LmConfig,
        encodings: Sequence[Encoding],
        config: TrainConfig,
        seeds: Sequence[int],
        read: Callable[[int, int], Any],
        like: State,
        mesh: Mesh | None,
        task: Task,
    ):
        self.read = read
        graphdef, _ = structure(lm, encodings)
        self.steps = make_steps(graphdef, config, seeds, mesh, task)
        self.seeds, self.like, self.mesh = len(seeds), like, mesh
        self.config = config
        self.programs: dict[int, Any] = {}
        self.reader = ThreadPoolExecutor(1)
        self.ahead: dict[int, Future] = {}  # what is read for the call after so many steps

    def compiled(self, count: int, state: State | None = None) -> Any:
        """The program of `count` steps. Refused where it needs more memory than is free beside the
        `state`; None: there is none yet.
        """
        if count not in self.programs:
            place = batch_sharding(self.mesh) if self.mesh else None
            shapes = jax.tree.map(
                lambda a: jax.ShapeDtypeStruct((count, *a.shape[1:]), a.dtype, sharding=place),
                self.read(0, 1),
            )
            program = self.steps.lower(self.like, shapes).compile()
            check_compiled(program, state, self.mesh)
            self.programs[count] = program
        return self.programs[count]

    def count(self, step: int) -> int:
        """How many steps the call makes that begins after `step` of them."""
        return min(self.config.steps_per_call, self.config.steps - step)

    def batches(self, step: int) -> Any:
        """What is read for the call after `step` steps; that of the call after it is read while
        the device computes.
        """
        for first in (step, step + self.count(step)):
            if first < self.config.steps and first not in self.ahead:
                self.ahead[first] = self.reader.submit(self.read, first, self.count(first))
        return self.ahead.pop(step).result()

    def __call__(self, state: State, step: int) -> tuple[State, dict[str, np.ndarray], float]:
        """Makes the steps of the call after `step` of them. Gives the state, the losses and norms,
        and the seconds of a step of one seed without reading and compilation.
        """
        count = self.count(step)
        program = self.compiled(count, state)
        batches = place_batches(self.mesh, self.batches(step))
        called = time.monotonic()
        state, out = program(state, batches)
        out = jax.device_get(out)
        return state, out, (time.monotonic() - called) / (count * self.seeds)


def _reading(
    lm: LmConfig,
    config: TrainConfig,
    documents: Sequence[np.ndarray],
    seeds: Sequence[int],
    task: Task,
    bos: int | None,
) -> Callable[[int, int], Any]:
    """read(step, count): the batches of `count` steps of each seed, as make_steps takes them: of
    windows, with a memory of segments of documents, or the rows of samples that are drawn.
    """
    if not task.reads_text:
        return lambda step, count: samples.rows(count, len(seeds), config.batch)
    shape = config.length, config.batch
    if lm.memory:
        replicas = [data.Segments(documents, *shape, seed, lm.memory, bos) for seed in seeds]
    else:
        replicas = [data.Batches(documents, *shape, seed, bos) for seed in seeds]
    return lambda step, count: data.stack(replicas, step, count)


@functools.lru_cache(maxsize=8)
def _rates(config: TrainConfig) -> Callable:
    """The rate at a step in one program: operation by operation it would be a dozen."""
    return jax.jit(config.rates_by_step())


def _measured(
    config: TrainConfig, task: Task, step: int, out: dict, seconds: float
) -> dict[str, Any]:
    """What a line of metrics.jsonl holds of a call: means over its steps; `seconds` are those of
    one step of one seed.
    """
    return {
        "of": config.steps,
        "loss": _finite(out["loss"].mean(0)),
        "grad_norm": _finite(out["grad_norm"].mean(0)),
        "rate": float(np.asarray(_rates(config)(step - 1))),
        "ms_per_step": 1e3 * seconds,
        "tokens_per_second": config.batch * samples.mean_size(task, config) / seconds,
    }


def _finite(values: np.ndarray) -> list[float | None]:
    """The numbers as JSON can hold them: None for NaN and infinities."""
    return [float(value) if np.isfinite(value) else None for value in values]


class Divergence:
    """The seeds of one program that have diverged so far; each is reported once."""

    def __init__(self, seeds: Sequence[int]):
        self.seeds = seeds
        self.steps: dict[int, int] = {}
        """The step at which each of them diverged, as in step.py."""

    def note(self, diverged: np.ndarray) -> None:
        """Takes the leaf "diverged" of a training state."""
        known = self.steps
        found = zip(self.seeds, diverged.tolist(), strict=True)
        self.steps = {seed: step for seed, step in found if step >= 0}
        if new := {seed: step for seed, step in self.steps.items() if seed not in known}:
            then = "training stops" if self.of_all else "the other seeds go on"
            LOG.warning("%s: %s", divergence(new), then)

    @property
    def of_all(self) -> bool:
        """Whether all seeds have diverged."""
        return len(self.steps) == len(self.seeds)
