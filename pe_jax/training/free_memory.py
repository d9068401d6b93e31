"""How much memory this process may still allocate: on an accelerator, or on a CPU by what the
machine, its control group and its own limit leave it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax

SHARE = 0.9
"""How much of what is free may be allocated: the process itself needs some, too."""
PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
FILES = {  # by version: the limit, what is used, and the part of it that can be given back
    "": ("memory.max", "memory.current", "inactive_file"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


def free(devices: Sequence[Any]) -> int | None:
    """Bytes that a program may still allocate on each of the devices. None where that is not known,
    and with several processes, which must not come to different answers.
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
    """The fewest bytes that the machine has, that the control groups of this process leave it
    (containers, batch systems), and that its own limit does (ulimit -v). None where the system
    tells nothing (macOS, Windows).
    """
    return min((left for left in (*_machine(), *_groups(), *_limit())), default=None)


def _machine() -> Iterator[int]:
    with contextlib.suppress(OSError):
        for line in (PROC / "meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                yield int(line.split()[1]) * 1024


def _groups() -> Iterator[int]:
    """What is left of each group that limits the memory of this process."""
    with contextlib.suppress(OSError):
        for line in (PROC / "self" / "cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers in FILES:
                own = GROUPS / controllers / path.lstrip("/")
                for folder in (own, *own.parents):
                    if folder.is_relative_to(GROUPS / controllers):
                        yield from _left(folder, *FILES[controllers])


def _left(folder: Path, limit: str, used: str, cache: str) -> Iterator[int]:
    with contextlib.suppress(OSError, ValueError):  # no such file, or "max"
        most, now = (int((folder / name).read_text()) for name in (limit, used))
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        yield max(0, most - now + int(stat.get(cache, 0)))


def _limit() -> Iterator[int]:
    """What is left of the address space that the process may have."""
    with contextlib.suppress(ImportError, OSError):
        import resource

        most, _ = resource.getrlimit(resource.RLIMIT_AS)
        pages = int((PROC / "self" / "statm").read_text().split()[0])
        if most != resource.RLIM_INFINITY:
            yield max(0, most - pages * resource.getpagesize())
