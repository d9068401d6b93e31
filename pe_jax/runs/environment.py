"""What besides its config decides a run's numbers: commit, versions, device, threads."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

PACKAGES = ("jax", "jaxlib", "flax", "optax", "numpy", "grain", "orbax-checkpoint", "pe_jax")


def environment() -> dict[str, Any]:
    """Commit, versions, device and threads: what besides the config decides a run's bits."""
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
    """The threads of XLA's CPU: NPROC, else the cores that this process may use."""
    return int(os.environ.get("NPROC", 0)) or len(os.sched_getaffinity(0))


def commit() -> str:
    """The commit of the code that runs, and whether its tracked files differ from it."""

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


def peak_memory_mib() -> float:
    """The largest resident size of this process so far."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "cpu"
