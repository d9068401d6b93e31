"""The memory that training and evaluation need, compared with the memory that is free. For training
it is estimated from the config before anything is allocated or compiled, and read from the compiled
program before the first step; for a pass of evaluation it is read from the compiled program.
"""

from __future__ import annotations

import contextlib
import functools
import math
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from pe_jax.encoding import Encoding
from pe_jax.errors import Refused
from pe_jax.model.config import DTYPES, LmConfig
from pe_jax.model.lm import sizes
from pe_jax.model.logits import tokens_at_once
from pe_jax.record import in_bytes
from pe_jax.task import Task
from pe_jax.training.config import TrainConfig
from pe_jax.training.step import model_size

NUMBER = 4  # bytes of a float32 or an int32


def lacking(
    lm: LmConfig,
    encodings: Sequence[Encoding],
    train: TrainConfig,
    task: Task,
    seeds: int,
    mesh: Mesh | None,
) -> str:
    """Why a program that trains so many seeds does not fit on the devices, in one line; "" where it
    may.
    """
    parts = _allocations(lm, encodings, train, task, seeds, mesh)
    need, largest = sum(part.bytes for part in parts), max(parts, key=lambda part: part.bytes)
    free = free_bytes(_devices(mesh))
    if free is None or need <= free:
        return ""
    return (
        f"training needs at least {in_bytes(need)}, {in_bytes(free)} are free: lower "
        f"{largest.knobs}, for its {largest.name} of {in_bytes(largest.bytes)}"
    )


def check_compiled(program: Any, state: Any, mesh: Mesh | None) -> None:
    """Refused where the compiled program of training needs more memory than is free. Its `state` is
    allocated already, and the program overwrites it; None where it is not allocated yet.
    """
    stats, free = program.memory_analysis(), free_bytes(_devices(mesh))
    if stats is None or free is None:
        return
    need = _allocated(stats) - stats.alias_size_in_bytes
    there = sum(
        math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
        for leaf in jax.tree.leaves(state)
        if isinstance(leaf, jax.Array)
    )
    if need - there > free:
        raise Refused(
            f"training needs {in_bytes(need)}, {in_bytes(free + there)} are free: lower "
            "train.batch, train.length, train.steps_per_call, lm.model, lm.layers or run.seeds, or "
            "set train.remat=True"
        )


class Allocation(NamedTuple):
    """A part of what training allocates on each device."""

    name: str
    bytes: int
    knobs: str
    """The fields of the config that make it smaller when they are lowered."""


def _allocations(
    lm: LmConfig,
    encodings: Sequence[Encoding],
    train: TrainConfig,
    task: Task,
    seeds: int,
    mesh: Mesh | None,
) -> list[Allocation]:
    """What training has in memory at one time, by the sizes in the config. Activations and the
    copies that XLA makes are not counted.
    """
    at_once = seeds if mesh or jax.default_backend() != "cpu" else 1  # as in step.py
    copies = NUMBER * (3 * seeds + at_once)  # parameters and two moments of each seed; gradients
    learned = sum(number for encoding in encodings for number in sizes(encoding).values())
    hidden = lm.model * jnp.dtype(DTYPES[lm.dtype]).itemsize  # of a token, in or after a layer
    kept = lm.memory * lm.layers * hidden
    width = task.size(train.length)
    rows = min(train.steps_per_call, train.steps) * seeds * train.batch
    read = rows * (width + 1 if task.reads_text else 1)
    together = at_once * train.batch
    logits = together * tokens_at_once(train.batch, width, lm.vocab) * lm.vocab
    devices = mesh.size if mesh else 1
    return [
        Allocation(name, number // devices, knobs)
        for name, number, knobs in (
            (
                "parameters",
                copies * model_size(lm),
                "lm.vocab, lm.model, lm.mlp, lm.layers or run.seeds",
            ),
            ("parameters of the encoding", copies * learned, "the encoding's fields or run.seeds"),
            ("segment memory", seeds * train.batch * kept, "lm.memory, train.batch or run.seeds"),
            (
                "outputs of the last layer",
                together * width * hidden,
                "train.batch, train.length or lm.model",
            ),
            ("logits", NUMBER * logits, "train.batch, train.length or lm.vocab"),
            ("batches of a call", NUMBER * read, "train.steps_per_call or train.batch"),
        )
    ]


# Passes of evaluation. Compiling takes little memory however long the windows are, so a pass that
# does not fit is found before it runs, and the system does not have to kill the process.


def needed(program: functools.partial, *arguments: Any, **options: Any) -> int:
    """Bytes on one device of a program's input, output and intermediate values. `program` is a
    jitted function with some arguments given; the others come after it. It is compiled, and not
    run; a call after that finds it compiled.
    """
    lowered = program.func.lower(*arguments, **program.keywords, **options)
    return _allocated(lowered.compile().memory_analysis())


class Budget:
    """The free memory that passes share which run at the same time."""

    def __init__(self, mesh: Mesh | None):
        self.devices = _devices(mesh)
        self.changed = threading.Condition()
        self.taken: list[int] = []
        self.free: int | None = None
        """What was free when nothing was taken."""

    def lacks(self, size: int) -> int | None:
        """The bytes that are free where they are fewer than `size`; None where it fits."""
        with self.changed:
            self._look()
            return self.free if self.free is not None and size > self.free else None

    @contextlib.contextmanager
    def take(self, size: int) -> Iterator[None]:
        """Holds `size` bytes, as soon as they fit next to what other passes hold."""
        with self.changed:
            self.changed.wait_for(lambda: self._fits(size))
            self._look()
            self.taken.append(size)
        try:
            yield
        finally:
            with self.changed:
                self.taken.remove(size)
                self.changed.notify_all()

    def _fits(self, size: int) -> bool:
        return not self.taken or self.free is None or sum(self.taken) + size <= self.free

    def _look(self) -> None:
        if not self.taken:
            self.free = free_bytes(self.devices)


def _allocated(stats: Any) -> int:
    """Bytes of the memory analysis of a compiled program; 0 where the backend gives no analysis."""
    parts = ("argument", "output", "temp")
    return sum(getattr(stats, f"{part}_size_in_bytes", 0) for part in parts)


def _devices(mesh: Mesh | None) -> list[Any]:
    """The devices of a mesh; without one the first device."""
    return jax.local_devices()[:1] if mesh is None else [*mesh.devices.flat]


# Free memory: what an accelerator reports; on a CPU what the machine, the control groups of the
# process and its own limit leave

SHARE = 0.9
"""The part of the free memory that may be allocated: the process itself needs some, too."""
PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
GROUP_FILES = {  # by version: the limit, what is used, and the part of it that can be given back
    "": ("memory.max", "memory.current", "inactive_file"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


def free_bytes(devices: Sequence[Any]) -> int | None:
    """Bytes that a program may still allocate on each of the devices. None where that is not known,
    and with several processes, each of which might get another answer.
    """
    if jax.process_count() > 1:
        return None
    if devices[0].platform == "cpu":  # all its devices share one memory
        whole = available()
        return None if whole is None else int(SHARE * whole / len(devices))
    stats = [device.memory_stats() or {} for device in devices]
    if not all("bytes_limit" in each for each in stats):
        return None
    return int(SHARE * min(each["bytes_limit"] - each["bytes_in_use"] for each in stats))


def available() -> int | None:
    """The fewest of the bytes that the machine, the control groups (containers, batch systems) and
    the process's own limit (ulimit -v) leave. None where the system tells none (macOS, Windows).
    """
    return min((*_left_by_machine(), *_left_by_groups(), *_left_by_limit()), default=None)


def _left_by_machine() -> Iterator[int]:
    with contextlib.suppress(OSError):
        for line in (PROC / "meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                yield int(line.split()[1]) * 1024


def _left_by_groups() -> Iterator[int]:
    """Bytes that are left of each control group that limits the memory of this process."""
    with contextlib.suppress(OSError):
        for line in (PROC / "self" / "cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers in GROUP_FILES:
                own = GROUPS / controllers / path.lstrip("/")
                for folder in (own, *own.parents):
                    if folder.is_relative_to(GROUPS / controllers):
                        yield from _left_by_group(folder, *GROUP_FILES[controllers])


def _left_by_group(folder: Path, limit: str, used: str, cache: str) -> Iterator[int]:
    with contextlib.suppress(OSError, ValueError):  # no such file, or "max"
        most, now = (int((folder / name).read_text()) for name in (limit, used))
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        yield max(0, most - now + int(stat.get(cache, 0)))


def _left_by_limit() -> Iterator[int]:
    """Bytes that are left of the address space that the process may have."""
    with contextlib.suppress(ImportError, OSError):
        import resource

        most, _ = resource.getrlimit(resource.RLIMIT_AS)
        pages = int((PROC / "self" / "statm").read_text().split()[0])
        if most != resource.RLIM_INFINITY:
            yield max(0, most - pages * resource.getpagesize())
