"""Compiled programs are kept between processes by JAX's persistent cache: one that was compiled
before, for a run or an evaluation of the same shapes, is loaded, and gives the same bits.

They lie in $XDG_CACHE_HOME/pe_jax/programs (~/.cache/pe_jax/programs), in a folder for each kind of
processor, since code made for another one may crash. JAX's own variable comes first:
JAX_COMPILATION_CACHE_DIR is another place, which is used as it is, or empty, and nothing is kept.
"""

from __future__ import annotations

import contextlib
import os
import platform
from pathlib import Path

import jax
import jaxlib.version

from pe_jax.runs import environment
from pe_jax.storage.hashes import sha256

MOST = 2**28  # bytes of all programs that are kept, several thousand; the oldest go
SOUND = (0, 10, 2)  # before this version jaxlib refuses programs that it has made itself
FIELDS = ("vendor_id", "cpu family", "model", "stepping", "flags")  # of /proc/cpuinfo, x86
ARM_FIELDS = ("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "Features")


def keep() -> None:
    """From now on this process loads the programs that it finds, and keeps those that it compiles.

    Nothing changes where the user has chosen another place, where the folder cannot be written, and
    with a jaxlib before SOUND.
    """
    there = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]
    chosen = there or "JAX_COMPILATION_CACHE_DIR" in os.environ
    if chosen or jaxlib.version.__version_info__ < SOUND:
        return
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "pe_jax", "programs")
    folder = root / f"jaxlib-{jaxlib.version.__version__}-{sha256(processor())[:16]}"
    try:
        folder.mkdir(0o700, parents=True, exist_ok=True)
        forget_oldest(root, MOST)
    except OSError:  # the cache is a convenience: do without where it fails
        return
    if os.access(folder, os.W_OK):
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def processor() -> str:
    """All that the code for the CPU depends on: its model and features, and XLA's threads. Where
    the system does not list the features (macOS, Windows), the machine's name stands for them.
    """
    about = [platform.system(), platform.machine(), str(environment.threads())]
    try:
        lines = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
    except OSError:
        return "\n".join([*about, platform.node()])
    return "\n".join(
        about + [line for line in lines if line.partition(":")[0].strip() in FIELDS + ARM_FIELDS]
    )


def forget_oldest(root: Path, most: int) -> None:
    """Deletes the files below a folder that were written first, until `most` bytes are left."""
    files, total = [], 0
    for path in root.glob("*/*"):
        with contextlib.suppress(FileNotFoundError):  # another process has deleted it
            files.append((path.stat().st_mtime, path.stat().st_size, path))
    for _, size, path in sorted(files, reverse=True):
        total += size
        if total > most:
            path.unlink(missing_ok=True)
