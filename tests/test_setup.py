"""scripts/setup, run for real in a copy of the project that needs no network."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = "constraints/py{}{}.txt".format(*sys.version_info)
TOOLS = ("bash", "env", "cat", "cksum", "dirname", "grep", "ln", "mkdir", "rm", "sleep", "tr")

# A stand-in for uv: makes an environment at once, notes what it was asked to do in `calls`, and
# cannot install while a file named `offline` lies beside it.
UV = """#!/usr/bin/env bash
set -eu
case "$1 $2" in
    "python find") exit 1 ;;
    "venv -q")
        while [ "$1" != --python ]; do shift; done
        mkdir -p "$3/bin" && ln -s "$(command -v "$2")" "$3/bin/python"
        echo "made $3" >>calls ;;
    "pip install")
        if [ -e offline ]; then exit 3; fi
        echo "installed ${*: 6}" >>calls
        info=${5%/bin/python}/lib/python3/site-packages/pe_jax-1.0.dist-info
        mkdir -p "$info" && echo '{"dir_info":{"editable":true}}' >"$info/direct_url.json" ;;
esac
"""


class Clone:
    """A copy of scripts/setup that sees the tools listed above and no others."""

    def __init__(self, folder):
        self.root, self.bin = folder / "clone", folder / "bin"
        for name in ("scripts", "constraints"):
            (self.root / name).mkdir(parents=True)
        self.bin.mkdir()
        shutil.copy(ROOT / "scripts/setup", self.root / "scripts")
        (self.root / "pyproject.toml").write_text("[project]\nname = 'tiny'\n")
        (self.root / CONSTRAINTS).write_text("six==1.0\n")
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))

    def add_python(self):
        (self.bin / "python3").symlink_to(sys.executable)

    def add_uv(self):
        (self.bin / "uv").write_text(UV)
        (self.bin / "uv").chmod(0o755)

    def setup(self, *arguments):
        """Run the script; return its exit code, its output and what uv did meanwhile."""
        calls = self.root / "calls"
        calls.unlink(missing_ok=True)
        done = subprocess.run(
            [self.root / "scripts/setup", *arguments],
            env={"PATH": str(self.bin), "HOME": str(self.bin)},
            capture_output=True,
            text=True,
            timeout=60,
        )
        did = calls.read_text().splitlines() if calls.exists() else []
        return done.returncode, done.stdout + done.stderr, did


@pytest.fixture
def clone(tmp_path):
    return Clone(tmp_path)


@pytest.fixture
def clone_with_uv(clone):
    clone.add_python()
    clone.add_uv()
    return clone


def test_setup_without_python_says_so_in_one_line(clone):
    code, output, _ = clone.setup()
    assert code == 1
    assert output == (
        "scripts/setup: no Python >= 3.11 with venv and pip found; install one, then try again\n"
    )
    assert not (clone.root / ".venv").exists()


def test_setup_is_done_once_for_each_extra(clone_with_uv):
    setup = clone_with_uv.setup
    assert setup()[2] == ["made .venv", f"installed -e . -c {CONSTRAINTS}"]
    assert setup() == (0, "Environment .venv: up to date.\n", [])
    assert setup("--extra=test")[2] == [f"installed -e .[test] -c {CONSTRAINTS}"]
    assert setup()[2] == setup("--extra=test")[2] == []


def test_setup_installs_again_when_requirements_change(clone_with_uv):
    clone_with_uv.setup("--extra=test")
    (clone_with_uv.root / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    assert clone_with_uv.setup()[2] == [f"installed -e . -c {CONSTRAINTS}"]
    assert clone_with_uv.setup("--extra=test")[2] == [f"installed -e .[test] -c {CONSTRAINTS}"]


def test_setup_installs_again_when_the_clone_has_moved(clone_with_uv):
    clone_with_uv.setup()
    clone_with_uv.root = clone_with_uv.root.rename(clone_with_uv.root.with_name("moved"))
    assert clone_with_uv.setup()[2] == [f"installed -e . -c {CONSTRAINTS}"]


def test_setup_replaces_a_copy_of_the_package_by_the_clone(clone_with_uv):
    clone_with_uv.setup()
    (info,) = (clone_with_uv.root / ".venv").rglob("direct_url.json")
    info.write_text('{"dir_info": {}}')  # as `pip install .` leaves it
    assert clone_with_uv.setup()[2] == [f"installed -e . -c {CONSTRAINTS}"]
    assert clone_with_uv.setup() == (0, "Environment .venv: up to date.\n", [])


def test_setup_refuses_an_unknown_option(clone_with_uv):
    code, output, did = clone_with_uv.setup("--pyton=3.12")
    assert (code, did) == (1, []) and "unknown option --pyton=3.12" in output


def test_setup_makes_an_interrupted_environment_anew(clone_with_uv):
    clone_with_uv.setup()
    (clone_with_uv.root / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    (clone_with_uv.root / "offline").touch()
    (clone_with_uv.root / ".venv/left-over").touch()
    assert clone_with_uv.setup()[0] == 3
    (clone_with_uv.root / "offline").unlink()
    assert clone_with_uv.setup()[2] == ["made .venv", f"installed -e . -c {CONSTRAINTS}"]
    assert not (clone_with_uv.root / ".venv/left-over").exists()


def test_setup_leaves_a_folder_alone_that_is_no_environment(clone_with_uv):
    precious = clone_with_uv.root / ".venv/precious"
    precious.parent.mkdir()
    precious.touch()
    code, output, did = clone_with_uv.setup()
    assert (code, did) == (1, [])
    assert "move it away" in output and precious.exists()


# A build backend without requirements: pip can install the copy without a network.
BACKEND = """
import base64, hashlib, pathlib, zipfile

def build_editable(folder, settings=None, metadata=None):
    name = "pe_jax-1.0-py3-none-any.whl"
    info = "pe_jax-1.0.dist-info"
    with zipfile.ZipFile(pathlib.Path(folder) / name, "w") as wheel:
        wheel.writestr("pe_jax.pth", str(pathlib.Path.cwd()))
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: pe_jax\\nVersion: 1.0\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nGenerator: pe_jax\\n"
                       "Root-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/RECORD", "")
    return name
"""


@pytest.mark.slow
def test_setup_with_pip_makes_a_working_environment(clone):
    clone.add_python()
    (clone.root / "backend.py").write_text(BACKEND)
    (clone.root / "pyproject.toml").write_text(
        "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n"
        "[project]\nname = 'pe_jax'\nversion = '1.0'\n"
    )
    code, output, _ = clone.setup(".somewhere")
    assert code == 0, output
    assert re.fullmatch(r"Environment .somewhere: installing pe_jax by pip \.{3,} \d+ s\n", output)
    python = clone.root / ".somewhere/bin/python"
    query = "import importlib.metadata as m; print(m.version('pe_jax'))"
    assert subprocess.check_output([python, "-c", query], text=True) == "1.0\n"
    assert clone.setup(".somewhere") == (0, "Environment .somewhere: up to date.\n", [])
