"""Training: a pure step over split NNX state, several steps a call, all seeds of a run in one
program.

A replica is one seed: its own initial weights, its own order of the data, its own random
positions. Encodings are paired: for one seed the shared weights and the batches are the same
whatever the encoding. Everything random is a function of (seed, step), so a run resumed from a
checkpoint is bit-equal to one that was not cut off. Axes: R replicas, C steps a call, B batch, T
training length.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int, Integer

from pe_jax.encoding import Encoding
from pe_jax.lm import LM, decayed
from pe_jax.lm_config import LmConfig
from pe_jax.memory import Memory
from pe_jax.mesh import shardings

State = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """AdamW with warm-up and cosine decay, clipped by the global norm of a replica's gradient."""

    steps: int = 350
    length: int = 64
    batch: int = 32
    rate: float = 3e-3
    """The highest learning rate."""
    warmup: int = 50
    final: float = 0.1
    """The last learning rate, as a part of the highest."""
    decay: float = 0.1
    """Weight decay, on the kernels of dense layers alone."""
    clip: float = 1.0
    beta1: float = 0.9
    beta2: float = 0.98
    steps_per_call: int = 25
    """Steps in one jitted scan; metrics are kept for each call."""
    init_from: str = ""
    """The folder of a finished run whose parameters training starts from (warm_start.py)."""
    init_drop: bool = False
    """Whether parameters of that run which have no place here may be dropped."""

    def __post_init__(self):
        for name in ("steps", "length", "batch", "steps_per_call"):
            if getattr(self, name) < 1:
                raise ValueError(f"train.{name} must be at least 1, got {getattr(self, name)}")
        for name in ("rate", "clip"):
            if not getattr(self, name) > 0:
                raise ValueError(f"train.{name} must be positive, got {getattr(self, name)}")

    def schedule(self) -> optax.Schedule:
        """Linear to `rate` over `warmup` steps (at most a tenth of all), then a cosine to `final *
        rate`.
        """
        warmup = min(self.warmup, self.steps // 10)
        return optax.warmup_cosine_decay_schedule(
            self.rate / max(1, warmup), self.rate, warmup, self.steps, self.rate * self.final
        )

    def optimizer(self) -> optax.GradientTransformation:
        return optax.chain(
            optax.clip_by_global_norm(self.clip),
            optax.adamw(
                self.schedule(), self.beta1, self.beta2, weight_decay=self.decay, mask=decayed
            ),
        )


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

    def one(seed):
        params = nnx.to_pure_dict(nnx.split(build(config, encodings, seed), nnx.Param)[1])
        return {
            "params": params,
            "optimizer": train.optimizer().init(params),
            "diverged": jnp.int32(-1),  # the first step whose loss or gradient was not finite
            "memory": Memory.empty(config, train.batch, config.memory).state()
            if config.memory
            else {},
        }

    state = jax.jit(lambda seeds: _each(one, seeds))(jnp.asarray(seeds, jnp.uint32))
    return state | {"step": jnp.int32(0)}


def make_steps(
    graphdef: nnx.GraphDef, config: TrainConfig, seeds: Sequence[int], mesh: Mesh | None = None
) -> Callable:
    """A jitted `steps(state, batches) -> state, {"loss", "grad_norm"}`.

    Batches are [C, R, B, T + 1], with a memory a pair of these and of [C, R, B], which rows begin a
    document; losses and norms are [C, R], losses nats a token. The state's buffers are given away.
    With a mesh, state and batches must lie on it (pe_jax/mesh.py).
    """
    optimizer = config.optimizer()

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
        return cross_entropy(logits, tokens[:, 1:]).mean(), memory.state() if memory else {}

    def replica(own, step):
        own, batch, seed = own
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), 1), step)
        gradient = jax.value_and_grad(loss, has_aux=True)
        (value, kept), grads = gradient(own["params"], own["memory"], batch, key)
        norm = optax.tree.norm(grads)
        updates, opt = optimizer.update(grads, own["optimizer"], own["params"])
        fine = jnp.isfinite(value) & jnp.isfinite(norm)
        state = {
            "params": optax.apply_updates(own["params"], updates),
            "optimizer": opt,
            "diverged": jnp.where((own["diverged"] < 0) & ~fine, step, own["diverged"]),
            "memory": kept,
        }
        return state, {"loss": value, "grad_norm": norm}

    def one(state, batch):
        step = state["step"]
        replicas = {name: part for name, part in state.items() if name != "step"}
        replicas, out = _each(
            lambda own: replica(own, step),
            (replicas, batch, jnp.asarray(seeds, jnp.uint32)),
            mesh,
        )
        return replicas | {"step": step + 1}, out

    out = None if mesh is None else (shardings(mesh), NamedSharding(mesh, PartitionSpec()))

    @functools.partial(jax.jit, donate_argnums=0, out_shardings=out)
    def steps(state, batches):
        return jax.lax.scan(one, state, batches)

    return steps


def _each(function: Callable, replicas: Any, mesh: Mesh | None = None) -> Any:
    """`function` of each replica: side by side on an accelerator, which one would leave idle, and
    on a mesh.

    In turn on one CPU, whose products of small matrices lose a fifth of their speed to a batch
    axis.
    """
    if mesh is None and jax.default_backend() == "cpu":
        return jax.lax.map(function, replicas)
    return jax.vmap(function)(replicas)


def cross_entropy(logits: Float[Array, "B T V"], targets: Int[Array, "B T"]) -> Float[Array, "B T"]:
    """-log softmax(logits)[target], nats."""
    return optax.softmax_cross_entropy_with_integer_labels(logits, targets)
