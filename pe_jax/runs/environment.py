"""The provenance of a run, commit, versions, device and threads; and the cache of compiled
programs.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import jax
import jaxlib.version

from pe_jax.errors import Refused
from pe_jax.record import Device, Process
from pe_jax.runs.resources import cores
from pe_jax.storage.hashes import sha256
from pe_jax.storage.paths import cache

PACKAGE = Path(__file__).parents[1]
STATUS = Path("/proc/self/status")
PACKAGES = ("jax", "jaxlib", "flax", "optax", "numpy", "grain", "orbax-checkpoint", "pe_jax")


def process() -> Process:
    """The commit, the versions and the device of the process that runs."""
    devices = jax.devices()
    first = devices[0]
    return Process(
        commit=commit(),
        versions={"python": platform.python_version()} | {n: _version(n) for n in PACKAGES},
        device=Device(
            platform=first.platform,
            kind=_processor_model() if first.platform == "cpu" else first.device_kind,
            count=len(devices),
            threads=threads(),
            xla_flags=os.environ.get("XLA_FLAGS", ""),
            precision=jax.config.values["jax_default_matmul_precision"] or "",
        ),
    )


def threads() -> int:
    """The threads of XLA on the CPU: $NPROC, else the cores that this process may use. Refused
    for an NPROC that is no number.
    """
    given = os.environ.get("NPROC", "")
    if given and not given.isdecimal():
        raise Refused(f"the variable NPROC is a number of threads, such as 4, got {given!r}")
    return int(given or 0) or cores()


def commit(package: Path = PACKAGE) -> str:
    """The commit of the code that runs; in parentheses, that files of the package or of
    experiments/ differ from it. "unknown" outside a checkout, or where git fails. The first 8
    digits of the SHA-256 of the package's files name the code where no commit does.
    """
    try:
        _git(package, "ls-files", "--error-unmatch", "__init__.py")  # else it only lies in one
        sha = _git(package, "rev-parse", "HEAD")
        status = "status", "--porcelain", "--untracked-files=all", ".", ":(top)experiments"
        changed = _git(package, *status)
    except (OSError, subprocess.SubprocessError):
        return f"unknown (files {_digest(package)})"
    return f"{sha} (with uncommitted changes, files {_digest(package)})" if changed else sha


def _git(folder: Path, *command: str) -> str:
    done = subprocess.run(
        ["git", *command], cwd=folder, capture_output=True, timeout=10, check=True
    )
    return done.stdout.decode(errors="replace").strip()


def _digest(package: Path) -> str:
    # The first 8 digits of the SHA-256 of its Python files and their names
    files = {str(path.relative_to(package)): path for path in package.rglob("*.py")}
    content = "".join(
        f"{name} {sha256(files[name].read_text('utf-8', 'replace'))}\n" for name in sorted(files)
    )
    return sha256(content)[:8]


def peak_memory_mib() -> float | None:
    """The largest resident size of this process so far, in MiB; None on Windows."""
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


def _processor_model() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "cpu"


MOST = 2**28  # bytes of all compiled programs that are kept; JAX deletes the oldest
SOUND = (0, 10, 2)  # before this version jaxlib refuses programs that it has made itself


def keep_programs() -> None:
    """From now on this process loads the programs that it finds, and keeps what it compiles.

    Nothing changes where the user has chosen another place, where the folder cannot be made, and
    with a jaxlib before SOUND.
    """
    there = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]
    chosen = there or "JAX_COMPILATION_CACHE_DIR" in os.environ
    if chosen or jaxlib.version.__version_info__ < SOUND:
        return
    # XLA compiles for the processor, and for the number of threads.
    made_for = sha256(f"{jaxlib.version.__version__} {_processor_model()} {threads()}")[:16]
    with contextlib.suppress(OSError):
        folder = cache() / "programs" / made_for
        folder.mkdir(0o700, parents=True, exist_ok=True)
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_compilation_cache_max_size", MOST)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
