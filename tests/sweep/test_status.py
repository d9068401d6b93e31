"""How runs stand, told from their folder alone."""

import contextlib
import dataclasses
import os
import signal
import time

import pytest
from commands import lines, messages, run_of, tiny
from helpers import trained_line

from pe_jax import record
from pe_jax.commands import status as command
from pe_jax.errors import Held
from pe_jax.record import Stage
from pe_jax.runs.folder import Folder
from pe_jax.storage import locks, records
from pe_jax.storage.jsonl import encode
from pe_jax.sweep import queue, status
from pe_jax.sweep.engine import Exit


class Work:
    """A work directory made by hand; `held` names the runs that a process holds."""

    def __init__(self, folder):
        self.folder, self.held = folder, contextlib.ExitStack()

    def run(
        self, name, *files, stage=None, reason="", seeds=(0, 1), held=False, trained=0, evaluated=0
    ):
        """A run with these files; each is a second newer than the one before."""
        folder = self.folder / f"{name}-1a2b3c4d"
        about = {
            "id": folder.name,
            "label": name,
            "config": {"run": {"seeds": list(seeds)}},
            "seeds": seeds,
            "corpus": record.CorpusRecord(source="stdlib", hash="0" * 64),
        }
        moment = time.time() - 60
        for file in files:
            folder.mkdir(parents=True, exist_ok=True)
            text = records.encode(record.Begun(**about))
            if file == "result.json":
                train = record.Training(length=8, steps=12, loss=(2.0, 2.5), valid=(3.0, 3.5))
                seconds = record.Seconds(train=50.0, evaluate=25.0, total=75.0)
                result = record.Result(**about, rows=(), train=train, seconds=seconds)
                text = records.encode(result)
            if file == "log.txt":
                text = "Traceback\n"
            if file == "metrics.jsonl":
                metrics = [
                    trained_line(seeds, step, [3.0, None])
                    | ({"valid": [4.0, 5.0]} if step == 6 else {})
                    for step in range(2, trained + 1, 2)
                ]
                metrics += [{"evaluated": evaluated, "of": 8}] if evaluated else []
                text = "".join(map(encode, metrics))
            (folder / file).write_text(text)
            moment += 1
            os.utime(folder / file, (moment, moment))
        if stage:
            records.put_state(folder, stage, reason)
        if held:
            self.held.enter_context(locks.locked(folder))
        return folder

    def states(self):
        found = {run.label: run for run in status.standings(self.folder)}
        assert all(run.id == f"{run.label}-1a2b3c4d" for run in found.values())
        return found


@pytest.fixture
def work(tmp_path):
    work = Work(tmp_path / "runs")
    with work.held:
        yield work


FAILED = {"stage": Stage.FAILED, "reason": "ArithmeticError: this hook fails"}
STOPPED = {"stage": Stage.STOPPED, "reason": "by SIGTERM"}


def test_a_finished_run_has_its_time_and_its_loss(work):
    work.run("rope", "queued.json", "log.txt", "config.json", "metrics.jsonl", "result.json")
    run = work.states()["rope"]
    assert (run.state, run.done, run.seeds) == ("finished", "", 2)
    assert (run.loss, run.seconds, run.reason) == (2.25, 75.0, "")


def test_a_run_at_work_says_how_far_it_is_and_for_how_long_it_has_been_silent(work):
    begun = ("queued.json", "log.txt", "config.json", "metrics.jsonl")
    work.run("rope", *begun, trained=6, held=True)
    work.run("t5", *begun, trained=12, evaluated=2, held=True)
    work.run("nope", *begun, held=True)
    work.run("alibi", *begun, trained=6, seeds=(0,), held=True)
    found = work.states()
    assert {run.state for run in found.values()} == {"running"}
    assert found["rope"].done.startswith("step 6/12, loss 4.33 bits, validation 4.50 bits, ")
    assert found["rope"].done.endswith(", 56 s ago") and found["rope"].loss == 3.0
    assert found["t5"].done == "evaluating 25%, 56 s ago"
    assert found["nope"].done == "compiling" and found["nope"].loss is None
    assert found["rope"].seconds < 5  # since the folder is held


def test_what_ended_early_says_why(work):
    begun = ("queued.json", "config.json", "metrics.jsonl", "log.txt")
    work.run("rope", *begun, **FAILED, trained=4)
    work.run("t5", *begun, **STOPPED, trained=4)
    work.run("nope", *begun, stage=Stage.RUNNING, trained=4)
    work.run("alibi", "config.json", "metrics.jsonl", trained=4)  # before there was a state.json
    for name, file in (("learned", "config.json"), ("shaw", "state.json")):
        (work.run(name, "config.json") / file).write_text("{")
    found = {run.id.partition("-")[0]: run for run in status.standings(work.folder)}
    stopped = dict.fromkeys(("t5", "nope", "alibi", "shaw"), "stopped")
    states = {name: run.state for name, run in found.items()}
    assert states == stopped | {"rope": "failed", "learned": "damaged"}
    assert found["rope"].reason.startswith("ArithmeticError: this hook fails (")
    assert found["t5"].reason == "by SIGTERM" and found["t5"].done.startswith("step 4/12, ")
    assert found["nope"].reason == "without a last word" and found["alibi"].reason == ""
    assert "config.json is damaged" in found["learned"].reason


def test_a_table_of_runs_is_printed_with_reasons_below(work, capsys):
    files = ("queued.json", "config.json", "metrics.jsonl", "log.txt")
    work.run("rope[::2]", *files, **FAILED, trained=4)
    work.run("t5", *files, "result.json", trained=12)
    assert command.show(work.folder) == 0
    out = capsys.readouterr().out.splitlines()
    (row,) = (line for line in out if line.startswith("t5-"))
    assert row.split() == "t5-1a2b3c4d t5 finished 2 3.246 3.250 1 min 15 s".split()
    assert any(line.split()[1:2] == ["rope[::2]"] and "step 4/12" in line for line in out)
    assert "2 runs: 1 failed, 1 finished" in out
    reason = "failed: rope[::2]: ArithmeticError: this hook fails ("
    assert any(line.startswith(reason) for line in out)


def test_a_folder_without_runs_is_a_mistake_told_in_one_line(lab, tmp_path):
    for folder, words in ((tmp_path, ""), (tmp_path / "none", "there is no such folder")):
        done = lab.start("status", f"--workdir={folder}").wait()
        assert done.code == 2 and done.out == "" and len(done.err.splitlines()) == 1
        assert done.err.startswith("pe-jax status: no runs in ") and words in done.err
    assert not (tmp_path / "none").exists()


def test_the_state_of_a_sweep_that_goes_on_meanwhile(lab, tmp_path):
    values = {"data.source": lab.text, "train.steps": 2000}
    flags = ["--config=configs/base.py:pe=nope", "--also=alibi", *tiny(**values), "--jobs=1"]
    running = lab.start("sweep", *flags, f"--workdir={tmp_path}")
    first, second = (run_of(spec, **values).id for spec in ("nope", "alibi"))
    running.until(lambda: lines(tmp_path / first))
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / second).rglob("*")}
    told = lab.start("status", f"--workdir={tmp_path}").wait()
    assert told.code == 0 and "2 runs: 1 not begun, 1 running" in told.out, told.out + told.err
    row = next(line for line in told.out.splitlines() if first in line)
    assert "running" in row and "/2000, " in row and " s ago" in row
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / second).rglob("*")} == before
    stopped = running.stop(signal.SIGTERM)
    assert stopped.code == 75 and "the same command goes on" in stopped.err, stopped.err
    assert not locks.is_locked(tmp_path / first)
    assert not (tmp_path / first / "result.json").exists()
    assert "stopped by SIGTERM, saved" in (tmp_path / first / "log.txt").read_text()
    told = lab.start("status", f"--workdir={tmp_path}").wait()
    assert "2 runs: 1 not begun, 1 stopped" in told.out, told.out
    assert told.out.splitlines()[-1] == "stopped: nope: by SIGTERM"


def test_a_process_that_died_without_a_word_is_told_by_its_signal_or_its_last_line(work):
    folder = work.run("rope", "config.json", "log.txt", stage=Stage.RUNNING)
    assert queue._reason(folder, Exit(-9)) == "killed by signal 9"
    assert work.states()["rope"].state == "failed"
    assert work.states()["rope"].reason.startswith("killed by signal 9 (")
    (folder / "state.json").unlink()
    assert queue._reason(folder, Exit(2)) == "Traceback"
    (folder / "state.json").unlink()
    assert queue._reason(folder, Exit(0)) == queue.OTHERWISE
    records.put_state(folder, Stage.STOPPED, "by SIGTERM")
    assert queue._reason(folder, Exit(75)) == "stopped by SIGTERM"


class Display:
    """Keeps what is shown."""

    def __init__(self):
        self.rows = []

    def update(self, name, done, state, total):
        self.rows.append(state)

    def show(self, name, line, otherwise):
        self.rows.append(f"{name} {otherwise}")

    def remove(self, name):
        pass


def item(folder, id="a"):
    run = dataclasses.replace(run_of(), id=id, label=id)
    return queue.Item(run, Folder(folder), run.config)


def test_a_run_is_tried_again_three_times_also_where_its_lock_outlives_its_worker(work):
    """On Ray: the process ends a second after the worker that is reported as lost."""
    folder = work.run("rope", "log.txt", stage=Stage.RUNNING, held=True)
    at_work = queue._Sweep({"a": item(folder)}, 1, Display(), "", {})
    at_work.waiting.clear()
    with messages() as said:
        for _ in range(3):
            at_work._end("a", Exit(-9, "lost with its worker"))
            assert at_work.waiting.pop() == "a" and not at_work.waiting
    assert said == ["a: lost with its worker; it goes on"] * 3
    at_work._end("a", Exit(-9, "lost with its worker"))
    assert at_work.failed == {"a": "lost with its worker"} and not at_work.waiting
    at_work._end("a", Exit(Held.exit_code))  # another process was the first to take it
    assert at_work.waiting == ["a"]
