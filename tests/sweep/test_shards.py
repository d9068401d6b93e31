"""A sweep that several launchers share, and one whose processes are killed."""

import contextlib
import os
import signal
import types
from pathlib import Path

import pytest
from commands import STUDY, lines, result, run_of, tiny

from configs import base
from pe_jax import record
from pe_jax.commands import sweep as command
from pe_jax.record import Stage
from pe_jax.runs import rates
from pe_jax.storage import records
from pe_jax.storage.records import put_state
from pe_jax.sweep.queue import Shard, parse_shard

FEW = {"eval.lengths": (16,), "eval.metrics": ("same_targets",), "eval.swaps": ()}  # programs


def sweep(lab, workdir, *arguments):
    (lab.folder / "of_shards.py").write_text(STUDY)
    config = f"--config={lab.folder / 'of_shards.py'}"
    flags = tiny(**{"data.source": lab.text} | FEW)
    return lab.start("sweep", config, *flags, f"--workdir={workdir}", *arguments)


@pytest.fixture(scope="module")
def whole(lab):
    """The rows of the first run alone."""
    done = lab.run(lab.folder / "alone", "nope", **FEW).wait()
    assert done.code == 0, done.err
    return rows(lab.folder / "alone")


def rows(workdir):
    return {r["label"]: r["rows"] for r in map(result, workdir.glob("*-????????"))}


def test_the_shards_of_a_sweep_are_all_of_it_once():
    runs = list("abcdefgh")
    for n in (1, 2, 3, 8, 9):
        parts = [Shard(i, n).own(runs) for i in range(1, n + 1)]
        assert sorted(run for part in parts for run in part) == runs
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert parse_shard("2/8") == (2, 8)


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "/8"])
def test_what_is_no_shard_is_refused(text):
    with pytest.raises(ValueError, match=f"I from 1 to N, as 2/8, got {text!r}"):
        parse_shard(text)


def children(process):
    """The processes that a process has started and not yet seen the end of."""
    return Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()


@pytest.mark.skipif(not Path("/proc").exists(), reason="the system does not tell of children")
def test_two_shards_of_which_a_process_is_killed_thrice_give_all_rows_and_the_last_the_report(
    lab, whole, tmp_path
):
    workdir, out = tmp_path / "runs", tmp_path / "out"
    folder = workdir / run_of("nope", **{"data.source": lab.text}).id

    def starts():
        log = folder / "log.txt"
        return log.read_text().count("started by a sweep") if log.exists() else 0

    first = sweep(lab, workdir, "--jobs=1", "--shard=1/2", f"--out={out}")
    for i in range(3):
        first.until(lambda i=i: starts() == i + 1 and children(first.process))
        for child in children(first.process):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
    first.wait()
    assert first.err.count("killed by signal 9; it goes on") == 3, first.err
    assert first.code == 0 and "1 of 2 runs are still to be done by other shards" in first.err
    assert set(rows(workdir)) == {"nope"} and not out.exists()
    assert [line["step"] for line in lines(folder) if "loss" in line] == list(range(2, 13, 2))
    second = sweep(lab, workdir, "--jobs=1", "--shard=2/2", f"--out={out}").wait()
    assert second.code == 0 and "still to be done" not in second.err, second.err
    found = rows(workdir)
    assert set(found) == {"nope", "alibi"} and whole.items() <= found.items()
    assert (out / "table.md").exists()
    assert "--shard" not in result(next(workdir.glob("nope-*")))["command"]
    (folder / "result.json").unlink()
    put_state(folder, Stage.FAILED, "no memory")
    third = sweep(lab, workdir, "--jobs=1", "--shard=2/2", f"--out={tmp_path / 'third'}").wait()
    assert third.code == 0 and "still to be done" not in third.err, third.err
    assert "failed: nope: no memory" in (tmp_path / "third" / "table.md").read_text()


def test_nobody_waits_for_rates_that_have_all_diverged(monkeypatch, tmp_path):
    config = base.get_config("task=copy,pe=rope")
    config.train.rates = (1e-3, 1e-2)
    runs = rates.runs_of(config.to_dict())
    monkeypatch.setattr(command, "_WORKDIR", types.SimpleNamespace(value=str(tmp_path)))
    assert command._pending(runs)  # nothing has run
    about = {"corpus": record.CorpusRecord(source="copy", hash="0"), "seeds": runs[0].run.seeds}
    train = record.Training(length=64, steps=1, valid=(None,) * 3)
    for run in runs:
        done = record.Result(id=run.id, label="", config={}, rows=(), train=train, **about)
        records.write(tmp_path / run.id / "result.json", done)
    assert not command._pending(runs) and command._result(runs) is None
