"""Records: identities, files that are whole or not there, metrics."""

import dataclasses
import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import trained_line
from scored import scored

from pe_jax import record
from pe_jax.errors import Refused
from pe_jax.record import Result
from pe_jax.runs import environment
from pe_jax.storage import atomic, jsonl, records
from pe_jax.storage.hashes import canonical, sha256
from pe_jax.storage.jsonl import History


def test_what_diverged_are_seeds_also_where_places_are_scored():
    def gone(replica, at):
        found = {"value": None, "reason": record.Reason.DIVERGED, "at": at}
        return record.Row(replica=replica, metric="same_targets", length=64, **found)

    of_seeds = scored("rope", [{64: 2.0}] * 3, more=[gone(record.Replica("seed", 2), 37)])
    assert of_seeds.diverged == {2: 37}
    places = [gone(record.Replica("place", i), 37) for i in range(4)]
    of_places = dataclasses.replace(scored("rope", [{64: 2.0}], more=places), seeds=(5000,))
    assert of_places.diverged == {5000: 37}


def test_equal_configs_give_equal_text():
    a = {"b": (1, 2), "a": {"y": None, "x": 1.5}}
    b = {"a": {"x": 1.5, "y": None}, "b": [1, 2]}
    assert canonical(a) == canonical(b) == '{"a":{"x":1.5,"y":null},"b":[1,2]}'


def test_a_number_that_json_lacks_is_refused():
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical({"value": float("nan")})


def written_result(**parts):
    """The JSON of a result, with its digest."""
    whole = {
        "version": record.VERSION,
        "id": "rope-1a2b3c4d",
        "label": "rope",
        "config": {"pe": {"spec": "rope"}},
        "seeds": [0, 1],
        "corpus": {"source": "stdlib", "hash": "00"},
        "train": {"length": 64, "steps": 350, "loss": [2.5, None]},
        "rows": [
            {
                "replica": {"kind": "seed", "number": seed},
                "metric": "same_targets",
                "length": 64,
                "value": value,
            }
            for seed, value in enumerate((2.5, None))
        ],
        "target_bytes": {"same_targets": {"64": 512}},
        "parent": None,
    } | parts
    return whole | {"digest": sha256(canonical(whole))}


def test_every_published_result_is_read_and_comes_back():
    paths = sorted((Path(__file__).parents[2] / "results").glob("*/runs.jsonl"))
    assert paths
    for path in paths:
        for line in path.read_text("utf-8").splitlines():
            result = records.parse(Result, line)
            assert records.parse(Result, records.encode(result)) == result


def test_a_part_that_is_missing_or_wrong_is_named():
    lacking = written_result()
    del lacking["rows"], lacking["label"]
    row = {"seed": 0, "metric": "same_targets", "length": "long", "value": 2.5}
    odd = {"seed": 0, "metric": "same_targets", "length": 64, "reason": "the moon"}
    for data, message in (
        (lacking, "it lacks required field"),
        ([1], "not a JSON object"),
        (written_result(rows=[row]), r"Expected `int`.*rows\[0\].length"),
        (written_result(rows=[odd]), r"the moon.*rows\[0\].reason"),
        (written_result(rows=[1]), r"rows\[0\]"),
        (written_result(corpus={}), "it lacks required field `source`"),
        (written_result(version=record.VERSION - 1), "of version 5 of the schema.* version 6"),
    ):
        with pytest.raises(ValueError, match=message):
            records.parse(Result, json.dumps(data))


def test_a_value_changed_by_hand_is_told(tmp_path):
    path = records.write(
        tmp_path / "result.json", records.parse(Result, json.dumps(written_result()))
    )
    text = path.read_text()
    assert records.read(Result, path) is not None
    for old, new in (("2.5", "2.4"), ('"label":"rope"', '"label":"pope"'), ('"digest":', '"d":')):
        assert old in text
        path.write_text(text.replace(old, new, 1))
        with pytest.raises(Refused, match="result.json is damaged .it was changed after it was wr"):
            records.read(Result, path)
    path.write_text(json.dumps(json.loads(text), indent=1))  # the same in other words
    assert records.read(Result, path) is not None


def test_what_a_later_release_has_written_is_no_damage(tmp_path):
    path = tmp_path / "result.json"
    path.write_text(json.dumps(written_result(version=99)))
    with pytest.raises(Refused, match="version 99 .*the release that wrote it") as told:
        records.read(Result, path)
    assert "delete" not in str(told.value)


def test_write_makes_the_folders_and_replaces_the_file(tmp_path):
    path = tmp_path / "a/b/config.json"
    atomic.write(path, "é")
    assert path.read_bytes() == "é".encode()
    atomic.write(path, "second")
    assert path.read_text() == "second" and os.listdir(path.parent) == ["config.json"]
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("call", ("fsync", "replace"))
def test_a_write_that_fails_leaves_what_was_there(tmp_path, monkeypatch, call):
    path = tmp_path / "config.json"
    atomic.write(path, "first")

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match="No space left"):
        atomic.write(path, "second")
    assert path.read_text() == "first" and os.listdir(tmp_path) == ["config.json"]


def fill(metrics):
    for seeds in ([0, 1], [2]):
        for step in (2, 4, 6):
            metrics.add(**trained_line(seeds, step, [float(step)] * len(seeds)))
    metrics.add(evaluated=1, of=2)


def test_metrics_are_lines_that_the_watcher_sees_too(tmp_path):
    seen = []
    metrics = History(tmp_path / "metrics.jsonl", seen.append)
    fill(metrics)
    assert jsonl.read_lines(metrics.path) == seen and len(seen) == 7
    last = json.loads(metrics.path.read_text().splitlines()[-1])
    assert last.pop("digest") and last == {"evaluated": 1, "of": 2}


def test_rewind_forgets_the_later_steps_of_these_seeds_and_the_evaluation(tmp_path):
    metrics = History(tmp_path / "metrics.jsonl")
    metrics.rewind([0, 1], 0)
    assert metrics.path.read_text() == ""
    fill(metrics)
    metrics.rewind([0, 1], 2)
    left = [(line["seeds"], line["step"]) for line in jsonl.read_lines(metrics.path)]
    assert left == [([0, 1], 2), ([2], 2), ([2], 4), ([2], 6)]
    metrics.rewind([2, 3], 0)  # the program of seed 2 alone never got a checkpoint
    assert [line["seeds"] for line in jsonl.read_lines(metrics.path)] == [[0, 1]]


def test_a_line_that_a_kill_cut_off_is_left_out_and_overwritten(tmp_path):
    metrics = History(tmp_path / "metrics.jsonl")
    fill(metrics)
    whole = jsonl.read_lines(metrics.path)
    with open(metrics.path, "a") as file:
        file.write('{"seeds": [0')
    assert jsonl.read_lines(metrics.path) == whole
    metrics.rewind([2], 6)
    line = trained_line([2], 8, [8.0])
    metrics.add(**line)
    assert jsonl.read_lines(metrics.path) == [*whole[:-1], line]
    assert jsonl.read_lines(tmp_path / "none.jsonl") == []


def test_a_line_that_was_changed_is_left_out(tmp_path):
    metrics = History(tmp_path / "metrics.jsonl")
    fill(metrics)
    whole = jsonl.read_lines(metrics.path)
    changed = metrics.path.read_text().replace('"loss": [4.0]', '"loss": [3.0]')
    metrics.path.write_text(changed + "[" * 10**5 + "\n")
    assert jsonl.read_lines(metrics.path) == [*whole[:4], *whole[5:]]


def test_a_state_is_read_from_its_file_or_is_none(tmp_path):
    assert records.state_of(tmp_path) is None
    records.put_state(tmp_path, record.Stage.FAILED, "no text")
    state = records.state_of(tmp_path)
    assert (state.stage, state.reason) == (record.Stage.FAILED, "no text")
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", state.since)
    for damaged in ('{"stage": "lost", "since": ""}', "[" * 10**5 + "]" * 10**5):
        (tmp_path / "state.json").write_text(damaged)
        assert records.state_of(tmp_path) is None


def test_the_environment_says_what_decides_the_bits():
    import jax

    with jax.default_matmul_precision("highest"):
        assert environment.process().device.precision == "highest"
    found = environment.process()
    assert found.versions["jax"] == jax.__version__
    assert found.versions["python"] == ".".join(map(str, sys.version_info[:3]))
    assert "not installed" not in found.versions["flax"]
    assert found.device.precision == ""
    assert found.device.platform == jax.devices()[0].platform
    assert found.device.threads >= 1 and found.device.kind
    assert found.device.xla_flags == os.environ.get("XLA_FLAGS", "")
    assert environment._version("no-such-package") == "not installed"


def test_the_threads_are_those_that_nproc_leaves(monkeypatch):
    monkeypatch.setenv("NPROC", "3")
    assert environment.process().device.threads == 3
    for wrong in ("abc", "-1", "2.5"):
        monkeypatch.setenv("NPROC", wrong)
        with pytest.raises(Refused, match=f"NPROC is a number of threads.* got '{wrong}'"):
            environment.process()


def repository(folder, package="pe_jax"):
    """A git repository with one commit, which holds a package of that name. (commit, package)"""

    def git(*command):
        name = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
        done = subprocess.run(
            ["git", *name, *command], cwd=folder, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    for path in (package, "results", "experiments"):
        (folder / path).mkdir(parents=True)
        (folder / path / "__init__.py").write_text("x = 1\n")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "one")
    return git("rev-parse", "HEAD"), folder / package


def test_the_commit_says_whether_the_code_differs_from_it(tmp_path):
    sha, package = repository(tmp_path)
    (tmp_path / "results/__init__.py").write_text("y\n")  # results are not code
    assert environment.commit(package) == sha
    dirty = set()
    for path in ("pe_jax/__init__.py", "pe_jax/new.py", "experiments/__init__.py"):
        (tmp_path / path).write_text("x = 2\n")
        dirty.add(environment.commit(package))
    pattern = sha + r" \(with uncommitted changes, files [0-9a-f]{8}\)"
    assert len(dirty) >= 2 and all(re.fullmatch(pattern, found) for found in dirty), dirty


def test_without_a_repository_of_the_package_the_commit_is_unknown(tmp_path, monkeypatch):
    _, package = repository(tmp_path)
    around = tmp_path / "environment/pe_jax"  # inside a repository that is not ours
    around.mkdir(parents=True)
    (around / "__init__.py").write_text("")
    unknown = r"unknown \(files [0-9a-f]{8}\)"
    assert re.fullmatch(unknown, environment.commit(around))
    (tmp_path / ".git/index").write_bytes(b"not an index")
    assert re.fullmatch(unknown, environment.commit(package))

    def missing(*arguments, **options):
        raise FileNotFoundError("git")

    monkeypatch.setattr(subprocess, "run", missing)
    assert re.fullmatch(unknown, environment.commit(package))


def test_where_a_system_does_not_tell_of_cores_and_memory_all_cores_count(monkeypatch):
    monkeypatch.delenv("NPROC", raising=False)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setitem(sys.modules, "resource", None)
    monkeypatch.setattr(environment, "STATUS", Path("none"))
    assert environment.cores() == environment.threads() == os.cpu_count()
    assert environment.peak_memory_mib() is None


@pytest.mark.skipif(not environment.STATUS.exists(), reason="needs /proc")
def test_memory_is_the_peak_of_this_process_and_not_of_its_parent():
    block = bytearray(os.urandom(1)) * (400 << 20)
    assert len(block) / 2**20 < environment.peak_memory_mib() < 2**20
    code = "from pe_jax.runs import environment; print(environment.peak_memory_mib())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 10 < float(done.stdout) < len(block) / 2**20


def test_the_remedy_of_a_damaged_record_is_the_run_and_not_the_command(tmp_path):
    (tmp_path / "result.json").write_text("{")
    with pytest.raises(Refused, match="delete it and run that run again"):
        records.read(record.Result, tmp_path / "result.json")
