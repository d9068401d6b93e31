"""Trackers: whatever happens to a run, every step is in them once, and they never stop it."""

import dataclasses
import json
import signal
import struct

import pytest
from commands import Lab, lines, run_of, the_run, tiny

from pe_jax import errors
from pe_jax.record import Begun, CorpusRecord, Result, Stage
from pe_jax.runs import execute, progress, trackers
from pe_jax.storage import atomic, jsonl, locks, records
from pe_jax.training.session import Interrupted

STEPS = list(range(2, 13, 2))
ABOUT = Begun(
    id="rope-1",
    label="rope",
    config={},
    seeds=(0,),
    corpus=CorpusRecord(source="files:text", hash="0"),
    commit="abc1234",
    started="2026-01-02T03:04:05+00:00",
)


class Seen(progress.Silent):
    """Notes what is said, and watches by a function."""

    def __init__(self, watch=lambda line: None):
        self.said, self.watch = [], watch

    def say(self, message):
        self.said.append(message)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    return Lab(tmp_path_factory.mktemp("lab"), tmp_path_factory.getbasetemp() / "programs")


def tensorboard(folder):
    """[(step, {name: value})] of the event files of a run, a point a scalar."""
    from tensorboardX.proto.event_pb2 import Event

    for path in sorted((folder / "tensorboard").iterdir()):
        data, place = path.read_bytes(), 0
        while place < len(data):
            (size,) = struct.unpack_from("<Q", data, place)
            event = Event.FromString(data[place + 12 : place + 12 + size])
            yield from ((event.step, {v.tag: v.simple_value}) for v in event.summary.value)
            place += 16 + size


def offline(folder):
    """The Weights & Biases records of a run that was offline: LevelDB's log format."""
    from wandb.proto.wandb_internal_pb2 import Record

    (path,) = folder.glob("wandb/offline-run-*/*.wandb")
    data, place, whole = path.read_bytes(), 7, b""
    while place + 7 <= len(data):
        if (left := 32768 - place % 32768) < 7:
            place += left
            continue
        _, size, kind = struct.unpack_from("<IHB", data, place)
        whole += data[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):  # a whole record, or the last part of one
            yield Record.FromString(whole)
            whole = b""


def wandb(folder):
    """[(step, {name: value})] of the history of a run that was offline."""
    for found in offline(folder):
        if found.WhichOneof("record_type") == "history":
            items = {"/".join(i.nested_key) or i.key: i.value_json for i in found.history.item}
            values = {name: json.loads(text) for name, text in items.items()}
            yield values["step"], values


def assert_whole(points, folder):
    """Every training step of metrics.jsonl, once, and the evaluation at the end."""
    points = list(points)
    for line in (line for line in lines(folder) if "loss" in line):
        for seed, loss in zip(line["seeds"], line["loss"], strict=True):
            name = f"loss/seed_{seed}"
            assert [v[name] for step, v in points if step == line["step"] and name in v] == [
                pytest.approx(loss)
            ]
    assert sorted(step for step, v in points if "loss/seed_0" in v) == STEPS
    rows = atomic.read(folder / "result.json")["rows"]
    cell = ("", "same_targets", 16)
    wanted = [r["value"] for r in rows if (r["way"]["swap"], r["metric"], r["length"]) == cell]
    (got,) = ((step, v["same_targets/16"]) for step, v in points if "same_targets/16" in v)
    assert got == (12, pytest.approx(sum(wanted) / 2))


def trained(folder, step):
    return lambda: any(line.get("step", 0) >= step for line in lines(folder))


@pytest.mark.slow
@pytest.mark.parametrize("name", trackers.TRACKERS)
def test_a_killed_run_has_every_step_once_when_it_goes_on(lab, tmp_path, name):
    pytest.importorskip(trackers.PACKAGES[name], reason=f"needs {trackers.PACKAGES[name]}")
    values = {f"log.{name}": True, "eval.lengths": (16,), "eval.swaps": ()}
    folder = tmp_path / run_of(**{"data.source": lab.text}).id
    lab.run(tmp_path, **values).until(trained(folder, 8)).stop(signal.SIGKILL)
    assert not locks.is_locked(folder)
    with open(folder / "metrics.jsonl", "a") as file:  # as if it had come further than it saved
        file.write(json.dumps(lines(folder)[-1] | {"step": 14}) + "\n")
    done = lab.run(tmp_path, **values).wait()
    assert done.code == 0 and "going on from step" in done.err, done.err
    assert f"log.{name}: {name if name == 'tensorboard' else 'wandb sync'} " in done.err
    assert_whole({"tensorboard": tensorboard, "wandb": wandb}[name](folder), folder)


def test_a_run_that_goes_on_keeps_its_wandb_id_and_one_begun_anew_has_another(tmp_path):
    pytest.importorskip("wandb", reason="needs wandb")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WANDB_MODE", "offline")
        for started in ("2026-01-02T03:04:05+00:00",) * 2 + ("2026-01-02T03:04:06+00:00",):
            tracker = trackers.wandb(tmp_path, dataclasses.replace(ABOUT, started=started))
            tracker.log(2, {"loss/seed_0": 1.0})
            tracker.close(False)
    folders = sorted(path.name.split("-", 3)[3] for path in tmp_path.glob("wandb/offline-run-*"))
    assert folders == ["rope-1-20260102T030405", "rope-1-20260102T030406"]


class Fake:
    """A tracker that notes what it gets, and fails at a step."""

    shown = "look at nothing"
    failing = None

    def __init__(self, folder, about):
        self.calls = Fake.calls = [("made", about.label)]

    def log(self, step, values):
        if step == Fake.failing:
            raise OSError("no space left")
        self.calls.append((step, values))

    def close(self, failed):
        self.calls.append(("closed", failed))


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setitem(trackers.TRACKERS, "wandb", Fake)
    monkeypatch.setitem(trackers.PACKAGES, "wandb", "json")
    monkeypatch.setattr(Fake, "failing", None)
    return Fake


def executed(lab, workdir, real=False, lengths=(16,), **options):
    values = {"data.source": lab.text, "eval.lengths": lengths, "eval.swaps": ()}
    tiny = run_of(**values | {"log.wandb": True, "log.tensorboard": real})
    return execute.execute(tiny, workdir, **options)


def test_a_tracker_that_fails_is_let_go_and_the_run_is_recorded(lab, tmp_path, fake, monkeypatch):
    monkeypatch.setattr(fake, "failing", 6)
    seen = Seen()
    done = executed(lab, tmp_path, view=seen)
    assert done == records.read(Result, the_run(tmp_path) / "result.json")
    assert [line["step"] for line in lines(the_run(tmp_path)) if "loss" in line] == STEPS
    assert [call[0] for call in fake.calls] == ["made", 2, 4]
    assert seen.said == [
        "log.wandb: look at nothing",
        "log.wandb failed and is let go (OSError: no space left)",
    ]


def test_a_run_whose_tracker_cannot_be_opened_has_failed(lab, tmp_path, fake, monkeypatch):
    def refuse(self, folder, about):
        raise errors.Refused("no account")

    monkeypatch.setattr(fake, "__init__", refuse)
    with pytest.raises(errors.Refused, match="no account"):
        executed(lab, tmp_path)
    ended = records.state_of(the_run(tmp_path))
    assert (ended.stage, ended.reason) == (Stage.FAILED, "no account")


def test_a_tracker_gets_a_line_after_the_record_has_it_and_is_closed_when_stopped(
    lab, tmp_path, fake
):
    """So that TensorBoard has each once, although the run went on from a step."""
    pytest.importorskip(trackers.PACKAGES["tensorboard"])

    def watch(line):
        assert lines(the_run(tmp_path))[-1] == line and fake.calls[-1][0] == line["step"]
        if line["step"] == 6:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted):
        executed(lab, tmp_path, real=True, view=Seen(watch))
    assert [call[0] for call in fake.calls] == ["made", 2, 4, 6, "closed"]
    assert fake.calls[-1] == ("closed", True)
    assert set(fake.calls[1][1]) >= {"loss/seed_0", "loss/seed_1", "grad_norm/seed_0", "rate"}
    executed(lab, tmp_path, real=True)
    assert_whole(tensorboard(the_run(tmp_path)), the_run(tmp_path))
    assert [call[0] for call in fake.calls] == ["made", *STEPS, 12, "closed"]
    assert fake.calls[-1] == ("closed", False)


def test_a_run_of_which_all_is_known_has_its_history(lab, tmp_path, fake):
    for lengths in ((16, 24, 32), (16, 32)):
        executed(lab, tmp_path, lengths=lengths)
        assert [call[0] for call in fake.calls] == ["made", *STEPS, 12, "closed"]


def test_a_line_that_comes_again_is_sent_once_and_a_loss_that_is_not_finite_is_left_out(
    tmp_path, fake
):
    line = {"seeds": [3], "step": 2, "of": 4, "loss": [None], "grad_norm": [1.0]}
    line |= dict.fromkeys(trackers.PER_RUN, 0.5)
    with trackers.Trackers(["wandb"], tmp_path, ABOUT, lambda said: None) as tracked:
        metrics = jsonl.History(tmp_path / "metrics.jsonl", tracked.watch)
        for step in (2, 4, 4):
            metrics.add(**line | {"step": step})
        metrics.add(**line | {"seeds": [4]})
    values = dict.fromkeys(trackers.PER_RUN, 0.5)
    assert fake.calls[1:-1] == [
        (2, values | {"grad_norm/seed_3": 1.0}),
        (4, values | {"grad_norm/seed_3": 1.0}),
        (2, values | {"grad_norm/seed_4": 1.0}),
    ]


@pytest.mark.parametrize("package", ("no_such_package", "a_folder"))
def test_a_missing_package_is_told_before_anything_is_written(lab, tmp_path, monkeypatch, package):
    (tmp_path / "a_folder").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(trackers.PACKAGES, "wandb", package)
    with pytest.raises(errors.Refused, match="--extra=wandb in the clone"):
        executed(lab, tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_an_account_that_is_missing_is_told_with_both_remedies(lab, tmp_path):
    pytest.importorskip("wandb", reason="needs wandb")
    flags = tiny(**{"data.source": lab.text, "log.wandb": True})
    nobody = {
        "WANDB_MODE": "online",
        "WANDB_API_KEY": "",
        "NETRC": str(tmp_path / "none"),
        "WANDB_BASE_URL": "http://127.0.0.1:9",
    }
    config = "--config=configs/base.py:pe=rope"
    done = lab.start("run", config, *flags, f"--workdir={tmp_path}", **nobody).wait()
    assert done.code == 2 and len(done.err.splitlines()) == 1, done.err
    assert "wandb login" in done.err and "WANDB_MODE=offline" in done.err
