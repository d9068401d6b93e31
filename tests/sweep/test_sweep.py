"""Many runs: which ones a config names, and that failures, kills and company do no harm."""

import os
import shutil
import signal
import types
from pathlib import Path

import numpy as np
import pytest
from commands import FAILING, ROOT, STUDY, TINY, Lab, lines, result, run_of, tiny

from configs import base, quickstart
from pe_jax import record
from pe_jax.commands import config_file
from pe_jax.commands import sweep as command
from pe_jax.commands.sweep import runs_of
from pe_jax.configs import replay
from pe_jax.record import Stage
from pe_jax.report.study import load
from pe_jax.runs import rates
from pe_jax.runs.folder import Folder
from pe_jax.runs.resources import Resources
from pe_jax.storage import atomic, locks, records
from pe_jax.storage.hashes import canonical
from pe_jax.sweep import queue
from pe_jax.sweep.engine import Command, Exit, Local

MINE = """
import dataclasses

import jax.numpy as jnp

from pe_jax.encoding import Encoding


@dataclasses.dataclass(frozen=True)
class Mine(Encoding):
    slope: float = 0.5

    def relative_bias(self, params, n):
        return jnp.broadcast_to(-self.slope * jnp.abs(n), (self.dims.heads, n.size))
"""
SAYING = """
import os

print("GPU memory at once:", os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE"))
print("malloc:", os.environ.get("GLIBC_TUNABLES"))
"""
SECRET = "hunter2-of-the-environment"
GRID = """
import itertools

from pe_jax.configs import base


def get_config(arg="pe=rope"):
    return base.get_config(arg)


def get_sweep():
    rates = [(1e-3, 2.0), (1e-3, 4.0), (2e-2, 2.0), (2e-2, 4.0)]
    for spec, (rate, clip) in itertools.product(["nope", "rope(base=50.0)"], rates):
        c = get_config(f"pe={spec}")
        c.train.rate, c.train.clip = rate, clip
        yield c
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    lab = Lab(tmp_path_factory.mktemp("lab"), tmp_path_factory.getbasetemp() / "programs")
    for name, text in {
        "mine.py": MINE + FAILING + SAYING,
        "study.py": STUDY,
        "grid.py": GRID,
    }.items():
        (lab.folder / name).write_text(text)
    return lab


def sweep(lab, workdir, *arguments, config="study.py", **environment):
    flags = tiny(**{"data.source": lab.text})
    path = f"--config={lab.folder / config}"
    return lab.start("sweep", path, *flags, f"--workdir={workdir}", *arguments, **environment)


def labels(workdir):
    return sorted(result(path.parent)["label"] for path in workdir.glob("*/result.json"))


def test_two_runs_that_train_the_same_and_ask_for_different_things_are_refused(lab, tmp_path):
    path = tmp_path / "twice.py"
    text = "from pe_jax.configs.base import get_config\n\n\ndef get_sweep():\n"
    text += "    for targets in (256, {}):\n        c = get_config('pe=nope')\n"
    text += "        c.eval.targets = targets\n        yield c\n"
    flags = ["--dry_run", f"--workdir={tmp_path}", f"--config.data.source={lab.text}"]
    path.write_text(text.format(256))
    same = lab.start("sweep", f"--config={path}", *flags).wait()
    assert same.code == 0 and "1 run, 1 to do" in same.out, same.err
    path.write_text(text.format(512))
    other = lab.start("sweep", f"--config={path}", *flags).wait()
    assert other.code == 2 and other.err.count("\n") == 1
    assert "train the same, nope, and differ in section eval, run.seeds" in other.err


def test_the_command_line_is_on_top_of_each_run_and_encodings_are_added():
    values = {"train.steps": 7, "run.seeds": (5,)}
    found = runs_of(quickstart, base.get_config(), values, ["alibi[1:]"])
    assert [c.pe.spec for c in found] == [*quickstart.ENCODINGS, "transformer_xl", "alibi[1:]"]
    assert all(c.train.steps == 7 and c.run.seeds == (5,) for c in found)
    (single,) = runs_of(None, base.get_config("pe=t5"), {"train.steps": 7})
    assert single.train.steps == 7 and single.pe.spec == "t5"


@pytest.mark.parametrize("listed", [[{"pe": "rope"}], ["pe=rope"]])
def test_what_is_no_config_is_told(listed):
    file = types.SimpleNamespace(get_config=base.get_config, get_sweep=lambda: listed)
    with pytest.raises(ValueError, match=r"get_sweep\(\) must give configs.*rope"):
        runs_of(file, base.get_config(), {})
    assert runs_of(types.SimpleNamespace(get_sweep=lambda: None), base.get_config(), {}) == []


def test_an_encoding_is_not_added_by_a_get_config_that_lacks_what_the_file_sets():
    file = types.SimpleNamespace(get_config=base.get_config, get_sweep=quickstart.get_sweep)
    with pytest.raises(ValueError, match="define get_config in it"):
        runs_of(file, base.get_config(), {}, ["alibi"])
    assert len(runs_of(file, base.get_config(), {})) == len(quickstart.ENCODINGS) + 1


def test_a_second_interrupt_while_runs_save_their_state_kills_them(tmp_path, monkeypatch):
    """Each is in a process group of its own, so that no other signal would reach it."""
    os.mkfifo(tmp_path / "ready")
    engine, log = Local(1, 1), tmp_path / "log"
    deaf = ["sh", "-c", "trap '' TERM; echo > ready; exec tail -f /dev/null"]
    engine.submit("a", Command(deaf, dict(os.environ), tmp_path, log, Resources()))
    (tmp_path / "ready").read_text()  # which waits until it is deaf
    (process,) = engine.processes.values()
    with monkeypatch.context() as patched:
        patched.setattr(process, "wait", lambda: signal.default_int_handler(2, None))
        with pytest.raises(KeyboardInterrupt):
            engine.stop()
    assert process.wait() == -signal.SIGKILL


def test_a_dry_run_of_a_recorded_config_lists_it_and_writes_nothing(lab, tmp_path):
    atomic.write(tmp_path / "config.json", canonical({"config": run_of("t5").config}))
    config = f"--config=replay.py:{tmp_path / 'config.json'}"
    done = lab.start("sweep", config, "--dry_run", f"--workdir={tmp_path / 'runs'}").wait()
    assert done.code == 0 and done.err == "", done.err
    assert "1 run, 1 to do" in done.out
    assert run_of("t5").id in done.out and not (tmp_path / "runs").exists()


def test_a_dry_run_names_what_runs_differ_in(lab, tmp_path):
    done = sweep(lab, tmp_path / "runs", "--dry_run", "--also=t5", config="grid.py").wait()
    assert done.code == 0, done.err
    assert "9 runs, 9 to do" in done.out and not (tmp_path / "runs").exists()
    varied = {"train.rate": 2e-2, "train.clip": 4.0, "data.source": lab.text}
    wanted = run_of("rope(base=50.0)", **varied)
    (row,) = (line for line in done.out.splitlines() if wanted.id in line)
    assert f"{wanted.parameters().total:,}" in row and "rope(base=50.0)" in row
    assert str(TINY["train.steps"]) in row
    assert "rope(base=50.0), rate 0.02, train.clip 4" in row


@pytest.fixture(scope="module")
def study(lab):
    """A finished sweep of nope, whose folder is deleted while it is at work, alibi, an encoding of
    one's own, and one that fails.
    """
    own = ",".join(f"{lab.folder / 'mine.py'}:{name}" for name in ("Mine(slope=0.25)", "Failing"))
    workdir, out = lab.folder / "runs", lab.folder / "results/tiny"
    gone = workdir / id_of(lab, "nope")
    flags = ["--jobs=2", f"--out={out}", f"--also={own}"]
    at_work = sweep(lab, workdir, *flags, SECRET_TOKEN=SECRET).until(lambda: lines(gone))
    while gone.exists():  # the run may be about to write
        shutil.rmtree(gone, ignore_errors=True)
    return workdir, out, at_work.wait()


def test_runs_that_fail_are_told_and_stop_no_other(lab, study):
    workdir, out, done = study
    assert done.code == 1, done.err
    assert labels(workdir) == [f"{lab.folder / 'mine.py'}:Mine(slope=0.25)", "alibi"]
    deleted, failed = sorted(
        (line for line in done.err.splitlines() if line.startswith("failed: ")), key=len
    )
    own = lab.folder / "mine.py"
    assert f"\n{own}:Mine reads relative positions\n" in f"\n{done.out}"
    assert "failed: nope: its folder was deleted" in deleted and "Traceback" not in done.err
    assert "Failing.relative_bias raised ArithmeticError: this hook fails" in failed
    assert "the same command tries again what has failed: " in done.err.splitlines()[-1]
    assert "1 of 3 runs not shown, failed: " in (out / "table.md").read_text()
    log = Path(failed.rpartition("(")[2].rstrip(")")).read_text()
    assert "this hook fails" in log
    assert "GPU memory at once: false" in log  # of a GPU that several runs may share
    assert "malloc: glibc.malloc.hugetlb=1" in log


def test_the_report_has_ones_own_encoding_and_not_what_failed(study):
    workdir, out, done = study
    names = {path.name for path in out.iterdir()}
    wanted = {"runs.jsonl", "table.md", "table.tex", "table.csv", "curves.png", "report.html"}
    assert wanted <= names and all(str(out / name) in done.out for name in wanted)
    table = (out / "table.md").read_text()
    rows = [line for line in table.splitlines() if line.startswith("|")]
    assert not any("Failing" in row or "nope" in row for row in rows)
    assert all(f"{name} " in table for name in ("alibi", "Mine(slope=0.25)"))
    again = f"pe-jax report --workdir={workdir} --out={out}</pre>"
    assert again in (out / "report.html").read_text()


def test_overrides_reach_every_run(lab, study):
    workdir = study[0]
    values = [result(path.parent) for path in workdir.glob("*/result.json")]
    assert values[0]["rows"] != values[1]["rows"]
    for found in values:
        assert found["train"]["steps"] == 12 and found["config"]["lm"]["model"] == 16
        assert found["corpus"]["source"] == lab.text
        command = found["command"]
        assert command.startswith("pe-jax sweep ") and "--workdir=DIR" in command
        assert str(workdir) not in command


def test_finished_runs_are_skipped_and_it_says_so(lab, study):
    workdir = study[0]
    before = {p: p.stat().st_mtime_ns for p in workdir.rglob("*") if p.is_file()}
    own = f"--also={lab.folder / 'mine.py'}:Mine(slope=0.25)"
    alibi = ROOT / "configs/base.py:pe=alibi"
    done = sweep(lab, workdir, own, config=alibi).wait()
    assert done.code == 0, done.err
    assert "2 of 2 runs were finished already: they are not run again" in done.out
    assert "alibi" in done.out
    assert {p: p.stat().st_mtime_ns for p in workdir.rglob("*") if p.is_file()} == before
    listed = sweep(lab, workdir, "--also=rope", "--dry_run", config=alibi).wait()
    assert listed.code == 0 and listed.out.count("  finished") == 1, listed.out
    assert "2 runs, 1 to do" in listed.out


def test_nothing_that_is_written_holds_the_environment(study):
    """Of a sweep with its logs and its report."""
    workdir, out, done = study
    files = [path for folder in (workdir, out) for path in folder.rglob("*") if path.is_file()]
    kinds = {"log.txt", "config.json", "result.json", "metrics.jsonl", "report.html", "runs.jsonl"}
    assert kinds <= {path.name for path in files}
    for content in (done.out.encode(), done.err.encode(), *(path.read_bytes() for path in files)):
        assert b"SECRET_TOKEN" not in content and SECRET.encode() not in content


@pytest.mark.slow
def test_a_sweep_trains_at_each_rate_and_evaluates_the_best(lab, tmp_path):
    flags = ["--config.train.rates=(9e-3,1e-5)", "--jobs=2"]
    alone = sweep(lab, tmp_path / "alone").wait()
    assert alone.code == 0, alone.err
    for _ in range(2):  # and again, where all is done
        done = sweep(lab, tmp_path / "runs", *flags).wait()
        assert done.code == 0, done.err
    assert sorted(run.label for run in load(tmp_path / "runs")) == ["alibi", "nope"]
    assert len(list((tmp_path / "runs").iterdir())) == 4
    for path in (tmp_path / "runs").glob("*/result.json"):
        found = result(path.parent)
        if found["config"]["train"]["rate"] == 9e-3:
            same = result(tmp_path / "alone" / path.parent.name)
            assert found["rows"] == same["rows"] and found["digests"] == same["digests"]
            assert [tried["rate"] for tried in found["rates"]] == [9e-3, 1e-5]
    assert "2 of 2 runs were finished already" in done.out
    assert "of those tried: alibi (0.009) and nope (0.009)" in done.out


def test_a_run_that_another_command_has_finished_otherwise_is_not_marked_as_failed(tmp_path):
    records.put_state(tmp_path, Stage.DONE)
    (tmp_path / "log.txt").write_text("runs/x/result.json\n")
    assert queue._reason(tmp_path, Exit(0)) == queue.OTHERWISE
    assert records.state_of(tmp_path).stage is Stage.DONE


def id_of(lab, spec):
    return run_of(spec, **{"data.source": lab.text}).id


def test_a_killed_sweep_and_then_two_at_once_end_well_with_each_run_done_once(lab, tmp_path):
    """The runs of the second of these sweeps are as on another host."""
    folders = [tmp_path / id_of(lab, spec) for spec in ("nope", "alibi")]
    (lab.folder / "sitecustomize.py").write_text(
        "import socket\nsocket.gethostname = lambda: 'elsewhere'\n"
    )
    killed = sweep(lab, tmp_path, "--jobs=1").until(lambda: lines(folders[0])).stop(signal.SIGKILL)
    assert killed.code == -signal.SIGKILL
    elsewhere = {"PYTHONPATH": str(lab.folder)}
    both = [sweep(lab, tmp_path, "--jobs=2", **where) for where in ({}, elsewhere)]
    for one in both:
        assert one.wait().code == 0, one.err
        assert "failed" not in one.err
    assert labels(tmp_path) == ["alibi", "nope"]
    for folder in folders:
        assert (folder / "log.txt").read_text().count("parameters of one seed") == 1
        steps = [line["step"] for line in lines(folder) if "loss" in line]
        assert steps == list(range(2, 13, 2))
    cores = len(os.sched_getaffinity(0))  # the number decides the last bits: it is that of before
    assert result(folders[0])["device"]["threads"] == cores


@pytest.mark.slow
def test_a_signal_stops_the_runs_too_and_the_same_command_goes_on(lab, tmp_path):
    folder = tmp_path / id_of(lab, "nope")

    def start():
        flags = tiny(**{"data.source": lab.text})
        config = "--config=configs/base.py:pe=nope"
        return lab.start("sweep", config, *flags, f"--workdir={tmp_path}")

    stopped = start().until(lambda: lines(folder)).stop(signal.SIGTERM)
    assert stopped.code == 75 and "the same command goes on" in stopped.err, stopped.err
    assert not locks.is_locked(folder) and not (folder / "result.json").exists()
    assert "stopped by SIGTERM, saved" in (folder / "log.txt").read_text()
    done = start().wait()
    assert done.code == 0 and labels(tmp_path) == ["nope"], done.err
    assert "going on from step" in (folder / "log.txt").read_text()
    steps = [line["step"] for line in lines(folder) if "loss" in line]
    assert steps == list(range(2, 13, 2))


@pytest.mark.parametrize(
    ("jobs", "expected"), [(1, [6] * 5), (2, [3, 3, 3, 3, 6]), (3, [2, 2, 2, 3, 3]), (5, [1] * 5)]
)
def test_the_runs_of_a_round_share_the_cores(monkeypatch, jobs, expected):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(6)))
    engine = Local(jobs, 5)
    assert [engine.threads(Resources(), waiting) for waiting in (4, 3, 2, 1, 0)] == expected


def test_rates_that_numpy_has_made_reach_the_best_run(monkeypatch, tmp_path):
    config = base.get_config("task=copy,pe=rope")
    config.train.rates = tuple(np.geomspace(1e-3, 1e-2, 2))
    runs = rates.runs_of(config.to_dict())
    tried = tuple(record.Tried(rate=run.train.rate, valid={}) for run in runs)
    monkeypatch.setattr(rates, "best", lambda runs, workdir: (runs[1], tried))
    monkeypatch.setattr(command, "_WORKDIR", types.SimpleNamespace(value=str(tmp_path)))
    planned = record.Planned(label="", config=command._best(runs).config)
    records.write(tmp_path / "queued.json", planned)
    again = rates.runs_of(replay.get_config(str(tmp_path)).to_dict())
    assert [run.id for run in again] == [run.id for run in runs]


def test_a_users_file_called_replay_is_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("replay.py").write_text("")
    run, said = run_of(), []
    engine = types.SimpleNamespace(
        threads=lambda *_: 1, submit=lambda id, command: said.extend(command.command)
    )
    item = queue.Item(run, Folder.of(run.id, tmp_path / "runs"), run.config)
    queue._Sweep({run.id: item}, 1, None, "", {})._start(run.id, item, engine)
    (config,) = (word for word in said if word.startswith("--config="))
    found = config_file.find(config.removeprefix("--config=").partition(":")[0])
    assert found == config_file.PACKAGE / "replay.py"
