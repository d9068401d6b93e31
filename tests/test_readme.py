"""README.md: its length, and its commands as a reader gives them."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from commands import write_text

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")
SMALL = {
    "lm.model": 8,
    "lm.heads": 1,
    "lm.layers": 1,
    "train.steps": 2,
    "train.steps_per_call": 1,
    "train.batch": 2,
    "eval.targets": 64,
}
"""Knobs on top of those that a command gives."""


def test_it_is_read_in_some_minutes():
    assert len(README.split()) <= 1300


def test_what_it_links_to_is_there():
    links = set(re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", README))
    later = {link for link in links if link.startswith("docs/tutorials/")}  # pages of the site
    assert not [link for link in links - later if not (ROOT / link).exists()]


@pytest.mark.slow
def test_its_commands_work(tmp_path):
    """In order, with small models, each as it stands but for `SMALL`. Left out are blocks that the
    text marks as not run.
    """
    for name in ("configs", "results", "docs", "pe_jax", "experiments", "pyproject.toml"):
        (tmp_path / name).symlink_to(ROOT / name)
    for name in ("scripts", ".venv/bin", "bin"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "scripts/quickstart").write_bytes((ROOT / "scripts/quickstart").read_bytes())
    program(tmp_path / "scripts/setup", "true")
    program(tmp_path / ".venv/bin/python", f'exec {sys.executable} "$@"')
    program(tmp_path / "bin/pe-jax", f'exec {sys.executable} -m pe_jax "$@"')
    (tmp_path / ".venv/bin/activate").touch()
    (tmp_path / "scripts/quickstart").chmod(0o755)
    write_text(tmp_path / "novels")
    for name, mark in (("mine.py", "def get_sweep"), ("log_decay.py", "class LogDecay")):
        (code,) = (
            code for code in re.findall(r"```python\n(.*?)```", README, re.S) if mark in code
        )
        (tmp_path / name).write_text(code)
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    for command in commands():
        done = subprocess.run(
            ["bash", "-ec", command], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    assert (tmp_path / "runs/quickstart/report/report.html").is_file()
    assert (tmp_path / "paper/table.tex").is_file()


def program(path: Path, line: str) -> None:
    path.write_text(f"#!/usr/bin/env bash\n{line}\n")
    path.chmod(0o755)


def commands() -> list[str]:
    """Each command of a block that is not marked as not run; what trains gets the small knobs that
    it does not give.
    """
    blocks = re.findall(r"(<!-- not run: [^>]*-->\n)?```sh\n(.*?)```", README, re.S)
    found = []
    for line in "".join(block for marked, block in blocks if not marked).splitlines():
        words = shlex.split(line, comments=True)
        trains = words[:1] == ["./scripts/quickstart"] or words[1:2] in (["run"], ["sweep"])
        given = {word.partition("=")[0] for word in words}
        knobs = {f"--config.{name}": value for name, value in SMALL.items()} if trains else {}
        own = [f"{name}={value}" for name, value in knobs.items() if name not in given]
        found += [shlex.join([*words, *own])] if words else []
    return found
