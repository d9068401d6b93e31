"""The project's own files: requirements, constraints, scripts, licence and citation."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from experiments.docs import readme
from pe_jax.atlas import properties
from pe_jax.commands import cli
from pe_jax.encodings import ENCODINGS

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FOREIGN = re.compile(
    r"pypi\.org|pythonhosted\.org|registry\.npmjs|--(extra-)?index-url"
    r"|(?<![\w.~-])/(tmp|work|root|home|Users)/\w"
)


def relative(path):
    return str(path.relative_to(ROOT))


def tracked_files():
    git = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if git.returncode:
        pytest.skip("needs the git clone, to know which files are the project's")
    return [ROOT / name for name in git.stdout.split("\0") if (ROOT / name).is_file()]


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_constraints_name_every_requirement_within_its_range(version):
    lines = (ROOT / f"constraints/py{version.replace('.', '')}.txt").read_text().splitlines()
    matches = [re.fullmatch(r"([\w.-]+)==([\w.]+)", line) for line in lines]
    assert all(matches), "every line must read name==version"
    pinned = {canonicalize_name(match[1]): match[2] for match in matches}
    assert len(pinned) == len(lines)
    assert not pinned.keys() & {"pip", "setuptools", "wheel"}
    extras = PROJECT["optional-dependencies"]
    for line in PROJECT["dependencies"] + extras["test"] + extras["docs"]:
        requirement = Requirement(line)
        if requirement.name == PROJECT["name"]:  # its extra docs
            continue
        if requirement.marker and not requirement.marker.evaluate({"python_version": version}):
            continue
        pin = pinned[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(pin), f"{line} but {pin}"


def test_no_file_names_a_registry_or_a_place_on_one_machine():
    found = {}
    for path in tracked_files():
        data = path.read_bytes()
        match = None if b"\0" in data else FOREIGN.search(data.decode(errors="replace"))
        if match:
            found[relative(path)] = match[0]
    assert not found


def test_every_module_and_program_has_a_docstring():
    programs = [path for name in ("experiments", "configs") for path in (ROOT / name).rglob("*.py")]
    paths = [*(ROOT / "pe_jax").rglob("*.py"), *programs]
    assert not [path for path in paths if not ast.get_docstring(ast.parse(path.read_text()))]


def test_scripts_are_executable_and_parse():
    for path in (ROOT / ".ci/run", *(ROOT / "scripts").iterdir()):
        assert os.access(path, os.X_OK), path
        assert path.read_text().startswith("#!/usr/bin/env bash\n"), path
        checked = subprocess.run(["bash", "-n", path], capture_output=True, text=True)
        assert (checked.returncode, checked.stderr) == (0, ""), path


def test_the_quickstart_writes_nothing_that_git_tracks_and_prints_commands_that_there_are(tmp_path):
    for name in ("scripts/setup", ".venv/bin/python"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text('#!/usr/bin/env bash\nprintf "%s\\n" "$@"\n')
        (tmp_path / name).chmod(0o755)
    shutil.copy(ROOT / "scripts/quickstart", tmp_path / "scripts")
    command = [tmp_path / "scripts/quickstart", "--jobs=1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    folders = dict(re.findall(r"^--(workdir|out)=(.+)$", done, re.M))
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert len(folders) == 2 and "/runs/" in ignored
    assert all(folder.startswith("runs/") for folder in folders.values())
    assert "--jobs=1" in done and str(tmp_path) in done
    printed = [line.split() for line in done.splitlines() if line.startswith(" " * 4)]
    assert ["source", ".venv/bin/activate"] in printed
    assert ["pe-jax", "compare", "results/quickstart", folders["workdir"]] in [
        p[:4] for p in printed
    ]
    assert {line[1] for line in printed if line[0] == "pe-jax"} <= set(cli.COMMANDS)


def test_the_generated_parts_of_the_readme_are_up_to_date_but_for_probes(monkeypatch):
    """What probes say of an encoding, which takes a program each, is taken from its table."""
    table = (ROOT / "docs/encodings.md").read_text().split("<!-- begin encodings -->")[1]
    said = {"yes": True, "no": False, "as theirs": None}
    kinds = {}
    for line in table.split("<!-- end encodings -->")[0].splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if link := re.match(r"\| \[`(\w+)`\]", line):
            kinds[link[1]] = properties.Kind(cells[5], said[cells[6]])
    monkeypatch.setattr(properties, "kind", kinds.__getitem__)
    monkeypatch.setitem(readme.PARTS, "docs/encodings.md", (readme.encodings, readme.costs))
    monkeypatch.setattr(sys, "argv", ["scripts/readme", "--check"])
    assert readme.main() == 0, "run scripts/readme and commit"


@pytest.mark.slow
def test_the_generated_parts_of_the_readme_are_up_to_date():
    environment = os.environ | {"PYTHON": sys.executable}
    command = ["scripts/readme", "--check"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"run scripts/readme and commit\n{done.stderr}"


def test_the_table_of_encodings_has_a_line_of_equal_cells_for_each():
    table = (ROOT / "docs/encodings.md").read_text().split("<!-- begin encodings -->")[1]
    table = table.split("<!-- end encodings -->")[0].strip().splitlines()
    assert len({len(re.split(r"(?<!\\)\|", line)) for line in table}) == 1
    links = [re.match(r"\| \[`(\w+)`\]\((.+?)\) \|", line).groups() for line in table[2:]]
    assert [name for name, _ in links] == list(ENCODINGS)
    assert all((ROOT / "docs" / path).is_file() for _, path in links)
