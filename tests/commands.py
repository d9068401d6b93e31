"""The entry points as a user starts them, each in a process of its own.

`start` forks from a server that has imported everything and computed nothing, which saves the
seconds of every import; what it runs is `python -m experiments.NAME ARGUMENTS`.
"""

import contextlib
import dataclasses
import json
import multiprocessing
import os
import resource
import runpy
import signal
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 120.0  # seconds that a process may take
TINY = {
    "lm.model": 16,
    "lm.heads": 2,
    "lm.layers": 1,
    "train.steps": 6,
    "train.steps_per_call": 2,
    "train.length": 16,
    "train.batch": 4,
    "eval.lengths": (16, 32),
    "eval.targets": 256,
    "run.seeds": (0, 1),
}

PRELOADED = ("pe_jax.run", "pe_jax.report", "experiments.console", "grain", "orbax.checkpoint", "scipy.stats")

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(list(PRELOADED))


@dataclasses.dataclass
class Command:
    """A process at work, and after `wait` its exit code and what it printed."""

    process: multiprocessing.Process
    folder: Path

    def wait(self) -> "Command":
        self.process.join(LIMIT)
        if self.process.is_alive():
            self.process.kill()
            raise TimeoutError(f"{self.folder} after {LIMIT:.0f} s: {self.err}")
        return self

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def until(self, condition) -> None:
        """Waits until the condition holds; an error if the process ends before."""
        end = time.monotonic() + LIMIT
        while not condition():
            if not self.process.is_alive() or time.monotonic() > end:
                raise AssertionError(f"ended early, {self.code}: {self.err}")
            self.process.join(0.002)

    @property
    def code(self) -> int | None:
        return self.process.exitcode

    @property
    def out(self) -> str:
        return (self.folder / "stdout").read_text()

    @property
    def err(self) -> str:
        return (self.folder / "stderr").read_text()


def start(name: str, *arguments: str, folder: Path, largest: int | None = None, **env: str):
    """`python -m experiments.NAME ARGUMENTS`, its output in `folder`.

    `largest` limits the bytes of any file it writes, as a full disk would.
    """
    folder.mkdir(parents=True)
    process = _context.Process(target=_child, args=(name, arguments, folder, largest, env))
    process.start()
    return Command(process, folder)


def _child(name, arguments, folder, largest, env):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, path in ((1, folder / "stdout"), (2, folder / "stderr")):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    os.chdir(ROOT)
    os.environ.update(env)
    if largest is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    sys.argv = [f"experiments/{name}.py", *arguments]
    with contextlib.suppress(KeyError):
        import jax

        jax.config.update("jax_compilation_cache_dir", env["JAX_COMPILATION_CACHE_DIR"])
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    runpy.run_module(f"experiments.{name}", run_name="__main__", alter_sys=True)


def flags(**values) -> list[str]:
    """--config.NAME=VALUE of a tiny config with these values on top."""
    return [f"--config.{name}={value}" for name, value in (TINY | values).items()]
