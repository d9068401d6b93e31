"""Run records: what identifies a run, what it ran on, and files that are whole or not there.

`<workdir>/<run id>/` holds config.json, metrics.jsonl, checkpoints/ and, written last, result.json.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

PACKAGES = ("jax", "jaxlib", "flax", "optax", "numpy", "grain", "orbax-checkpoint", "pe_jax")


class Refused(RuntimeError):
    """This run cannot begin or go on; the message says why and what to do."""


def canonical(value: Any) -> str:
    """JSON with sorted keys, tuples as lists: equal configs give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def run_id(label: str, identity: Mapping[str, Any]) -> str:
    """A readable name and the hash of all that decides a run's numbers."""
    name = re.sub(r"[^A-Za-z0-9._+-]+", "_", label.rpartition("/")[2]).strip("_")[:60]
    return f"{name}-{sha256(canonical(identity))[:8]}"


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def write(path: Path, text: str) -> None:
    """Writes a whole file or none: to a temporary name, flushed to disk, then renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def read(path: Path) -> dict[str, Any] | None:
    """A JSON object, or None if the file is not there; Refused if it is damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise Refused(
            f"{path} is damaged ({error}): delete it and run the same command again"
        ) from error


@contextlib.contextmanager
def locked(folder: Path, wait: bool = False, shared: bool = False) -> Iterator[None]:
    """Holds a folder for this process, alone or with others that share it; the lock goes with the
    process, however it ends.

    A folder that another process holds is waited for, or else Refused.
    """
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as file:
        if wait:
            fcntl.flock(file, kind)
        for patience in (0.05, 0.05, 0.0):  # is_locked holds it for a moment
            try:
                fcntl.flock(file, kind | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not patience:
                    raise Refused(
                        f"{folder} is being written by another process: wait for it, or stop it"
                    ) from None
                time.sleep(patience)
        yield


def is_locked(folder: Path) -> bool:
    """Whether some process holds a folder."""
    try:
        with open(folder / ".lock") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


class Metrics:
    """metrics.jsonl: a line a call of the training program, and a step of the evaluation."""

    def __init__(self, path: Path, watch: Callable[[dict[str, Any]], None] = lambda line: None):
        self.path, self.watch = path, watch

    def rewind(self, seeds: Sequence[int], step: int) -> None:
        """Forgets what came after `step` of the training of `seeds`: it comes again."""
        lines = [
            line
            for line in read_lines(self.path)
            if "loss" in line and (line["seeds"] != list(seeds) or line["step"] <= step)
        ]
        write(self.path, "".join(json.dumps(line) + "\n" for line in lines))

    def add(self, **line: Any) -> None:
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self.watch(line)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a metrics file; one cut off by a kill is left out."""
    lines = []
    with contextlib.suppress(FileNotFoundError):
        for line in path.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                lines.append(json.loads(line))
    return lines


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


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


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
