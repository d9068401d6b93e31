"""One run, end to end: what it records, and that being cut off anywhere changes nothing."""

import dataclasses
import json
import math
import random
import shutil
import signal

import numpy as np
import pytest
from commands import damage, lines, result, run_of, the_run

from pe_jax import record
from pe_jax.configs import base, replay
from pe_jax.errors import Refused
from pe_jax.metric import TextMetric
from pe_jax.metrics import named
from pe_jax.record import Stage
from pe_jax.runs.execute import execute
from pe_jax.runs.run import Run
from pe_jax.storage import records

SPEC = "randomized+rope"
METRICS = ("same_targets", "nonoverlapping")
STEPS = list(range(2, 13, 2))


def start(lab, workdir, **values):
    return lab.run(workdir, SPEC, **values)


@pytest.fixture(scope="module")
def whole(tiny_run):
    """The folder of a run that nothing disturbed."""
    return the_run(tiny_run)


def assert_same(folder, whole):
    """The same parameters, optimizer, rows, curves and history, to the bit."""
    got, want = result(folder), result(whole)
    for part in ("id", "digests", "rows", "curves", "targets"):
        assert got[part] == want[part], part
    assert got["train"]["loss"] == want["train"]["loss"]
    history = [[(s["step"], s["loss"]) for s in lines(f) if "loss" in s] for f in (folder, whole)]
    assert history[0] == history[1]


def test_the_record_has_every_field(whole, lab):
    found = result(whole)
    config = found["config"]
    assert whole.name == found["id"] and found["label"] == SPEC
    assert config["train"]["length"] == 16 and config["eval"]["lengths"] == [16, 32]
    assert config["pe"]["spec"] == SPEC and config["run"]["seeds"] == found["seeds"] == [0, 1]
    assert found["targets"] == dict.fromkeys(METRICS, 256)
    assert found["parameters"] == {"total": 11312, "encoding": 0}
    train = found["train"]
    assert (train["length"], train["steps"], len(train["loss"])) == (16, 12, 2)
    assert train["tokens_per_second"] == pytest.approx(16 * 4 / train["ms_per_step"] * 1e3)
    seconds = found["seconds"]
    assert seconds["total"] == pytest.approx(seconds["train"] + seconds["evaluate"])
    assert min(seconds.values()) > 0 and found["peak_memory_mib"] > 50
    corpus = found["corpus"]
    assert corpus["source"] == lab.text and len(corpus["hash"]) == 64 and corpus["python"] is None
    assert corpus["documents"] == {"train": 10, "valid": 1, "test": 1}
    assert {"python", "jax", "flax", "numpy"} <= set(found["versions"])
    assert found["device"]["platform"] == "cpu" and found["device"]["threads"] >= 1
    assert found["commit"] and found["started"].startswith("20")
    assert f"--config=configs/base.py:pe={SPEC}" in found["command"]


def way(row):
    """The swap of a row or curve in JSON."""
    return row["way"]["swap"]


def test_rows_and_curves_are_every_seed_swap_metric_and_length(whole):
    rows = result(whole)["rows"]
    keys = [(r["replica"]["number"], way(r), r["metric"], r["length"]) for r in rows]
    wanted = {
        (s, w, m, E) for s in (0, 1) for w in ("", "window") for m in METRICS for E in (16, 32)
    }
    assert set(keys) == wanted and len(keys) == len(wanted)
    assert all(4 < row["value"] < 12 for row in rows)
    value = {key: row["value"] for key, row in zip(keys, rows, strict=True)}
    assert value[0, "", "same_targets", 16] != value[1, "", "same_targets", 16]
    for metric in METRICS:  # a window of the training length changes nothing at it
        assert value[0, "window", metric, 16] == pytest.approx(value[0, "", metric, 16], abs=1e-5)
    assert value[0, "window", "same_targets", 32] != value[0, "", "same_targets", 32]
    sizes, sums = result(whole)["document_bytes"], result(whole)["target_bytes"]
    for row in rows:  # nats by document sum up to the value
        assert sum(sizes[row["metric"]]) == sums[row["metric"]][str(row["length"])]
        bits = sum(row["documents"]) / math.log(2) / sum(sizes[row["metric"]])
        assert len(row["documents"]) == len(sizes[row["metric"]])
        assert bits == pytest.approx(row["value"], abs=1e-4)
    curves = result(whole)["curves"]  # at the longest length
    assert {(c["replica"]["number"], way(c), c["length"]) for c in curves} == {
        (s, w, 32) for s in (0, 1) for w in ("", "window")
    }
    for curve in curves:
        assert len(curve["position"]) == len(curve["value"])
        assert 1 <= min(curve["position"]) and max(curve["position"]) <= 32
        assert all(value is None or 0 < value < 20 for value in curve["value"])


def test_config_metrics_and_checkpoints_are_there(whole):
    about = json.loads((whole / "config.json").read_text())
    found = result(whole)
    assert all(about[part] == found[part] for part in about if part != "digest")
    trained = [line for line in lines(whole) if "loss" in line]
    assert [line["step"] for line in trained] == STEPS
    assert all(line["seeds"] == [0, 1] and line["of"] == 12 for line in trained)
    assert all(math.isfinite(loss) for line in trained for loss in line["loss"])
    assert trained[-1]["loss"] == found["train"]["loss"]
    assert lines(whole)[-1]["evaluated"] == lines(whole)[-1]["of"]
    kept = {path.name for path in (whole / "checkpoints/0-1").iterdir() if path.is_dir()}
    assert kept == {"10", "12"}
    assert not list(whole.glob(".*.json*"))
    assert standing(whole) == ("done", "")


def test_a_finished_run_is_not_run_again_and_a_record_replays(lab, whole):
    def state():
        return {p: p.stat().st_mtime_ns for p in whole.rglob("*") if p.is_file()}

    before = state()
    config = f"--config=configs/replay.py:{whole / 'result.json'}"
    done = lab.start("run", config, f"--workdir={whole.parent}").wait()
    assert done.code == 0 and "finished already" in done.err
    assert "same targets" in done.out and str(whole / "result.json") in done.out
    assert state() == before and len(list(whole.parent.iterdir())) == 1


def test_a_run_begun_on_other_text_is_refused_and_left_as_it_is(whole, tmp_path):
    folder = tmp_path / whole.name
    folder.mkdir()
    about = records.read(record.Begun, whole / "config.json")
    other = dataclasses.replace(about.corpus, hash="0" * 64)
    records.write(folder / "config.json", dataclasses.replace(about, corpus=other))
    run = Run.of(about.config)
    with pytest.raises(Refused, match="was begun on other text"):
        execute(run, tmp_path)
    assert not (folder / "state.json").exists()


def test_a_run_that_fails_says_why_and_a_full_disk_hides_no_error(whole, tmp_path, monkeypatch):
    run = Run.of(json.loads((whole / "config.json").read_text())["config"])
    folder = tmp_path / whole.name

    def fail(*arguments, **more):
        raise ArithmeticError("this model fails")

    monkeypatch.setattr("pe_jax.training.loop.train", fail)
    with pytest.raises(ArithmeticError, match="this model fails"):
        execute(run, tmp_path)
    assert standing(folder) == ("failed", "ArithmeticError: this model fails")
    put = records.put_state

    def full(folder, stage, reason=""):
        if stage is not Stage.RUNNING:
            raise OSError("no space left")
        put(folder, stage, reason)

    monkeypatch.setattr(records, "put_state", full)
    with pytest.raises(ArithmeticError, match="this model fails"):
        execute(run, tmp_path)
    assert standing(folder) == ("running", "")


def test_a_folder_replays_by_the_first_record_that_is_there(tmp_path):
    for name in ("queued.json", "config.json", "result.json"):
        (tmp_path / name).write_text(json.dumps({"config": {"from": name}}))
        assert replay.get_config(str(tmp_path)).to_dict() == {"from": name}


@pytest.mark.parametrize("name", ("", "config.json", "result.json"))
def test_a_record_gives_a_config_whose_fields_can_be_set(whole, name):
    config = replay.get_config(str(whole / name))
    config.update_from_flattened_dict({"run.seeds": (0, 1, 2), "eval.last": 2})
    run = Run.of(config.to_dict())
    assert (run.id, run.run.seeds, run.eval.last) == (whole.name, (0, 1, 2), 2)


def test_equal_configs_have_equal_ids_and_different_ones_do_not():
    same = {"train.rate": 9e-3, "run.seeds": (0, 1, 2), "eval.lengths": (16,), "eval.targets": 512}
    same |= {"run.mesh": "data:2", "train.remat": True, "train.scan": True, "log.valid_every": 5}
    assert {run_of(SPEC, **{name: value}).id for name, value in same.items()} == {run_of(SPEC).id}
    changes = {"train.rate": 1e-3, "train.steps": 7, "data.source": "files:x", "lm.mlp": 20}
    ids = {run_of(SPEC, **{name: value}).id for name, value in changes.items()}
    ids |= {run_of("rope+randomized").id, run_of("randomized+rope(base=5.0)").id, run_of(SPEC).id}
    assert len(ids) == len(changes) + 3


def test_a_field_given_in_the_spec_or_as_an_override_is_one_run():
    spec = run_of("rope(base=5.0)")
    config = base.get_config("pe=rope(base=5.0)")
    assert config.pe.rope.base == 5.0 and spec.label == "rope(base=5.0)"
    assert spec.encodings == run_of("rope", **{"pe.rope.base": 5.0}).encodings
    assert run_of("rope", **{"pe.rope.base": 5.0}).label == spec.label


def test_a_config_in_part_is_the_whole_one():
    assert Run.of({"pe": "rope"}).id == Run.of(base.get_config("pe=rope").to_dict()).id


def test_a_changed_file_of_ones_own_is_another_run(tmp_path):
    path = tmp_path / "mine.py"
    source = "import dataclasses\nfrom pe_jax.encodings.rope import RoPE\n\n\n"
    source += "@dataclasses.dataclass(frozen=True)\nclass Mine(RoPE):\n    pass\n"

    def identified(text):
        path.write_text(text)
        return run_of(f"{path}:Mine").id

    first = identified(source)
    assert identified(source) == first
    assert identified(source + "# changed\n") != first


def test_an_id_is_readable():
    for spec, name in {
        "rope": "rope",
        "randomized+rope": "randomized+rope",
        "learned(clip=True)": "learned_clip_True",
        "rope(base=500000.0)[::2]": "rope_base_500000.0_2",
    }.items():
        stem, dash, code = run_of(spec).id.rpartition("-")
        assert stem == name and len(code) == 8 and int(code, 16) >= 0


def trained(folder, step):
    return lambda: any(line.get("step", 0) >= step for line in lines(folder))


def evaluating(folder):
    return lambda: any("evaluated" in line for line in lines(folder))


def saving(folder):
    """While Orbax writes a step after the second call to a temporary name."""

    def is_saving():
        found = (folder / "checkpoints/0-1").glob("*.orbax-checkpoint-tmp*")
        return any(not path.name.startswith(("2.", "4.")) for path in found)

    return is_saving


def test_a_run_killed_in_saving_training_and_evaluation_ends_the_same(lab, whole, tmp_path):
    """Though the newest checkpoint was damaged meanwhile."""
    folder = tmp_path / whole.name

    def killed(moment):
        running = start(lab, tmp_path).until(moment).stop(signal.SIGKILL)
        assert running.code == -signal.SIGKILL and not (folder / "result.json").exists()
        assert standing(folder) == ("running", "")
        return running.err

    killed(saving(folder))
    assert "going on from step" in killed(trained(folder, 10))
    step = newest(folder)
    damage(folder / f"checkpoints/0-1/{step}")
    said = killed(evaluating(folder))
    assert f"the checkpoint of step {step} in " in said and "is damaged or gone" in said
    assert f"going on from step {step - 2} of 12" in said
    assert (folder / f"checkpoints/0-1/corrupt-{step}").is_dir()
    resumed = start(lab, tmp_path).wait()
    assert resumed.code == 0 and "going on from step 12 of 12" in resumed.err
    assert_same(folder, whole)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_a_run_killed_at_a_random_moment_ends_the_same(lab, whole, tmp_path, seed):
    folder = tmp_path / whole.name
    running = start(lab, tmp_path).until(folder.exists)
    running.process.join(random.Random(seed).uniform(0, 2))
    running.stop(signal.SIGKILL)
    resumed = start(lab, tmp_path).wait()
    assert resumed.code == 0, resumed.err
    assert_same(folder, whole)


@pytest.fixture(scope="module")
def full(lab, whole):
    """The folder of a run whose first checkpoint found the disk full, its state, what it said."""
    stopped = start(lab, lab.folder / "cut", largest=20_000).wait()
    folder = lab.folder / "cut" / whole.name
    assert not (folder / "result.json").exists() and not list(folder.glob(".*.json*"))
    return folder, standing(folder), stopped


@pytest.fixture(scope="module")
def interrupted(lab, full):
    """The same folder after SIGTERM stopped the run in its first steps, with what it said."""
    folder = full[0]
    running = start(lab, folder.parent, **{"log.checkpoint_seconds": 1e6})
    return folder, running.until(lambda: standing(folder)[0] == "running").stop(signal.SIGTERM)


def newest(folder):
    return max(int(p.name) for p in (folder / "checkpoints/0-1").iterdir() if p.name.isdigit())


def standing(folder):
    """(stage, reason) of the run's state.json."""
    found = json.loads((folder / "state.json").read_text())
    return found["stage"], found["reason"]


def test_a_full_disk_is_one_line(full):
    _, (stage, reason), stopped = full
    last = stopped.err.splitlines()[-1]
    assert stopped.code == 2, stopped.err
    assert last.startswith("pe-jax run: cannot write the checkpoint of step 2 in ")
    assert "File too large" in last and "the same command goes on" in last
    assert stage == "failed" and last.endswith(reason)


def test_a_signal_saves_the_state_and_says_how_to_go_on(interrupted):
    folder, stopped = interrupted
    assert stopped.code == 75 and not (folder / "result.json").exists()
    assert "stopped by SIGTERM" in stopped.err and "the same command goes on" in stopped.err
    assert "Traceback" not in stopped.err
    assert standing(folder) == ("stopped", "by SIGTERM")
    assert newest(folder) == lines(folder)[-1]["step"] == 2


def test_an_interrupted_run_goes_on_to_the_same_end(interrupted, lab, whole, tmp_path):
    folder = tmp_path / interrupted[0].name
    shutil.copytree(interrupted[0], folder)
    running = start(lab, tmp_path).until(evaluating(folder)).stop(signal.SIGINT)
    assert running.code == 75 and "going on from step 2 of 12" in running.err
    assert "stopped by SIGINT" in running.err
    resumed = start(lab, tmp_path).wait()
    assert resumed.code == 0, resumed.err
    assert_same(folder, whole)


def test_damaged_records_are_made_anew(lab, whole, tmp_path):
    folder = shutil.copytree(whole, tmp_path / whole.name)
    known = result(folder)
    text = (folder / "result.json").read_text()[:-9]
    for name in ("result.json", "scores.jsonl", "state.json"):
        (folder / name).write_bytes(text.encode("latin-1"))
    history = (folder / "metrics.jsonl").read_bytes()
    (folder / "metrics.jsonl").write_bytes(history + b"5\n[1]\n{}\n\xff\n" + text.encode("latin-1"))
    config = f"--config=replay.py:{whole / 'config.json'}"
    done = lab.start("sweep", config, f"--workdir={tmp_path}").wait()
    assert done.code == 0, done.err
    again = result(folder)
    for part in ("rows", "curves", "train", "digests", "config"):
        assert again[part] == known[part], part
    (folder / "config.json").write_text("{")
    with pytest.raises(Refused, match="config.json is damaged .* delete it"):
        execute(run_of(SPEC, **{"data.source": lab.text, "eval.lengths": (16,)}), tmp_path)


OWN_METRICS = """
import dataclasses
from pe_jax.metrics import METRICS

numpy = dataclasses.replace(
    METRICS["nonoverlapping"], value=lambda nats, sizes: nats.mean(dtype="float32")
)
raises = dataclasses.replace(numpy, value=lambda nats, sizes: 1 / 0)
samples = METRICS["accuracy"]
"""


def test_a_mistake_in_a_metric_of_ones_own_is_told_before_training(tmp_path):
    own = tmp_path / "own.py"
    own.write_text(OWN_METRICS)
    (tmp_path / "broken.py").write_text("import nothing_of_this_name")
    assert run_of(**{"eval.metrics": (f"{own}:numpy",)}).id == run_of().id
    value = named(f"{own}:numpy", TextMetric).value(np.array([1.0]), np.array([1]))
    assert type(value) is float and value == 1
    for name, words in {
        "own.py:numpi": "no metric 'numpi'; it has numpy, raises, samples",
        "nowhere.py:first": "no file .*nowhere.py",
        "broken.py:first": "does not import: ModuleNotFoundError",
        "own.py:raises": r"raises.value\(nats, sizes\): ZeroDivisionError: .* by zero \(line \d\)$",
        "own.py:samples": "no metric of text",
    }.items():
        with pytest.raises(ValueError, match=words):
            run_of(**{"eval.metrics": (f"{tmp_path}/{name}",)})
