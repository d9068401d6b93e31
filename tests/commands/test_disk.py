"""A file where a folder must be, or the reverse: one line with path and remedy, nothing left."""

import signal
import subprocess

import pytest
from commands import Lab, run_of, the_run, tiny

from pe_jax.runs.folder import Folder
from pe_jax.storage import atomic, records
from pe_jax.sweep import queue, status
from pe_jax.sweep.engine import Exit, Local

MOVE = "a file is where a folder must be: move it away"


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    lab = Lab(tmp_path_factory.mktemp("lab"), tmp_path_factory.getbasetemp() / "programs")
    (lab.folder / "file").write_text("")
    done = lab.run(lab.folder / "runs", **{"eval.lengths": (16,)}).wait()
    assert done.code == 0, done.err
    return lab


def everything(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


@pytest.mark.parametrize(
    "name, arguments",
    [
        ("run", "--config=configs/base.py:pe=rope {tiny} --workdir={file}"),
        ("sweep", "--config=configs/base.py:pe=rope {tiny} --workdir={file}"),
        ("sweep", "--config=configs/base.py:pe=nope {tiny} --workdir={new} --out={file}"),
        ("evaluate", "--workdir={runs} --lengths=16 --out={file}/below"),
        ("report", "--workdir={file}"),
        ("report", "--workdir={runs} --out={file}"),
        ("compare", "{file} {runs}"),
        ("compare", "{runs} {runs} --out={file}"),
        ("status", "--workdir={file}"),
        ("generate", "--workdir={file}"),
    ],
)
def test_files_in_place_of_folders_raise_before_the_work(lab, name, arguments):
    places = {place: lab.folder / place for place in ("file", "runs", "new", "text")}
    words = [
        word
        for part in arguments.split()
        for word in (tiny(**{"data.source": lab.text}) if part == "{tiny}" else [part])
    ]
    before = everything(lab.folder / "runs")
    done = lab.start(name, *(word.format(**places) for word in words)).wait()
    assert done.code == 2 and done.err.count("\n") == 1, done.err
    assert f"{str(places['file'])!r}: not a directory; {MOVE}" in done.err
    assert everything(lab.folder / "runs") == before and not places["new"].exists()


@pytest.mark.parametrize("name", (pytest.param("table.md", marks=pytest.mark.slow), "curves.png"))
def test_a_report_is_written_whole_or_not_at_all(lab, tmp_path, name):
    (tmp_path / "runs.jsonl").write_text("of before")
    (tmp_path / name).mkdir()
    before = everything(tmp_path)
    done = lab.start("report", f"--workdir={lab.folder / 'runs'}", f"--out={tmp_path}").wait()
    assert done.code == 2 and done.err.count("\n") == 1, done.err
    assert f"{str(tmp_path / name)!r}: is a directory; a folder is where a file must" in done.err
    assert everything(tmp_path) == before


def test_a_failed_write_leaves_no_folder(tmp_path):
    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}/out'"):
        with atomic.together(tmp_path / "out") as draft:
            atomic.write(draft / "first", "text")
            raise OSError(28, "No space left on device")
    assert not (tmp_path / "out").exists()


def test_an_unreadable_run_hides_no_other(lab, tmp_path):
    run = the_run(lab.folder / "runs")
    (tmp_path / "good").symlink_to(run)
    (tmp_path / "odd/result.json").mkdir(parents=True)
    (tmp_path / "no run").mkdir()
    good, odd = status.standings(tmp_path)
    assert (good.state, odd.state) == ("finished", "unreadable")
    assert odd.reason.startswith(f"'{tmp_path}/odd/result.json': is a directory; ")


def test_a_full_disk_hides_no_reason_and_stops_the_runs_at_work(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    engine = Local(1, 1)
    engine.processes["alibi"] = subprocess.Popen(["sleep", "100"])
    run = run_of()
    at_work = queue._Sweep({"rope": queue.Item(run, Folder(tmp_path), run.config)}, 1, None, "", {})
    monkeypatch.setattr(queue._Sweep, "_start_all", full)
    with pytest.raises(OSError, match="No space left"):
        at_work.carried_out(engine)
    assert engine.processes["alibi"].returncode == -signal.SIGTERM
    monkeypatch.setattr(records, "put_state", full)
    (tmp_path / "log.txt").write_text("the reason\n")
    assert queue._reason(tmp_path, Exit(1)) == "the reason"
    (tmp_path / "log.txt").write_text("")
    assert queue._reason(tmp_path, Exit(1)) == "exit code 1"
