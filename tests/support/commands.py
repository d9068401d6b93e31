"""The entry points as a user starts them, each in a process of its own.

A process forks from a server that has imported everything and computed nothing, which saves the
seconds of every import; what it runs is `pe-jax NAME ARGUMENTS`.
"""

import contextlib
import dataclasses
import json
import logging
import multiprocessing
import os
import pty
import resource
import runpy
import select
import signal
import sys
import termios
import threading
import time
from pathlib import Path

import jax
import pytest

from experiments.faults.toy import write_text
from pe_jax.storage.hashes import canonical, sha256
from pe_jax.storage.jsonl import History, read_lines

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 200.0  # seconds that a process may take
PRELOADED = ["pe_jax.commands.console", "grain", "orbax.checkpoint", "pe_jax.runs.execute"]
PRELOADED += ["pe_jax.report.page", "scipy.stats"]
TINY = {
    "lm.model": 16,
    "lm.heads": 2,
    "lm.layers": 1,
    "train.steps": 12,
    "train.steps_per_call": 2,
    "train.length": 16,
    "train.batch": 4,
    "eval.lengths": (16, 32),
    "eval.targets": 256,
    "run.seeds": (0, 1),
    "log.checkpoint_seconds": 0.0,
}

FAILING = """

@dataclasses.dataclass(frozen=True)
class Failing(Encoding):
    def relative_bias(self, params, n):
        # in evaluation alone: before it, fewer distances are traced, and those of all pairs
        if 2 <= n.size / self.dims.train_len < 4:
            raise ArithmeticError("this hook fails")
        return jnp.zeros((self.dims.heads, n.size))
"""
"""The end of a user's file: an encoding whose run fails."""
STUDY = """
from pe_jax.configs import base


def get_config(arg="pe=rope"):
    return base.get_config(arg)


def get_sweep():
    for spec in ("nope", "alibi"):
        yield get_config(f"pe={spec}")
"""
"""A user's config: a sweep of two encodings."""

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(PRELOADED)


def tiny(**values) -> list[str]:
    """--config.NAME=VALUE of a config that runs in seconds, `values` on top."""
    return [f"--config.{name}={value}" for name, value in (TINY | values).items()]


def tiny_on(text: Path) -> dict[str, dict]:
    """The sections of such a config, as Run.of takes them, with a folder of texts as its data."""
    sections: dict[str, dict] = {"data": {"source": f"files:{text}"}}
    for name, value in TINY.items():
        section, field = name.split(".")
        sections.setdefault(section, {})[field] = value
    return sections


@dataclasses.dataclass
class Command:
    """A process at work; after `wait`, its exit code and what it printed."""

    process: multiprocessing.Process
    folder: Path

    def wait(self) -> "Command":
        self.process.join(LIMIT)
        assert not self.process.is_alive(), f"not done after {LIMIT:.0f} s: {self.err}"
        return self

    def until(self, condition) -> "Command":
        """Waits for the condition, which must come true while the process is at work."""
        end = time.monotonic() + LIMIT
        while not condition():
            assert self.process.is_alive() and time.monotonic() < end, f"{self.code}: {self.err}"
            self.process.join(0.002)
        return self

    def stop(self, number: int) -> "Command":
        """Sends a signal, unless it is too late for one, and waits for the end."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, number)
        return self.wait()

    @property
    def code(self) -> int | None:
        return self.process.exitcode

    @property
    def out(self) -> str:
        return (self.folder / "stdout").read_text()

    @property
    def err(self) -> str:
        return (self.folder / "stderr").read_text()


class Terminal:
    """A terminal of 100 columns: what was printed on it, and keys to press."""

    def __init__(self):
        self.master, self.slave = pty.openpty()
        termios.tcsetwinsize(self.slave, (30, 100))
        self.name, self.bytes, self.closed = os.ttyname(self.slave), b"", False
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        while not self.closed:
            if select.select([self.master], [], [], 0.05)[0]:
                self.bytes += os.read(self.master, 65536)

    def press(self, key: bytes) -> None:
        os.write(self.master, key)

    def close(self) -> str:
        """All that was printed."""
        time.sleep(0.2)
        self.closed = True
        self.reader.join()
        os.close(self.master)
        os.close(self.slave)
        return self.bytes.decode().replace("\r\n", "\n")


class Lab:
    """A folder with a text, work directories, and what its processes printed."""

    def __init__(self, folder: Path, cache: Path):
        # The folder is part of a program's name: processes load what this one has compiled.
        self.folder, self.started = folder, 0
        self.cache = Path(jax.config.jax_compilation_cache_dir or cache)
        self.text = f"files:{write_text(folder / 'text')}"

    def start(
        self,
        name: str,
        *arguments: str,
        largest: int | None = None,
        terminal: Terminal | None = None,
        **environment: str,
    ) -> Command:
        """`pe-jax NAME ARGUMENTS`; no file may exceed `largest` bytes."""
        self.started += 1
        folder = self.folder / f"process_{self.started}"
        folder.mkdir()
        tty = terminal and terminal.name
        options = (name, arguments, folder, largest, str(self.cache), tty, environment)
        process = _context.Process(target=_main, args=options)
        process.start()
        return Command(process, folder)

    def run(self, workdir: Path, spec: str = "rope", largest: int | None = None, **values):
        """A tiny run of `spec`, on this lab's text unless `values` name another."""
        flags = tiny(**{"data.source": self.text} | values)
        config = f"--config=configs/base.py:pe={spec}"
        return self.start("run", config, *flags, f"--workdir={workdir}", largest=largest)


def _main(name, arguments, folder, largest, cache, tty, environment):
    if tty:  # a session of its own, whose terminal is the first that it opens
        os.setsid()
        os.dup2(os.open(tty, os.O_RDWR), 0)
    for number, path in ((1, folder / "stdout"), (2, folder / "stderr")):
        os.dup2(os.open(tty or path, os.O_RDWR | os.O_CREAT | os.O_APPEND), number)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as in a process of a terminal
    os.chdir(ROOT)
    os.environ.update(environment)
    keep_programs(cache)
    if largest is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    sys.argv = ["pe-jax", name, *arguments]
    runpy.run_module("pe_jax", run_name="__main__", alter_sys=True)


def keep_programs(cache: str) -> None:
    """Compiles each program once for all processes, here and in those that this one starts."""
    import jax

    settings = {
        "jax_compilation_cache_dir": cache,
        "jax_persistent_cache_min_compile_time_secs": 0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    for setting, value in settings.items():
        os.environ[setting.upper()] = str(value)
        jax.config.update(setting, value)


def lines(folder: Path) -> list[dict]:
    """The whole lines of a run's metrics.jsonl so far."""
    return read_lines(folder / "metrics.jsonl")


def run_of(spec: str = "rope", **values):
    """The Run of a tiny config, `values` on top."""
    from configs import base
    from pe_jax.runs.run import Run

    config = base.get_config(f"pe={spec}")
    config.update_from_flattened_dict(TINY | values)
    return Run.of(config.to_dict())


def the_run(workdir: Path) -> Path:
    """The folder of a work directory's one run."""
    (folder,) = (path for path in workdir.iterdir() if path.is_dir())
    return folder


def damage(checkpoint: Path) -> None:
    """Flips a bit in the arrays of a checkpoint, the folder of a step."""
    files = (checkpoint / "state").rglob("d/*")
    largest = max(files, key=lambda path: path.stat().st_size)
    data = bytearray(largest.read_bytes())
    data[len(data) // 2] ^= 4
    largest.write_bytes(data)


def rewrite(path: Path, **changes) -> None:
    """Changes parts of a record as if it had been written so, with the digest that is right."""
    data = json.loads(path.read_text()) | changes
    del data["digest"]
    path.write_text(canonical(data | {"digest": sha256(canonical(data))}))


def result(folder: Path) -> dict:
    return json.loads((folder / "result.json").read_text())


@contextlib.contextmanager
def messages():
    """A list of what the logger of the package says while it is entered."""
    said, logger = [], logging.getLogger("pe_jax")
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield said
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


@contextlib.contextmanager
def on_line(act):
    """Calls act(line) after each line of a metrics.jsonl is written."""
    add = History.add

    def added(history, **line):
        add(history, **line)
        act(line)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(History, "add", added)
        yield


def stop_at(step):
    """KeyboardInterrupt at the line of this training step."""

    def act(line):
        if line.get("step") == step:
            raise KeyboardInterrupt

    return on_line(act)
