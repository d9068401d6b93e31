"""Settings of every test: the CPU as eight devices, quick compilation, strict shapes and checked
annotations.

They must stand before jax and pe_jax are imported, hence the order of this file.
"""

import collections
import gc
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.pop("COLUMNS", None)
os.environ.pop("PYTHONUNBUFFERED", None)  # users do not set it
os.unsetenv("COLUMNS")  # readline, which pytest imports, sets it for the processes of tests
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", "")  # nothing in the user's own folders
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
    "--xla_force_host_platform_device_count=8"
    # More than halves compilation; versions from 0.11 on may abort on a flag.
    + " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    * version("jax").startswith("0.10."),
)

import checked
import jax
import jaxlib.version
import jaxtyping
import pytest

if jaxlib.version.__version_info__ >= (0, 10, 2):  # environment.SOUND
    # A program that another test has compiled is loaded: an eighth less time.
    programs = tempfile.TemporaryDirectory(prefix="pe_jax-tests-")
    jax.config.update("jax_compilation_cache_dir", programs.name)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
jax.config.update("jax_numpy_rank_promotion", "raise")
jaxtyping.install_import_hook("pe_jax", "checked.checked")
checked.__file__ = None  # else a user's file, for which the hook imports it, would have imported it

gc.set_threshold(100_000, 20, 100)  # tracing makes objects by the million: 6 % less time

tests_run = itertools.count(1)
MAPPINGS = Path("/proc/self/maps")
LONG = ("runs", "sweep", "commands", "experiments", "atlas")
"""Folders whose files have few tests, but long ones, which start processes."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first: else one process of pytest-xdist works on the last of them alone."""
    sizes = collections.Counter(item.path for item in items)
    items.sort(key=lambda item: (item.path.parent.name not in LONG, -sizes[item.path], item.path))


@pytest.fixture(autouse=True)
def few_programs() -> Iterator[None]:
    """Frees the compiled programs before they slow down the next ones: MLIR looks through all that
    are kept whenever another is lowered. With jax 0.10.2 test_encodings.py took 9 minutes when they
    were freed at 15,000 mappings of memory, 4 at 3,000, and above 5 at 1,500, since what is freed
    is compiled again where it is used again.
    """
    yield
    looked_at = next(tests_run) % 20 == 0 and MAPPINGS.exists()
    if looked_at and MAPPINGS.read_bytes().count(b"\n") > 3_000:
        jax.clear_caches()


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A commands.Lab; modules share it, each in files of its own."""
    from commands import Lab

    return Lab(tmp_path_factory.mktemp("lab"), tmp_path_factory.getbasetemp() / "programs")


@pytest.fixture(scope="session")
def tiny_run(lab: Any) -> Path:
    """The work directory of a finished run of `randomized+rope`, which tests only read."""
    done = lab.run(lab.folder / "tiny_run", "randomized+rope").wait()
    assert done.code == 0, done.err
    return lab.folder / "tiny_run"


@pytest.fixture
def again(tiny_run: Path, tmp_path: Path) -> Path:
    """A copy of the work directory `tiny_run`."""
    return shutil.copytree(tiny_run, tmp_path / "again")


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> Any:
    """free(bytes) makes that many free."""
    from pe_jax.training import device_memory

    return lambda size: monkeypatch.setattr(device_memory, "free_bytes", lambda devices: size)


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of real corpora that PE_JAX_CORPORA names; without it the test is skipped."""
    folder = os.environ.get("PE_JAX_CORPORA")
    if not folder:
        pytest.skip("needs real corpora: set PE_JAX_CORPORA to their folder")
    if not Path(folder).is_dir():
        raise FileNotFoundError(f"PE_JAX_CORPORA must name a folder, got {folder!r}")
    return Path(folder)
