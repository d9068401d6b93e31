"""The memory of a pass of evaluation: what its compiled program needs, what is free, and the share
of each pass where several run at a time.

Compiling needs little memory however long the windows are, so the need is known before anything is
allocated: a pass that does not fit is not run, and the system does not have to kill the process.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

import jax
from jax.sharding import Mesh

from pe_jax.training import need


def needed(program: functools.partial, *arguments: Any, **options: Any) -> int:
    """Bytes on one device of a program, a jitted function with some arguments given, called with
    the others: what goes in, what comes out, and what lies between. It is compiled, and not run;
    a call after that finds it compiled.
    """
    lowered = program.func.lower(*arguments, **program.keywords, **options)
    stats = lowered.compile().memory_analysis()
    parts = ("argument", "output", "temp")
    return sum(getattr(stats, f"{part}_size_in_bytes", 0) for part in parts)


class Budget:
    """What passes that run at a time may allocate together, on the devices of a mesh or on one."""

    def __init__(self, mesh: Mesh | None):
        self.devices = jax.local_devices()[:1] if mesh is None else [*mesh.devices.flat]
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
        """Holds `size` bytes, once they fit beside what others hold."""
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
            self.free = need.free_bytes(self.devices)
