"""Studies of more runs than a reader can tell apart."""

import resource
import subprocess
import sys
from pathlib import Path

import many
import pytest
from studies import table_of

from pe_jax.report import table as tables

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("count", "shown"), [(tables.MODELS, tables.MODELS), (105, tables.SHOWN)])
def test_of_many_models_the_best_are_shown(count, shown):
    table = table_of([*many.results(count)])
    trained = [row for row in table.rows if row.trained]
    assert len(trained) == count
    base = trained[-1].label
    part, more = tables.shortened(table), tables.shortened(table, base)
    assert [row for row in part.rows if row.trained] == trained[:shown]
    assert {row.label for row in more.rows if row.trained} - {row.label for row in part.rows} <= {
        base
    }
    assert tables.left_out(table, part).startswith(f"Shown: {shown} of {count}" * (shown < count))


def seconds(*arguments):
    """The CPU seconds of Python with these arguments, user and system."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, *map(str, arguments)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=ROOT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.slow
def test_status_and_report_of_two_thousand_runs_take_seconds(tmp_path):
    """In the time that Python's json module takes to read the records; twice what was measured."""
    many.write(tmp_path / "runs", 2000)
    workdir, out = f"--workdir={tmp_path / 'runs'}", f"--out={tmp_path / 'out'}"
    read = "import glob, json, sys; [json.load(open(f)) for f in glob.glob(sys.argv[1])]"
    reading = seconds("-c", read, tmp_path / "runs/*/*.json")
    assert seconds("-m", "pe_jax", "status", workdir) < 5 * reading
    assert seconds("-m", "pe_jax", "report", workdir, out) < 70 * reading
    assert "of 2,000 models" in (tmp_path / "out" / "report.html").read_text()
