"""What besides its config decides a run's numbers: commit, versions, device, threads."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

PACKAGES = ("jax", "jaxlib", "flax", "optax", "numpy", "grain", "orbax-checkpoint", "pe_jax")


def environment() -> dict[str, Any]:
    """What a record holds of these: "commit", "versions" by package and "device", the fields of
    record.Device.
    """
    import jax

    devices = jax.devices()
    return {
        "commit": commit(),
        "versions": {"python": platform.python_version()}
        | {name: _version(name) for name in PACKAGES},
        "device": {
            "platform": devices[0].platform,
            "kind": _processor() if devices[0].platform == "cpu" else devices[0].device_kind,
            "count": len(devices),
            "threads": threads(),
            "xla_flags": os.environ.get("XLA_FLAGS", ""),
        },
    }


def threads() -> int:
    """The threads of XLA on the CPU: $NPROC, else the cores that this process may use."""
    return int(os.environ.get("NPROC", 0)) or cores()


def cores() -> int:
    """The cores that this process may use; all of them where the system does not say (macOS,
    Windows).
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def commit() -> str:
    """The commit of the code that runs, with a note where tracked files differ from it; "unknown"
    outside a checkout.
    """

    def git(*command: str) -> str:
        here = Path(__file__).parent
        done = subprocess.run(
            ["git", *command], cwd=here, capture_output=True, text=True, timeout=10
        )
        return done.stdout.strip()

    try:
        sha = git("rev-parse", "HEAD")
        changed = sha and git("status", "--porcelain", "--untracked-files=no", ":/", ":!:/results")
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return (sha or "unknown") + (" (with uncommitted changes)" if changed else "")


def peak_memory_mib() -> float | None:
    """The largest resident size of this process so far, in MiB; None where the system does not say
    (Windows).
    """
    try:
        import resource
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    """The model of the processor."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "cpu"
