"""The jitted training step: a pure function over split NNX state, several steps a call, all seeds
of a program at once. loop.py calls it.

A replica is one seed: its own initial weights, its own order of the data, its own random positions.
Encodings are paired: for one seed the shared weights and the batches are the same whatever the
encoding. Everything random is a function of (seed, step), so a run resumed from a checkpoint is
bit-equal to one that was not cut off. Axes: R replicas, C steps a call, B batch, T training length.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import Mesh
from jaxtyping import Array, Integer

from pe_jax.encoding import Encoding
from pe_jax.model.config import LmConfig
from pe_jax.model.lm import LM, of_logits
from pe_jax.model.memory import Memory
from pe_jax.task import Task
from pe_jax.tasks.text import TEXT
from pe_jax.training import samples
from pe_jax.training.config import TrainConfig
from pe_jax.training.mesh import constrained, shardings

State = dict[str, Any]
"""The state of training: "params", "optimizer", "diverged" and "memory", every leaf with a leading
axis of replicas, and "step", how many steps are done.
"""


def build(config: LmConfig, encodings: Sequence[Encoding], seed: Integer[Array, ""] | int) -> LM:
    """The model of one seed. Weights that are not an encoding's depend on the seed alone."""
    key = jax.random.fold_in(jax.random.key(seed), 0)
    weights, positions = jax.random.split(key)
    return LM(config, encodings, rngs=nnx.Rngs(params=weights, encodings=positions))


def structure(config: LmConfig, encodings: Sequence[Encoding]) -> tuple[nnx.GraphDef, Any]:
    """(graphdef, parameters as a tree of shapes), without computing anything."""
    graphdef, params = nnx.split(nnx.eval_shape(lambda: build(config, encodings, 0)), nnx.Param)
    return graphdef, nnx.to_pure_dict(params)


@functools.cache  # the encodings of a sweep share one model
def model_size(config: LmConfig, mixers: tuple[Encoding, ...]) -> int:
    """How many numbers one seed learns outside its encodings; `mixers` replace attention."""
    every = structure(config, mixers)[1].items()
    of_model = [params for name, params in every if name not in ("shared", "owned")]
    return sum(leaf.size for leaf in jax.tree.leaves(of_model))


def init(
    config: LmConfig,
    encodings: Sequence[Encoding],
    train: TrainConfig,
    seeds: Sequence[int],
    mesh: Mesh | None = None,
) -> State:
    """The state before the first step, on the mesh if there is one: no device makes more than its
    own part.
    """

    def replica(seed):
        params = nnx.to_pure_dict(nnx.split(build(config, encodings, seed), nnx.Param)[1])
        # Rows of a batch fill their memories apart, since their texts begin at different steps.
        memory = Memory.empty(config, train.batch, config.memory)
        memory = memory.forgotten(jnp.ones(train.batch, bool))
        return {
            "params": params,
            "optimizer": train.optimizer().init(params),
            "diverged": jnp.int32(-1),  # the step at which the seed diverges
            "memory": memory.state() if config.memory else {},
        }

    def replicas(seeds):
        return _each(replica, seeds, mesh) | {"step": jnp.int32(0)}

    numbers = np.asarray(seeds, np.uint32)
    split = mesh and shardings(mesh, jax.eval_shape(replicas, numbers))
    return jax.jit(replicas, out_shardings=split)(numbers)


def make_steps(
    graphdef: nnx.GraphDef,
    config: TrainConfig,
    seeds: Sequence[int],
    mesh: Mesh | None = None,
    task: Task = TEXT,
) -> Callable:
    """A jitted `steps(state, batches) -> state, {"loss", "grad_norm", "diverged"}` that makes C
    steps.

    `batches` are windows of text, tokens [C, R, B, T + 1], or for a task that draws its samples the
    numbers of the rows, [C, R, B]. With a memory they are a pair of windows and of bool [C, R, B],
    which says which rows begin a document. Losses, in nats a predicted token, norms and the steps
    of divergence so far are [C, R]. The buffers of `state` are donated. With a mesh, state and
    batches must lie on it (mesh.py).

    A seed diverges at the first step, counted from 0, whose loss or gradient norm is not finite.
    Its updates go on, since the other seeds are in the same program, and its parameters mean
    nothing from then on.
    """
    parts = samples.parts(task, config)

    def step_all(state, batches):
        step = state["step"]
        replicas = {name: leaf for name, leaf in state.items() if name != "step"}
        draws = [samples.drawing(task, config, part) for part in parts]
        of_parts = [_step_of_replica(graphdef, config, draw, step, task) for draw in draws]
        replicas, measured = jax.lax.switch(
            samples.part_of(parts, step),
            [functools.partial(_each, step_replica, mesh=mesh) for step_replica in of_parts],
            (replicas, batches, jnp.asarray(seeds, jnp.uint32)),
        )
        return constrained(mesh, replicas | {"step": step + 1}), measured

    @functools.partial(jax.jit, donate_argnums=0)
    def steps(state, batches):
        state, measured = jax.lax.scan(step_all, state, batches)
        return constrained(mesh, state), measured

    return steps


# step_replica((state, batch, seed)) -> state, measured: one step, with samples of the task by
# `draw`.
def _step_of_replica(
    graphdef: nnx.GraphDef, config: TrainConfig, draw: samples.Draw, step: Array, task: Task
) -> Callable:
    # (mean nats a predicted token, the memory after the segment); `before` is the memory, or {}
    def loss(params, before, batch, key):
        model = nnx.merge(graphdef, params, copy=True)
        numbers, memory = batch, None
        if before:
            numbers, fresh = batch
            memory = Memory.of_state(before).forgotten(fresh)
        positions, dropout = jax.random.split(key)
        key = jax.random.fold_in(key, 2)
        hidden, until = model.config.hidden
        if model.config.special:  # [CLS] and [SEP] take the place of two tokens of the text
            numbers = numbers[:, 1:-1]
        (inputs, targets, scored), size = draw(numbers, key, hidden + 1)
        inputs = model.config.framed(inputs)
        tokens = inputs.shape[1] + model.config.memory
        rows, memory = model(
            inputs,
            memory,
            encodings=tuple(e.at(tokens) for e in model.encodings),
            key=positions,
            dropout_key=dropout,
            train=True,
            size=size,
            remat=config.remat,
            scan=config.scan,
            rows=True,
        )
        if model.config.special:
            rows = rows[:, 1:-1]
        cross_entropy = optax.softmax_cross_entropy_with_integer_labels
        with jax.named_scope("loss"):
            until = until if task.masks() else None
            nats = of_logits(cross_entropy, model, rows, targets, until)
        mean = nats.mean(where=scored) if scored.dtype == bool else (scored * nats).mean()
        return mean, memory.state() if memory else {}

    optimizer, gradient = config.optimizer(), jax.value_and_grad(loss, has_aux=True)

    def step_replica(replica):
        old, batch, seed = replica
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), 1), step)
        (nats, memory), grads = gradient(old["params"], old["memory"], batch, key)
        with jax.named_scope("optimizer"):
            norm = optax.tree.norm(grads)
            updates, optimizer_state = optimizer.update(grads, old["optimizer"], old["params"])
            params = optax.apply_updates(old["params"], updates)
        finite = jnp.isfinite(nats) & jnp.isfinite(norm)
        new = {
            "params": params,
            "optimizer": optimizer_state,
            "diverged": jnp.where((old["diverged"] < 0) & ~finite, step, old["diverged"]),
            "memory": memory,
        }
        return new, {"loss": nats, "grad_norm": norm, "diverged": new["diverged"]}

    return step_replica


# `function` of each replica, by the leading axis: all at once on an accelerator, which one replica
# would leave idle, and on a mesh; one after another on a single CPU, where a batch axis costs
# products of small matrices a fifth of their speed.
def _each(function: Callable, replicas: Any, mesh: Mesh | None = None) -> Any:
    if mesh is None and jax.default_backend() == "cpu":
        return jax.lax.map(function, replicas)
    return jax.vmap(function)(replicas)
