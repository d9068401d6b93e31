"""The training loop of the seeds of one program: batches in, metrics and checkpoints out, from
where it was cut off.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from pe_jax import batches as data
from pe_jax.checkpoint import Checkpoints
from pe_jax.encoding import Encoding
from pe_jax.history import Metrics
from pe_jax.lm_config import LmConfig
from pe_jax.mesh import place_batches, place_state
from pe_jax.train import State, TrainConfig, init, make_steps, structure

Stop = Callable[[Callable[[], None]], None]


class Interrupted(RuntimeError):
    """The run was asked to stop, and has saved its state."""


def fit(
    lm: LmConfig,
    encodings: Sequence[Encoding],
    config: TrainConfig,
    seeds: Sequence[int],
    documents: Sequence[np.ndarray],
    folder: Path,
    metrics: Metrics,
    stop: Stop,
    say: Callable[[str], None],
    checkpoint_seconds: float = 60.0,
    mesh: Mesh | None = None,
    start: Callable[[State, Sequence[int]], State] | None = None,
) -> tuple[State, dict[str, float]]:
    """(the final state, {"seconds"}) of the seeds of one program, from the newest checkpoint on.

    `folder` keeps the checkpoints, one every `checkpoint_seconds` and one at the end. A call of
    the program begins at a multiple of steps_per_call, so a resumed training runs the same
    programs as an undisturbed one. `start` makes the state before the first step from that of
    random parameters, by seeds.
    """
    checkpoints = Checkpoints(folder / "-".join(map(str, seeds)))
    state = init(lm, encodings, config, seeds)
    step, note = 0, {"seconds": 0.0}
    if restored := checkpoints.restore(state, say):
        step, state, note = restored
        say(f"seeds {seeds}: going on from step {step} of {config.steps}")
    elif start:
        state = start(state, seeds)
    state = place_state(mesh, state)
    metrics.rewind(seeds, step)
    sets = _texts(lm, config, documents, seeds)
    graphdef, _ = structure(lm, encodings)
    steps, programs = make_steps(graphdef, config, seeds, mesh), {}
    begun = saved = time.monotonic()
    before = note["seconds"]

    def save() -> None:
        checkpoints.save(step, state, {"seconds": before + time.monotonic() - begun})

    while step < config.steps:
        count = min(config.steps_per_call, config.steps - step)
        batches = place_batches(mesh, data.stack(sets, step, count))
        if count not in programs:
            programs[count] = steps.lower(state, batches).compile()
        called = time.monotonic()
        state, out = programs[count](state, batches)
        out = jax.device_get(out)
        spent = (time.monotonic() - called) / (count * len(seeds))
        step += count
        metrics.add(seeds=list(seeds), step=step, **_measured(config, step, out, spent))
        if time.monotonic() - saved >= checkpoint_seconds and step < config.steps:
            save()
            saved = time.monotonic()
        stop(save)
    if not restored or restored[0] < config.steps:
        save()
        note = {"seconds": before + time.monotonic() - begun}
    return jax.device_get(state), note


def _texts(lm: LmConfig, config: TrainConfig, documents: Sequence[np.ndarray], seeds):
    """What each seed trains on: windows, or with a memory segments of documents."""
    shape = config.length, config.batch
    if lm.memory:
        return [data.segments(documents, *shape, seed, lm.memory) for seed in seeds]
    return [data.batches(documents, *shape, seed) for seed in seeds]


def _measured(config: TrainConfig, step: int, out: dict, spent: float) -> dict[str, Any]:
    """A line of metrics.jsonl: means over the steps of a call, `spent` seconds each."""
    return {
        "of": config.steps,
        "loss": _finite(out["loss"].mean(0)),
        "grad_norm": _finite(out["grad_norm"].mean(0)),
        "rate": float(np.asarray(config.schedule()(step - 1))),
        "ms_per_step": 1e3 * spent,
        "tokens_per_second": config.batch * config.length / spent,
    }


def _finite(values: np.ndarray) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]


@contextlib.contextmanager
def stopping(say: Callable[[str], None] = lambda message: None) -> Iterator[Stop]:
    """Gives `stop(save)`: after the first SIGINT or SIGTERM, told by `say`, it saves and raises; a
    second one acts at once.
    """
    asked: list[int] = []

    def note(number, frame):
        if asked:
            raise KeyboardInterrupt
        asked.append(number)
        say(f"{signal.Signals(number).name}: saving as soon as the device is back; again: at once")

    def stop(save: Callable[[], None]) -> None:
        if asked:
            save()
            raise Interrupted(signal.Signals(asked[0]).name)

    try:
        earlier = {s: signal.signal(s, note) for s in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread: signals are somebody else's
        yield stop
        return
    try:
        yield stop
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
