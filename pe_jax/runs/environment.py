"""What besides its config decides a run's numbers: commit, versions, device, threads."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from pe_jax.errors import Refused
from pe_jax.record import Device, Process
from pe_jax.storage.hashes import sha256

PACKAGE = Path(__file__).parents[1]
STATUS = Path("/proc/self/status")
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


def process() -> Process:
    """The same as records hold it."""
    here = environment()
    device = Device(**here["device"])
    return Process(commit=here["commit"], versions=here["versions"], device=device)


def threads() -> int:
    """The threads of XLA on the CPU: $NPROC, else the cores that this process may use. Refused
    for an NPROC that is no number.
    """
    given = os.environ.get("NPROC", "")
    if given and not given.isdecimal():
        raise Refused(f"the variable NPROC is a number of threads, such as 4, got {given!r}")
    return int(given or 0) or cores()


def cores() -> int:
    """The cores that this process may use; all of them where the system does not say (macOS,
    Windows).
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def commit(package: Path = PACKAGE) -> str:
    """The commit of the code that runs. In parentheses follows what it does not tell: that files of
    the package or of experiments/ differ from it, or that the repository holds the package in
    another folder. "unknown" outside a checkout, or where git fails. The first 8 digits of the
    SHA-256 of the package's files name the code where no commit does.
    """
    files = f"files {_digest(package)}"
    try:
        _git(package, "ls-files", "--error-unmatch", "__init__.py")  # else it only lies in one
        sha, prefix = _git(package, "rev-parse", "HEAD", "--show-prefix").split("\n")
        status = "status", "--porcelain", "--untracked-files=all", ".", ":(top)experiments"
        changed = _git(package, *status)
    except (OSError, subprocess.SubprocessError):
        return f"unknown ({files})"
    notes = [f"of a repository that holds it as {prefix}"] * (prefix != f"{package.name}/")
    notes += [f"with uncommitted changes, {files}"] * bool(changed)
    return f"{sha} ({'; '.join(notes)})" if notes else sha


def _git(folder: Path, *command: str) -> str:
    """What git prints. subprocess.SubprocessError where it fails."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", *command], cwd=folder, env=others, capture_output=True, timeout=10, check=True
    )
    return done.stdout.decode(errors="replace").strip()


def _digest(package: Path) -> str:
    """The first 8 digits of the SHA-256 of its Python files and their names."""
    files = {str(path.relative_to(package)): path for path in package.rglob("*.py")}
    content = "".join(
        f"{name} {sha256(files[name].read_text(errors='replace'))}\n" for name in sorted(files)
    )
    return sha256(content)[:8]


def peak_memory_mib() -> float | None:
    """The largest resident size of this process so far, in MiB; None where the system does not say
    (Windows).
    """
    try:  # not ru_maxrss, which on Linux is at least what the parent had when it started this one
        return int(re.findall(r"VmHWM:\s+(\d+) kB", STATUS.read_text())[0]) / 2**10
    except (OSError, IndexError):
        pass
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
