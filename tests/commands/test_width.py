"""What commands print in a terminal of 80 columns: no line is wider, and no cell is broken."""

import re
import subprocess
import sys

import pytest
from commands import ROOT, Lab, the_run
from drawn import drawn

from pe_jax.commands import cli
from pe_jax.commands.list import LISTS
from pe_jax.report import labels, page

COLUMNS = 80
NUMBER = re.compile(r"[-+−]?\d[\d.,]*( ± \d[\d.]*)?")


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    return Lab(tmp_path_factory.mktemp("lab"), tmp_path_factory.getbasetemp() / "programs")


@pytest.fixture(scope="module")
def workdir(lab):
    """The work directory of a finished run."""
    assert lab.run(lab.folder / "runs").wait().code == 0
    return lab.folder / "runs"


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", str(COLUMNS))


def printed(*command, code=0):
    """The lines that a command prints."""
    process = [sys.executable, "-m", "pe_jax", *map(str, command)]
    done = subprocess.run(process, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines and max(map(len, lines)) <= COLUMNS, max(lines, key=len)
    return lines


def test_help_and_lists_fit():
    printed("--help")
    for name in cli.COMMANDS:
        printed(name, "--help")
    for what in ("", *LISTS):
        printed("list", *filter(None, [what]))


def test_tables_of_runs_fit(workdir):
    run = the_run(workdir)
    for command in (
        ("status", f"--workdir={workdir}"),
        ("report", f"--workdir={workdir}", f"--out={workdir.parent / 'out'}"),
        ("evaluate", f"--workdir={run}", "--lengths=16,24,32,40,48,56,64"),
        ("compare", workdir, workdir),
    ):
        lines = printed(*command)
        assert any("rope" in line for line in lines), lines
    lines = printed("sweep", f"--config=replay.py:{run / 'config.json'}", "--dry_run")
    assert any(line.startswith("rope ") for line in lines)


@pytest.mark.parametrize("columns", [80, 100, 120, 200])
def test_no_value_of_a_table_is_broken(tmp_path, monkeypatch, columns):
    """A study of long names and many lengths: each row's values stand on the line of its name."""
    specs = ("rope", "learned(clip=True)", "yarn(factor=4.0,original=128)+window(window=32)")
    results = [drawn("passkey", spec, 3) for spec in specs]
    page.write(results, tmp_path / "study")
    monkeypatch.setenv("COLUMNS", str(columns))
    process = [sys.executable, "-m", "pe_jax", "report", f"--workdir={tmp_path / 'study'}"]
    process.append(f"--out={tmp_path / 'out'}")
    out = subprocess.run(process, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    lines = out.splitlines()
    table = lines[: lines.index("", 3)]
    assert max(map(len, table)) <= columns
    rows = [line for line in table[3:] if NUMBER.search(line[len(line.split("  ")[0]) :])]
    assert len(rows) >= len(specs)
    numbers = {len(NUMBER.findall(row.partition("  ")[2])) for row in rows}
    assert len(numbers) == 1, "\n".join(table)


def test_a_reader_that_leaves_ends_the_command_quietly(workdir):
    commands = ["sweep --help", "list encodings", "--help", f"status --workdir={workdir}"]
    for command in commands:
        shell = f"{sys.executable} -m pe_jax {command} | true; exit ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", shell], cwd=ROOT, capture_output=True, text=True)
        assert done.stderr == "" and done.returncode == cli.CUT_OFF, command


def test_runs_of_one_label_are_told_apart_by_the_task_and_what_differs_first():
    results = [drawn("passkey", "rope", 2, rate=rate) for rate in (0.001, 0.003)]
    assert set(labels.short(results).values()) == {"rope, rate 0.001", "rope, rate 0.003"}
