"""Runs of before still load: their ids, their checkpoints, and results of older versions.

tests/golden/run_version_1.tar.gz has a finished run of version 1 of the records, and its text:
`learned[-1:]+t5(buckets=8)`, 6 steps of two seeds.
"""

import dataclasses
import json
import tarfile
from pathlib import Path

import jax
import pytest

from pe_jax import record
from pe_jax.runs import environment, folder
from pe_jax.runs.execute import execute
from pe_jax.runs.run import Run
from pe_jax.runs.trained import Trained
from pe_jax.storage import records
from pe_jax.storage.arrays import digests
from pe_jax.storage.checkpoints import Checkpoints
from pe_jax.storage.hashes import canonical, sha256
from pe_jax.training.step import init

# the tasks that Orbax leaves when a file is missing complain as they are collected
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

ROOT = Path(__file__).resolve().parents[2]
ID = "learned_-1_+t5_buckets_8-d9d0be10"


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """The work directory of the old run; its text is where its config says."""
    with tarfile.open(ROOT / "tests/golden/run_version_1.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs"


def old(runs):
    return json.loads((runs / ID / "result.json").read_text())


def test_its_folder_is_found_though_ids_are_made_otherwise_now(runs):
    begun = records.read(record.Begun, runs / ID / "config.json")
    run = Run.of(begun.config)
    assert run.id != begun.id == ID and folder.find(run, runs) == runs / ID
    other = Run.of(begun.config | {"train": begun.config["train"] | {"steps": 7}})
    assert folder.find(other, runs) == runs / other.id
    assert begun.seeds == (0, 1) and begun.device.platform == "cpu" and begun.parent is None


def test_the_folders_of_many_runs_are_found_by_reading_each_config_once(runs, monkeypatch):
    config = records.read(record.Begun, runs / ID / "config.json").config
    rates = [{"rate": config["train"]["rate"]}, {"rate": 1e-4}, {"rate": 2e-4}]
    many = [Run.of(config | {"train": config["train"] | rate}) for rate in rates]
    read, paths = records.read, []
    monkeypatch.setattr(records, "read", lambda kind, path: paths.append(path) or read(kind, path))
    names = [ID, many[1].id, many[2].id]
    assert list(folder.find_all(many, runs).values()) == [runs / name for name in names]
    assert paths == [runs / ID / "config.json"]
    assert many[0].parameters() is many[2].parameters()  # their model is traced once


def test_it_takes_another_seed(runs):
    """Only the new seed is trained, and what was scored before is not scored again."""
    before = records.read(record.Result, runs / ID / "result.json")
    run_section = before.config["run"] | {"seeds": [0, 1, 2]}
    result = execute(Run.of(before.config | {"run": run_section}), runs)
    assert result.id == ID and result.seeds == (0, 1, 2) and set(result.digests) == {"0-1", "2"}
    assert tuple(row for row in result.rows if row.seed < 2) == before.rows
    assert before.scored_by == (record.Process(),)
    assert result.scored_by == (record.Process(), environment.process())


def test_its_result_reads_as_a_record(runs):
    result, data = records.read(record.Result, runs / ID / "result.json"), old(runs)
    assert [records.plain(row)["value"] for row in result.rows] == [
        r["value"] for r in data["rows"]
    ]
    assert [row.why for row in result.rows] == [r.get("reason", "") for r in data["rows"]]
    beyond = {(row.length, row.reason, row.at) for row in result.rows if row.value is None}
    assert beyond == {(16, record.Reason.BEYOND_POSITIONS, 8)}
    for part in ("targets", "digests", "label", "commit"):
        assert records.plain(result)[part] == data[part], part
    assert records.plain(result.corpus) == data["corpus"] | {"overlap": {}}
    assert result.target_bytes["same_targets"] == {8: 64, 16: 64}
    assert result.version == record.VERSION
    assert records.decode(record.Result, json.loads(records.encode(result))) == result


def test_its_checkpoint_is_the_one_that_was_written(runs):
    trained = Trained.of(str(runs))
    assert (trained.folder.name, trained.seed, trained.step) == (ID, 0, 6)
    run = trained.run
    like = jax.eval_shape(lambda: init(run.lm, run.encodings, run.train, (0, 1)))
    step, state, _ = Checkpoints(runs / ID / "checkpoints/0-1").restore(like, print)
    assert step == 6
    assert sha256(canonical(digests(state))) == old(runs)["digests"]["0-1"]


def test_it_is_not_run_again(runs):
    before = {path: path.stat().st_mtime_ns for path in runs.rglob("*")}
    result = execute(Run.of(old(runs)["config"]), "runs")
    assert result.id == ID and result == records.read(record.Result, runs / ID / "result.json")
    assert {path: path.stat().st_mtime_ns for path in runs.rglob("*")} == before


def test_its_evaluation_gives_the_same_values_anew(runs):
    """Without its result the run goes on from its last checkpoint, with nothing left to train."""
    before = records.read(record.Result, runs / ID / "result.json")
    (runs / ID / "result.json").unlink()
    again = execute(Run.of(before.config), runs)
    assert again.digests == before.digests and again.targets == before.targets
    for new, row in zip(again.rows, before.rows, strict=True):
        assert row.value is None or new.value == pytest.approx(row.value, rel=1e-5)
        assert dataclasses.replace(new, value=row.value) == row
