"""Training: a pure step over split NNX state, several steps a call, all seeds of a run in one
program.

A replica is one seed: its own initial weights, its own order of the data, its own random
positions. Encodings are paired: for one seed the shared weights and the batches are the same
whatever the encoding. Everything random is a function of (seed, step), so a run resumed from a
checkpoint is bit-equal to one that was not cut off. Axes: R replicas, C steps a call, B batch, T
training length.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Integer

from pe_jax.encoding import Encoding
from pe_jax.model.config import LmConfig
from pe_jax.model.lm import LM
from pe_jax.model.memory import Memory
from pe_jax.training.config import TrainConfig
from pe_jax.training.mesh import shardings

State = dict[str, Any]


def build(config: LmConfig, encodings: Sequence[Encoding], seed: Integer[Array, ""] | int) -> LM:
    """The model of one seed, on which alone the weights that are not an encoding's depend."""
    key = jax.random.fold_in(jax.random.key(seed), 0)
    weights, positions = jax.random.split(key)
    return LM(config, encodings, rngs=nnx.Rngs(params=weights, encodings=positions))


def structure(config: LmConfig, encodings: Sequence[Encoding]) -> tuple[nnx.GraphDef, Any]:
    """(graphdef, parameters as a tree of shapes), without computing anything."""
    graphdef, params = nnx.split(nnx.eval_shape(lambda: build(config, encodings, 0)), nnx.Param)
    return graphdef, nnx.to_pure_dict(params)


def init(
    config: LmConfig, encodings: Sequence[Encoding], train: TrainConfig, seeds: Sequence[int]
) -> State:
    """The state before the first step; every leaf but `step` has a leading replica axis."""

    def replica(seed):
        params = nnx.to_pure_dict(nnx.split(build(config, encodings, seed), nnx.Param)[1])
        return {
            "params": params,
            "optimizer": train.optimizer().init(params),
            "diverged": jnp.int32(-1),  # the first step whose loss or gradient was not finite
            "memory": Memory.empty(config, train.batch, config.memory).state()
            if config.memory
            else {},
        }

    state = jax.jit(lambda seeds: _each(replica, seeds))(jnp.asarray(seeds, jnp.uint32))
    return state | {"step": jnp.int32(0)}


def make_steps(
    graphdef: nnx.GraphDef, config: TrainConfig, seeds: Sequence[int], mesh: Mesh | None = None
) -> Callable:
    """A jitted `steps(state, batches) -> state, {"loss", "grad_norm"}`.

    Batches are [C, R, B, T + 1], with a memory a pair of these and of [C, R, B], which says which
    rows begin a document; losses and norms are [C, R], losses in nats a token. The state's buffers
    are given away. With a mesh, state and batches must lie on it (mesh.py).
    """
    optimizer = config.optimizer()
    gradient = jax.value_and_grad(_loss(graphdef, config), has_aux=True)

    def step_replica(own, step):
        own, batch, seed = own
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), 1), step)
        (loss, kept), grads = gradient(own["params"], own["memory"], batch, key)
        norm = optax.tree.norm(grads)
        updates, opt = optimizer.update(grads, own["optimizer"], own["params"])
        fine = jnp.isfinite(loss) & jnp.isfinite(norm)
        state = {
            "params": optax.apply_updates(own["params"], updates),
            "optimizer": opt,
            "diverged": jnp.where((own["diverged"] < 0) & ~fine, step, own["diverged"]),
            "memory": kept,
        }
        return state, {"loss": loss, "grad_norm": norm}

    def step_all(state, batch):
        step = state["step"]
        replicas = {name: part for name, part in state.items() if name != "step"}
        replicas, out = _each(
            lambda own: step_replica(own, step),
            (replicas, batch, jnp.asarray(seeds, jnp.uint32)),
            mesh,
        )
        return replicas | {"step": step + 1}, out

    out = None if mesh is None else (shardings(mesh), NamedSharding(mesh, PartitionSpec()))

    @functools.partial(jax.jit, donate_argnums=0, out_shardings=out)
    def steps(state, batches):
        return jax.lax.scan(step_all, state, batches)

    return steps


def _loss(graphdef: nnx.GraphDef, config: TrainConfig) -> Callable:
    """`loss(params, kept, batch, key) -> (mean nats a token, the memory after the segment)` of one
    replica; `kept` is the memory before it, {} without one.
    """

    def loss(params, kept, batch, key):
        model = nnx.merge(graphdef, params, copy=True)
        tokens, memory = batch, None
        if kept:
            tokens, fresh = batch
            memory = Memory.of_state(kept).forgotten(fresh)
        positions, dropout = jax.random.split(key)
        logits, memory = model(
            tokens[:, :-1],
            memory,
            encodings=tuple(e.at(config.length + model.config.memory) for e in model.encodings),
            key=positions,
            dropout_key=dropout,
            train=True,
        )
        nats = optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:])
        return nats.mean(), memory.state() if memory else {}

    return loss


def _each(function: Callable, replicas: Any, mesh: Mesh | None = None) -> Any:
    """`function` of each replica: of all at once on an accelerator, which a single one would leave
    idle, and on a mesh; of one after another on a single CPU, where a batch axis costs products of
    small matrices a fifth of their speed.
    """
    if mesh is None and jax.default_backend() == "cpu":
        return jax.lax.map(function, replicas)
    return jax.vmap(function)(replicas)
