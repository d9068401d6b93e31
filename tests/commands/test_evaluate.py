"""A finished run scored in another way, by the command."""

import json
import math
import shutil

import pytest
from commands import Lab, damage, result, rewrite, the_run, write_text

from pe_jax.storage import jsonl, locks


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


def scores(folder):
    """The scores that are kept, line by line: {"row": ..., "protocol": ...}."""
    return [line for line in jsonl.read_lines(folder / "scores.jsonl") if "row" in line]


def published(out):
    return [json.loads(line) for line in (out / "runs.jsonl").read_text().splitlines()]


def test_a_run_is_scored_at_another_length_and_reported(lab, workdir, tmp_path):
    before = (the_run(workdir) / "result.json").read_bytes()
    done = start(lab, f"--workdir={the_run(workdir)}", "--lengths=48", f"--out={tmp_path / 'out'}")
    assert done.code == 0, done.err
    assert "by another protocol than before" in done.err
    assert "48 (3x)" in done.out and done.out.rstrip().endswith(str(tmp_path / "out/curves.pdf"))
    (found,) = published(tmp_path / "out")
    assert {row["length"] for row in found["rows"]} == {16, 48}
    assert found["corpus"] == result(the_run(workdir))["corpus"]
    assert (the_run(workdir) / "result.json").read_bytes() == before
    kept = (the_run(workdir) / "scores.jsonl").read_bytes()
    assert start(lab, f"--workdir={the_run(workdir)}", "--lengths=48").out.count("48 (3x)") == 2
    assert (the_run(workdir) / "scores.jsonl").read_bytes() == kept  # nothing is scored twice


def test_a_run_that_another_process_holds_is_waited_for(lab, workdir):
    with locks.locked(the_run(workdir)):
        command = lab.start("evaluate", f"--workdir={workdir}", "--lengths=20")
        said = command.folder / "stderr"
        command.until(lambda: said.exists() and "waiting for it" in said.read_text())
    done = command.wait()
    assert done.code == 0 and "20" in done.out, done.err


def test_every_finished_run_of_a_work_directory_is_scored(lab, workdir, tmp_path):
    several = shutil.copytree(workdir, tmp_path / "runs")
    assert lab.run(several, "nope", **{"eval.lengths": (16,)}).wait().code == 0
    flags = ["--lengths=16,24", "--last=4", "--targets=8", "--metrics=same_targets"]
    done = start(lab, f"--workdir={several}", *flags, f"--out={tmp_path / 'out'}")
    assert done.code == 0, done.err
    assert [r["label"] for r in published(tmp_path / "out")] == ["nope", "rope"]
    assert {run["targets"]["same_targets"] for run in published(tmp_path / "out")} == {8}
    assert {row["length"] for r in published(tmp_path / "out") for row in r["rows"]} == {16, 24}
    assert "by another protocol than before" in done.err


def test_other_text_and_split_are_recorded(lab, workdir, tmp_path):
    other = write_text(tmp_path / "other", seed=1)
    flags = ["--swaps=", "--metrics=nonoverlapping", f"--source=files:{other}", "--split=valid"]
    done = start(lab, f"--workdir={the_run(workdir)}", *flags, f"--out={tmp_path / 'out'}")
    assert done.code == 0, done.err
    said = (tmp_path / "out/table.md").read_text()
    assert "validation text" in said and "window 16" not in said
    assert f"Windows of 16 tokens of {lab.text}" in said
    (found,) = published(tmp_path / "out")
    assert found["scored"]["source"] == f"files:{other}"
    assert found["scored"]["hash"] != found["corpus"]["hash"]


def test_by_its_own_config_a_run_scores_what_it_scored_at_its_end(lab, workdir, tmp_path):
    copy = shutil.copytree(the_run(workdir), tmp_path / "copy")
    (copy / "scores.jsonl").unlink()
    whole = result(copy)
    rewrite(copy / "result.json", rows=[], curves=[])
    assert start(lab, f"--workdir={copy}", f"--out={tmp_path / 'out'}").code == 0
    (again,) = published(tmp_path / "out")
    assert [again[part] for part in ("rows", "curves")] == [whole["rows"], whole["curves"]]


def test_a_damaged_final_checkpoint_is_refused_and_the_one_before_not_scored(
    lab, workdir, tmp_path
):
    copy = shutil.copytree(the_run(workdir), tmp_path / "copy")
    last = max((copy / "checkpoints").glob("*/*"), key=lambda path: int(path.name))
    damage(last)
    before = sorted(copy.rglob("*"))
    done = start(lab, f"--workdir={copy}", "--lengths=20")
    assert done.code == 2 and f"checkpoint of step {last.name} " in done.err, done.err
    assert "is damaged" in done.err and done.err.count("\n") == 1
    assert sorted(copy.rglob("*")) == before


def test_mistakes_in_an_evaluation_are_one_line(lab, workdir, tmp_path):
    (tmp_path / "rope-1").mkdir()
    shutil.copy(the_run(workdir) / "config.json", tmp_path / "rope-1")
    for arguments, words in (
        ([], "--workdir must have a value"),
        ([f"--workdir={tmp_path}"], "no finished run in"),
        ([f"--workdir={tmp_path / 'rope-1'}"], "has not finished yet"),
        ([f"--workdir={workdir}", "--lengths=16,x"], "--lengths=16,x: invalid literal"),
        ([f"--workdir={workdir}", "--metrics=longpple"], "did you mean 'longppl'?"),
        ([f"--workdir={workdir}", "--swaps=windwo"], "did you mean 'window'?"),
        ([f"--workdir={workdir}", "--split=vaild"], "got 'vaild'"),
    ):
        done = start(lab, *arguments)
        assert done.code == 2 and words in done.err, done.err
        assert done.err.startswith("pe-jax evaluate: ") and done.err.count("\n") == 1


def test_an_evaluation_refuses_text_that_has_changed_since_training(lab, workdir):
    text = lab.folder / "text"
    before = (the_run(workdir) / "result.json").read_bytes()
    shutil.copytree(text, lab.folder / "kept")
    (text / "00.txt").write_text("other words " * 300)
    refused = start(lab, f"--workdir={workdir}", "--lengths=16")
    shutil.copytree(lab.folder / "kept", text, dirs_exist_ok=True)
    assert refused.code == 2 and f"{lab.text} has changed since" in refused.err
    assert (the_run(workdir) / "result.json").read_bytes() == before


LOG_PROBABILITY = """
import dataclasses
from pe_jax.metrics import METRICS

mean_log = dataclasses.replace(
    METRICS["same_targets"],
    sentence="The mean ln p of the same targets in {split} documents.",
    unit="log probability",
    better="higher",
    value=lambda nats, sizes: -float(nats.mean()),
)
"""


def test_a_metric_of_ones_own_is_scored_and_a_report_needs_no_file_of_it(lab, workdir, tmp_path):
    """Of bytes it is -ln 2 times the bits per byte of the same targets."""
    own, copy = tmp_path / "own.py", shutil.copytree(workdir, tmp_path / "runs")
    own.write_text(LOG_PROBABILITY)
    arguments = [f"--metrics={own}:mean_log,same_targets", "--swaps=", "--lengths=16"]
    title = "Log probability, mean log (higher is better)"
    done = start(lab, f"--workdir={the_run(copy)}", *arguments, f"--out={tmp_path / 'out'}")
    assert done.code == 0 and title in done.out, done.err
    (found,) = published(tmp_path / "out")
    values = {}
    for row in found["rows"]:
        place = row["replica"]["number"], row["length"]
        values.setdefault(place, {})[row["metric"]] = row["value"]
    for value in values.values():
        expected = -math.log(2) * value["same_targets"]
        assert value[f"{own}:mean_log"] == pytest.approx(expected, rel=1e-5)
    before = len(scores(the_run(copy)))
    own.write_text(LOG_PROBABILITY.replace("-float", "1 - float"))  # another metric
    assert start(lab, f"--workdir={the_run(copy)}", *arguments).code == 0
    new = scores(the_run(copy))[before:]  # of what the changed file scores, alone
    assert len(new) == len(found["rows"]) / 2
    assert {line["row"]["metric"] for line in new} == {f"{own}:mean_log"}
    own.unlink()
    printed = tmp_path / "printed"
    reported = lab.start("report", f"--workdir={tmp_path / 'out'}", f"--out={printed}").wait()
    assert reported.code == 0, reported.err
    text = (printed / "table.md").read_text()
    assert title in text and "The mean ln p of the same targets in test documents." in text


STOPPING = """
import dataclasses, os, pathlib, signal
import jax.numpy as jnp
from pe_jax.encoding import Encoding

@dataclasses.dataclass(frozen=True)
class Stopping(Encoding):
    def relative_bias(self, params, n):
        told, usual = pathlib.Path(__file__).with_name("told"), signal.getsignal(signal.SIGTERM)
        if usual is not signal.SIG_DFL and n.size >= 4 * self.dims.train_len and not told.exists():
            told.touch()
            os.kill(os.getpid(), signal.SIGINT)
        return jnp.broadcast_to(-0.1 * jnp.abs(n), (self.dims.heads, n.size))
"""
"""A user's file: at its first long pass the process, which then listens, gets a signal."""


def test_scores_outlive_a_signal_and_the_same_command_computes_the_rest(lab, workdir, tmp_path):
    (tmp_path / "own.py").write_text(STOPPING)
    copy = shutil.copytree(the_run(workdir), tmp_path / "copy")
    shutil.copytree(copy, tmp_path / "undisturbed")
    arguments = ["--lengths=16,64,72", "--metrics=same_targets"]
    arguments.append(f"--swaps={tmp_path / 'own.py'}:Stopping")
    before = scores(copy)
    stopped = start(lab, f"--workdir={copy}", *arguments)
    assert stopped.code == 75 and "Traceback" not in stopped.err, stopped.err
    assert stopped.err.splitlines()[-1].endswith(" ".join([f"--workdir={copy}", *arguments]))
    kept = scores(copy)[len(before) :]
    undisturbed = tmp_path / "undisturbed"
    for folder in (copy, undisturbed):
        done = start(lab, f"--workdir={folder}", *arguments)
        assert done.code == 0, done.err
    resumed, whole = (scores(folder)[len(before) :] for folder in (copy, undisturbed))
    assert resumed[: len(kept)] == kept and len(resumed) == len(whole)  # none was computed again
    assert 0 < len(kept) < len(whole)
    values = [
        {name_of(line["row"]): line["row"]["value"] for line in each} for each in (resumed, whole)
    ]
    assert values[0] == values[1]


def name_of(row):
    return str([row[part] for part in ("replica", "way", "metric", "length")])
