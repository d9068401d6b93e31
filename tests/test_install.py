"""The package installed, outside a clone and from the folder that holds one."""

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from commands import ROOT, STUDY, tiny, write_text


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A virtual environment with this project's requirements but without the project."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    theirs = sysconfig.get_path("purelib")
    # Not a .pth file, which would also carry out that of an editable install of the project.
    (packages / "theirs.pth").write_text(f"import sys; sys.path.append({theirs!r})\n")
    return folder


def call(environment, folder, *command, code=0):
    """What a program of the environment prints, started in `folder`."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    process = [environment / "bin" / command[0], *command[1:]]
    done = subprocess.run(process, cwd=folder, env=clean, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def packages(environment):
    return Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))


def copied(folder):
    """A copy of the clone's files that packages are made of, in `folder`."""
    for name in ("pe_jax", "experiments", "configs"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, folder)
    return folder


def built(folder, out, hook):
    """The wheel that the project's build backend makes of a clone."""
    pytest.importorskip("hatchling")
    code = f"import hatchling.build as b; print(b.{hook}({str(out)!r}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out / done.stdout.split()[-1]


def test_a_clone_of_the_package_s_name_is_no_empty_package(environment, tmp_path):
    """From the folder that holds it, with the path entry that an editable install makes."""
    clone = tmp_path / "pe_jax"
    clone.mkdir()
    copied(clone)
    entry = packages(environment) / "editable.pth"
    entry.write_text(f"{clone}\n")
    try:
        said = "import pe_jax; print(pe_jax.__file__)"
        found = call(environment, tmp_path, "python", "-c", said)
        assert found.strip() == str(clone / "pe_jax/__init__.py")
        help = call(environment, tmp_path, "python", "-m", "experiments.sweep", "--help")
        assert "pe-jax sweep --config" in help
    finally:
        entry.unlink()


def test_the_wheel_holds_the_package_and_nothing_else(tmp_path):
    wheel = zipfile.ZipFile(built(copied(tmp_path), tmp_path, "build_wheel"))
    names = set(wheel.namelist())
    assert {name.partition("/")[0] for name in names} == {"pe_jax", "pe_jax-0.1.0.dist-info"}
    assert "pe_jax/py.typed" in names
    ours = {str(p.relative_to(tmp_path)) for p in (tmp_path / "pe_jax").rglob("*") if p.is_file()}
    assert ours == {name for name in names if name.startswith("pe_jax/")}
    scripts = wheel.read("pe_jax-0.1.0.dist-info/entry_points.txt").decode()
    assert "pe-jax = pe_jax.commands.cli:main" in scripts


def test_an_editable_install_is_the_path_of_the_clone(tmp_path):
    wheel = zipfile.ZipFile(built(copied(tmp_path), tmp_path, "build_editable"))
    (entry,) = (name for name in wheel.namelist() if name.endswith(".pth"))
    assert wheel.read(entry).decode().split() == [str(tmp_path)]


@pytest.mark.slow
def test_the_installed_commands_run_a_config_of_ones_own(environment, tmp_path):
    """A sweep in a folder with nothing of the clone, on a config that builds on the package's."""
    shutil.copytree(ROOT / "pe_jax", packages(environment) / "pe_jax")
    program = environment / "bin/pe-jax"
    code = "import sys; from pe_jax.commands.cli import main; sys.exit(main())"
    program.write_text(f"#!{environment / 'bin/python'}\n{code}\n")
    program.chmod(0o755)
    (tmp_path / "mine.py").write_text(STUDY)
    (tmp_path / "random.py").write_text("raise ImportError('not the standard one')\n")
    flags = tiny(**{"data.source": f"files:{write_text(tmp_path / 'text')}"})
    done = call(environment, tmp_path, "pe-jax", "sweep", "--config=mine.py", *flags)
    assert "nope" in done and "alibi" in done
    shown = call(environment, tmp_path, "pe-jax", "status")
    assert "2 runs: 2 finished" in shown
    (folder,) = (tmp_path / "runs").glob("nope-*")
    again = f"--config=replay.py:{folder / 'config.json'}"
    assert "finished already" in call(environment, tmp_path, "pe-jax", "run", again)
    assert "report.html" in call(environment, tmp_path, "pe-jax", "report", "--workdir=runs")
    longer = call(
        environment, tmp_path, "pe-jax", "evaluate", f"--workdir={folder}", "--lengths=64"
    )
    assert "64 (4x)" in longer
