"""Many devices: an axis of seeds and an axis of data, from a spec such as "seed:4,data:2".

Replicas (seeds) are split over `seed` and the batch of each over `data`; parameters are copied over
`data`. The partitioner of XLA does the rest, so a run computes what it computes on one device, up
to the order of sums (1e-5): the global batch does not depend on the devices.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

AXES = ("seed", "data")


def parse(spec: str) -> dict[str, int]:
    """{"seed": n, "data": m} of "seed:n,data:m"; an axis that is not named has size 1. ValueError
    for anything else.
    """
    sizes: dict[str, int] = {}
    for part in filter(None, spec.split(",")):
        name, _, size = part.strip().partition(":")
        if name not in AXES or name in sizes or not size.isdecimal() or int(size) < 1:
            raise ValueError(
                f"run.mesh is axis:size pairs of {' and '.join(AXES)}, each once, as in data:8 or "
                f"seed:4,data:2, got {spec!r}"
            )
        sizes[name] = int(size)
    return dict.fromkeys(AXES, 1) | sizes


def check(spec: str, seeds: int, batch: int) -> None:
    """ValueError unless the axes divide the `seeds` of one program and the windows of a batch."""
    for name, whole, count in (
        ("seed", "seeds that train in one program", seeds),
        ("data", "windows of train.batch", batch),
    ):
        size = parse(spec)[name]
        if count % size:
            raise ValueError(f"run.mesh: {name}:{size} does not divide the {count} {whole}")


def make(spec: str) -> Mesh | None:
    """The mesh over the first devices of this process; None for "". ValueError if these are too
    few.
    """
    if not spec:
        return None
    sizes, devices = tuple(parse(spec).values()), jax.local_devices()
    needed = math.prod(sizes)
    if needed > len(devices):
        raise ValueError(
            f"run.mesh={spec} needs {needed} devices, there are {len(devices)}; a CPU is as many "
            f"as you like with XLA_FLAGS=--xla_force_host_platform_device_count={needed}"
        )
    return Mesh(np.array(devices[:needed]).reshape(sizes), AXES)


def shardings(mesh: Mesh) -> dict[str, NamedSharding]:
    """How each entry of a training state is split: all but `step` have a leading axis of replicas,
    and the memory after it one of rows of the batch.
    """
    split, whole = NamedSharding(mesh, P("seed")), NamedSharding(mesh, P())
    rows = NamedSharding(mesh, P("seed", "data"))
    return {
        "params": split,
        "optimizer": split,
        "diverged": split,
        "memory": rows,
        "step": whole,
    }


def place_state(mesh: Mesh | None, state: dict[str, Any]) -> dict[str, Any]:
    """A training state on the mesh: replicas over `seed`, the same on every device of `data`."""
    if mesh is None:
        return state
    split = shardings(mesh)
    return {name: jax.device_put(part, split[name]) for name, part in state.items()}


def place_batches(mesh: Mesh | None, batches: Any) -> Any:
    """Arrays [C, R, B, ...] on the mesh: replicas over `seed`, windows over `data`."""
    if mesh is None:
        return batches
    return jax.device_put(batches, NamedSharding(mesh, P(None, "seed", "data")))


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
