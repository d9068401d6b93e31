"""What commands print in a terminal of 80 columns: no line is wider, and no cell is broken."""

import subprocess
import sys

import pytest
from commands import ROOT, the_run

from pe_jax.commands import cli
from pe_jax.commands.list import LISTS

COLUMNS = 80


@pytest.fixture(scope="module")
def workdir(lab):
    """The work directory of a finished run."""
    assert lab.run(lab.folder / "of_width").wait().code == 0
    return lab.folder / "of_width"


def printed(lab, *command):
    """The lines that a command prints."""
    done = lab.start(*map(str, command), COLUMNS=str(COLUMNS)).wait()
    assert done.code == 0, done.out + done.err
    lines = done.out.splitlines()
    assert lines and max(map(len, lines)) <= COLUMNS, max(lines, key=len)
    return lines


def test_help_and_lists_fit(lab):
    assert printed(lab, "--help")[0].startswith("usage: pe-jax")
    for name in cli.COMMANDS:
        assert f"pe-jax {name}" in "\n".join(printed(lab, name, "--help"))
    for what in ("", *LISTS):
        assert len(printed(lab, "list", *filter(None, [what]))) > 3


def test_tables_of_runs_fit(lab, workdir):
    run, one = the_run(workdir), ("--metrics=same_targets", "--swaps=")
    for command in (
        ("status", f"--workdir={workdir}"),
        ("report", f"--workdir={workdir}", f"--out={workdir.parent / 'of_width_out'}"),
        ("evaluate", f"--workdir={run}", "--lengths=16,24,32,40,48,56,64", *one),
        ("compare", workdir, workdir),
        ("sweep", f"--config=replay.py:{run / 'config.json'}", "--dry_run"),
    ):
        lines = printed(lab, *command)
        assert any("rope" in line for line in lines), lines


@pytest.mark.parametrize(
    "command",
    [
        "sweep --help",
        "status --workdir={workdir}",
        pytest.param("generate --workdir={run} --prompt=a --tokens=2", marks=pytest.mark.slow),
    ],
)
def test_a_reader_that_leaves_ends_the_command_quietly(workdir, command):
    command = command.format(workdir=workdir, run=the_run(workdir))
    shell = f"{sys.executable} -m pe_jax {command} | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", shell], cwd=ROOT, capture_output=True, text=True)
    assert done.stderr == "" and done.returncode == cli.CUT_OFF, command
