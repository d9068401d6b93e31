"""The commands of documents, as a reader gives them, with small models."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(
    r'(?P<left_out><!-- not run: [^>]*-->\n)?```(?P<kind>\w+)(?: title="(?P<file>[^"]+)")?\n'
    r"(?P<text>.*?)```",
    re.S,
)
SMALL = {
    "lm.model": 8,
    "lm.heads": 1,
    "lm.layers": 1,
    "train.steps": 2,
    "train.steps_per_call": 1,
    "train.batch": 2,
    "eval.targets": 64,
}
"""Knobs of what trains, on top of those that a command gives."""


def files(document: str) -> dict[str, str]:
    """{name: code} of the blocks that have a title."""
    return {m["file"]: m["text"] for m in BLOCK.finditer(document) if m["file"]}


def commands(document: str) -> list[str]:
    """Each command of the blocks of `sh` that are not marked as not run."""
    shown = [m["text"] for m in BLOCK.finditer(document) if m["kind"] == "sh" and not m["left_out"]]
    lines = "".join(shown).replace("\\\n", " ").splitlines()
    return [line for line in lines if shlex.split(line, comments=True)]


def small(command: str) -> str:
    """The command with SMALL, where it trains."""
    words = shlex.split(command, comments=True)
    trains = words[:1] == ["./scripts/quickstart"] or words[1:2] in (["run"], ["sweep"])
    given = {word.partition("=")[0] for word in words}
    knobs = {f"--config.{name}": value for name, value in SMALL.items()} if trains else {}
    return shlex.join([*words, *(f"{n}={value}" for n, value in knobs.items() if n not in given)])


def assert_works(command: str, folder: Path) -> None:
    """That the command ends well in a folder, where `pe-jax` is that of the project."""
    program(folder / "bin/pe-jax", f'exec {sys.executable} -m pe_jax "$@"')
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    done = subprocess.run(
        ["bash", "-ec", command], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def program(path: Path, line: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/usr/bin/env bash\n{line}\n")
    path.chmod(0o755)
