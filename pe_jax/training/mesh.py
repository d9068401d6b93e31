"""Many devices: an axis of seeds, one of data, and one over which parameters are split, from a spec
such as "seed:4,data:2" or "data:2,fsdp:4".

Replicas (seeds) are split over `seed`, and the batch of each over `data` and `fsdp` together.
Parameters and the state of the optimizer are copied over `data` and split over `fsdp`, as in fully
sharded data parallelism. The partitioner of XLA does the rest, so a run computes what it computes
on one device, up to the order of sums (1e-5): the global batch does not depend on the devices.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

AXES = ("seed", "data", "fsdp")
BATCH = ("data", "fsdp")
"""The axes over which a batch is split."""


def parse(spec: str) -> dict[str, int]:
    """{"seed": n, "data": m, "fsdp": k} of "seed:n,data:m,fsdp:k"; an axis that is not named has
    size 1. ValueError for anything else.
    """
    sizes: dict[str, int] = {}
    for part in filter(None, spec.split(",")):
        name, _, size = part.strip().partition(":")
        if name not in AXES or name in sizes or not size.isdecimal() or int(size) < 1:
            raise ValueError(
                f"run.mesh is axis:size pairs of {', '.join(AXES[:-1])} and {AXES[-1]}, each once, "
                f"as in data:8 or seed:4,data:2, got {spec!r}"
            )
        sizes[name] = int(size)
    return dict.fromkeys(AXES, 1) | sizes


def check(spec: str, seeds: int, batch: int) -> None:
    """ValueError unless the axes divide the `seeds` of one program and the windows of a batch."""
    sizes = parse(spec)
    for names, whole, count in (
        (("seed",), "seeds that train in one program", seeds),
        (BATCH, "windows of train.batch", batch),
    ):
        if count % math.prod(sizes[name] for name in names):
            named = ",".join(f"{name}:{sizes[name]}" for name in names if sizes[name] > 1)
            raise ValueError(f"run.mesh: {named} does not divide the {count} {whole}")


def make(spec: str) -> Mesh | None:
    """The mesh over the first devices; None for "". ValueError if there are too few."""
    if not spec:
        return None
    sizes = tuple(parse(spec).values())
    devices, needed = jax.devices(), math.prod(sizes)
    if needed > len(devices):
        raise ValueError(
            f"run.mesh={spec} needs {needed} devices, there are {len(devices)}; a CPU is as many "
            f"as you like with XLA_FLAGS=--xla_force_host_platform_device_count={needed}"
        )
    return Mesh(np.array(devices[:needed]).reshape(sizes), AXES)


def shardings(mesh: Mesh, state: dict[str, Any]) -> dict[str, Any]:
    """The sharding of each array of a training state, whose leaves may be shapes. All but `step`
    have a leading axis of replicas, and the memory after it one of rows of the batch.

    Each matrix of the parameters and of the optimizer is split over `fsdp` along its largest axis
    that is a multiple of it; vectors, and matrices that have none, are copied.
    """

    def of(name: str, shape: tuple[int, ...]) -> P:
        if name == "step":
            return P()
        if name == "memory":
            return P("seed", BATCH)
        size = mesh.shape["fsdp"]
        fits = [axis for axis in range(1, len(shape)) if shape[axis] % size == 0]
        if len(shape) < 3 or not fits:
            return P("seed")
        longest = max(fits, key=lambda axis: shape[axis])
        return P("seed", *[None] * (longest - 1), "fsdp")

    return {
        name: jax.tree.map(lambda leaf, name=name: NamedSharding(mesh, of(name, leaf.shape)), part)
        for name, part in state.items()
    }


def constrained(mesh: Mesh | None, state: dict[str, Any]) -> dict[str, Any]:
    """Inside a jitted function: a training state that is to lie on the mesh by `shardings`."""
    if mesh is None:
        return state
    return jax.lax.with_sharding_constraint(state, shardings(mesh, state))


def place_state(mesh: Mesh | None, state: dict[str, Any]) -> dict[str, Any]:
    """A training state on the mesh, by `shardings`."""
    return state if mesh is None else jax.device_put(state, shardings(mesh, state))


def placed_shapes(mesh: Mesh | None, state: dict[str, Any]) -> dict[str, Any]:
    """The shapes of a training state, as of arrays that lie on the mesh."""
    if mesh is None:
        return state
    return jax.tree.map(
        lambda leaf, place: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place),
        state,
        shardings(mesh, state),
    )


def place_batches(mesh: Mesh | None, batches: Any) -> Any:
    """Arrays [C, R, B, ...] on the mesh, by `batch_sharding`."""
    return batches if mesh is None else jax.device_put(batches, batch_sharding(mesh))


def batch_sharding(mesh: Mesh) -> NamedSharding:
    """How batches [C, R, B, ...] lie: replicas over `seed`, windows over `data` and `fsdp`."""
    return NamedSharding(mesh, P(None, "seed", BATCH))


def place_windows(mesh: Mesh | None, tokens: np.ndarray) -> Any:
    """Windows [B, ...] on the mesh: split over all its devices where their number divides B, else
    copied to each.
    """
    if mesh is None:
        return tokens
    axes = AXES if len(tokens) % mesh.size == 0 else None
    return jax.device_put(tokens, NamedSharding(mesh, P(axes)))


def copies(mesh: Mesh | None, tree: Any) -> Any:
    """A tree, the same on every device."""
    return tree if mesh is None else jax.device_put(tree, NamedSharding(mesh, P()))
