"""The memory that compiled programs need, and the memory that is free."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import psutil
from jax.sharding import Mesh

from pe_jax.errors import Refused
from pe_jax.record import in_bytes

SHARE = 0.9
"""The part of the free memory that may be allocated: the process itself needs some, too."""


def check_compiled(program: Any, mesh: Mesh | None) -> None:
    """Refused where the compiled program of training needs more memory than is free."""
    stats, free = program.memory_analysis(), free_bytes(_devices(mesh))
    if stats is None or free is None:
        return
    need = _allocated(stats) - stats.alias_size_in_bytes
    if need > free:
        raise Refused(
            f"training needs {in_bytes(need)}, {in_bytes(free)} are free: lower train.batch, "
            "train.length, train.steps_per_call, lm.model, lm.layers or run.seeds, or set "
            "train.remat=True"
        )


# Passes of evaluation. Compiling takes little memory however long the windows are, so a pass that
# does not fit is found before it runs, and the system does not have to kill the process.


def needed(program: functools.partial, *arguments: Any) -> int:
    """Bytes on one device of a program's input, output and intermediate values. `program` is a
    jitted function with some arguments given; the others come after it. It is compiled, and not
    run; a call after that finds it compiled.
    """
    lowered = program.func.lower(*arguments, **program.keywords)
    return _allocated(lowered.compile().memory_analysis())


class Budget:
    """The free memory that passes share which run at the same time."""

    def __init__(self, mesh: Mesh | None):
        self.devices = _devices(mesh)
        self.changed = threading.Condition()
        self.taken: list[int] = []
        self.free = free_bytes(self.devices)
        """What was free when nothing was taken."""

    def lacks(self, size: int) -> int | None:
        """The bytes that are free where they are fewer than `size`; None where it fits."""
        with self.changed:
            if not self.taken:
                self.free = free_bytes(self.devices)
            return self.free if self.free is not None and size > self.free else None

    @contextlib.contextmanager
    def take(self, size: int) -> Iterator[None]:
        """Holds `size` bytes, as soon as they fit next to what other passes hold."""
        with self.changed:
            self.changed.wait_for(
                lambda: not self.taken or self.free is None or sum(self.taken) + size <= self.free
            )
            self.taken.append(size)
        try:
            yield
        finally:
            with self.changed:
                self.taken.remove(size)
                self.changed.notify_all()


# Bytes of the memory analysis of a compiled program; 0 where the backend gives no analysis.
def _allocated(stats: Any) -> int:
    parts = ("argument", "output", "temp")
    return sum(getattr(stats, f"{part}_size_in_bytes", 0) for part in parts)


def _devices(mesh: Mesh | None) -> list[Any]:
    return jax.local_devices()[:1] if mesh is None else [*mesh.devices.flat]


def free_bytes(devices: Sequence[Any]) -> int | None:
    """Bytes that a program may still allocate on each device; None where that is not known."""
    if devices[0].platform == "cpu":  # all its devices share one memory
        return int(SHARE * psutil.virtual_memory().available / len(devices))
    stats = [device.memory_stats() or {} for device in devices]
    if not all("bytes_limit" in each for each in stats):
        return None
    return int(SHARE * min(each["bytes_limit"] - each["bytes_in_use"] for each in stats))
