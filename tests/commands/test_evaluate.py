"""A finished run scored in another way, by the command."""

import json
import shutil

import pytest
from commands import Lab, damage, result, the_run, write_text


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    return Lab(tmp_path_factory.mktemp("lab"), tmp_path_factory.getbasetemp() / "programs")


def start(lab, *arguments):
    return lab.start("evaluate", *arguments).wait()


@pytest.fixture(scope="module")
def workdir(lab):
    """The work directory of one finished run."""
    path = lab.folder / "runs"
    done = lab.run(path).wait()
    assert done.code == 0, done.err
    return path


def test_a_work_directory_of_one_run_is_as_good_as_its_folder(lab, workdir, tmp_path):
    out = tmp_path / "new/longer.json"
    done = start(lab, f"--workdir={workdir}", "--lengths=48", f"--out={out}")
    assert done.code == 0, done.err
    assert "48 (3x)" in done.out and done.out.splitlines()[-1] == str(out)
    found = json.loads(out.read_text())
    assert {row["length"] for row in found["rows"]} == {16, 48}
    assert found["corpus"] == result(the_run(workdir))["corpus"] and found["advice"] == []


def test_other_text_and_split_are_told_beside_the_text_of_training(lab, workdir, tmp_path):
    other = write_text(tmp_path / "other", seed=1)
    before = (the_run(workdir) / "result.json").read_bytes()
    flags = ["--swaps=", "--metrics=sliding", f"--source=files:{other}", "--split=valid"]
    done = start(lab, f"--workdir={the_run(workdir)}", *flags)
    assert done.code == 0, done.err
    said = "".join(done.out.split())  # paths are folded anywhere
    assert "moveovervalidationdocuments" in said and "window16" not in said
    assert f"Trainedonwindowsof16tokensof{lab.text}(" in said
    assert f"wasscoredonothertextthanitwastrainedon:files:{other}(" in said
    assert (the_run(workdir) / "result.json").read_bytes() == before


def test_by_its_own_config_a_run_scores_what_it_scored_at_its_end(lab, workdir, tmp_path):
    out = tmp_path / "again.json"
    assert start(lab, f"--workdir={workdir}", f"--out={out}").code == 0
    again, found = json.loads(out.read_text()), result(the_run(workdir))
    assert [again[part] for part in ("rows", "curves")] == [found["rows"], found["curves"]]


def test_a_seed_that_diverged_is_told_as_in_its_run(lab, tmp_path):
    done = lab.run(tmp_path / "runs", **{"train.rate": 1e30}).wait()
    assert done.code == 0, done.err
    out = tmp_path / "again.json"
    assert start(lab, f"--workdir={tmp_path / 'runs'}", f"--out={out}").code == 0
    rows = json.loads(out.read_text())["rows"]
    assert rows == result(the_run(tmp_path / "runs"))["rows"]
    assert {row["reason"] for row in rows} == {"diverged"}


def test_a_damaged_final_checkpoint_is_refused_and_the_one_before_not_scored(
    lab, workdir, tmp_path
):
    copy = shutil.copytree(the_run(workdir), tmp_path / "copy")
    last = max((copy / "checkpoints").glob("*/*"), key=lambda path: int(path.name))
    damage(last)
    before = sorted(copy.rglob("*"))
    done = start(lab, f"--workdir={copy}", f"--out={tmp_path / 'out.json'}")
    assert done.code == 2 and f"checkpoint of step {last.name} " in done.err, done.err
    assert "is damaged" in done.err and done.err.count("\n") == 1
    assert sorted(copy.rglob("*")) == before and not (tmp_path / "out.json").exists()


def test_a_mistake_in_an_evaluation_is_told(lab, workdir, tmp_path):
    for arguments, words in (
        ([], "--workdir=RUN is required"),
        ([f"--workdir={tmp_path}"], "no run in"),
        ([f"--workdir={workdir}", "--lengths=16,x"], "--lengths must be integers"),
        ([f"--workdir={workdir}", "--metrics=slidign"], "did you mean 'sliding'?"),
        ([f"--workdir={workdir}", "--swaps=windwo"], "did you mean 'window'?"),
        ([f"--workdir={workdir}", "--split=vaild"], "must be valid or test, got 'vaild'"),
    ):
        done = start(lab, *arguments)
        assert done.code == 2 and words in done.err, done.err
        assert done.err.startswith("experiments.evaluate: ") and done.err.count("\n") == 1


def test_several_runs_or_an_unfinished_one_are_told_by_name(lab, workdir, tmp_path):
    begun = (the_run(workdir) / "config.json").read_bytes()
    for name in ("rope-1", "rope-2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_bytes(begun)
    assert "give one of rope-1, rope-2" in start(lab, f"--workdir={tmp_path}").err
    assert "has not finished yet" in start(lab, f"--workdir={tmp_path / 'rope-1'}").err
