"""The search for LongRoPE's factors on a trained model: what a score is, going on, refusals."""

import dataclasses
import json
import shlex
import shutil

import pytest
from commands import Lab, run_of

from pe_jax.encodings.longrope import spared_angles
from pe_jax.errors import Refused
from pe_jax.evaluation import candidates
from pe_jax.runs.execute import execute
from pe_jax.runs.longrope import BEGIN, METRIC, Asked, search
from pe_jax.runs.trained import Trained
from pe_jax.runs.view import Silent
from pe_jax.spec.parse import parse_list

QUICK = {
    "train.steps": 40,
    "train.rate": 0.02,
    "eval.lengths": (16,),
    "eval.swaps": (),
    "eval.metrics": (METRIC,),
    "run.seeds": (0,),
}
ASKED = Asked(length=32, targets=256, population=4, generations=2)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    return Lab(tmp_path_factory.mktemp("lab"), tmp_path_factory.getbasetemp() / "programs")


@pytest.fixture(scope="module")
def folder(lab):
    """The folder of a finished run."""
    run = run_of("rope", **QUICK | {"data.source": lab.text})
    execute(run, lab.folder / "runs")
    return lab.folder / "runs" / run.id


@pytest.fixture
def model(folder, tmp_path):
    """The model in a copy of its folder, in which nothing was searched."""
    return Trained.of(shutil.copytree(folder, tmp_path / folder.name))


def other(lab, model, spec):
    """The model as if it were of another spec."""
    return dataclasses.replace(model, run=run_of(spec, **QUICK | {"data.source": lab.text}))


def test_what_is_found_scores_as_a_swap_and_no_worse_than_what_it_began_with(model):
    found = search(model, ASKED)
    assert [*found.begin] == [*BEGIN] and found.value <= min(found.begin.values())
    assert 4 < found.scored <= 8
    swaps = (*BEGIN, found.spec)
    asked = {"lengths": (32,), "swaps": swaps, "split": "valid", "targets": 256}
    rows = {row.swap: row.value for row in model.evaluate(**asked) if row.length == 32}
    for name, value in (found.begin | {found.spec: found.value}).items():
        assert rows[name] == pytest.approx(value, abs=2e-5), name
    assert len({round(value, 6) for value in rows.values()}) >= 5  # each does something else
    kept = json.loads(found.path.read_text())
    assert kept["spec"] == found.spec and kept["asked"]["generations"] == 2


class Stops(Silent):
    """Ends the process's work after so many lines."""

    def __init__(self, after=0):
        self.after, self.lines = after, []

    def watch(self, line):
        self.lines.append(line)
        if len(self.lines) == self.after:
            raise KeyboardInterrupt


def test_one_program_serves_all_candidates(model, monkeypatch):
    monkeypatch.setenv("NPROC", "1")  # two threads might trace it at the same time
    traced = []

    def counted(*arguments):
        traced.append(arguments)
        return spared_angles(*arguments)

    monkeypatch.setattr(candidates, "spared_angles", counted)
    found = search(model, ASKED._replace(targets=248))  # other shapes than in other tests
    assert found.scored > 4 and len(traced) == 2  # of queries and of keys


def test_a_search_that_was_cut_off_goes_on_to_what_a_whole_one_finds(model):
    whole = search(model, ASKED)
    text = whole.path.read_bytes(), whole.path.with_suffix(".jsonl").read_bytes()
    shutil.rmtree(whole.path.parent)
    first, second = Stops(after=3), Stops()
    with pytest.raises(KeyboardInterrupt):
        search(model, ASKED, first)
    assert not whole.path.exists()
    assert search(model, ASKED, second) == whole
    assert len(first.lines) == 3 and len(first.lines + second.lines) == whole.scored
    assert (whole.path.read_bytes(), whole.path.with_suffix(".jsonl").read_bytes()) == text
    again = Stops()
    assert search(model, ASKED, again) == whole and not again.lines
    longer = search(model, ASKED._replace(generations=3), again)
    assert longer.value <= whole.value and {line["generation"] for line in again.lines} == {3}


def test_what_cannot_be_searched_is_refused(lab, model):
    with pytest.raises(ValueError, match="--length must be above .* 16, got 16: 32 is twice"):
        search(model, ASKED._replace(length=16))
    with pytest.raises(Refused, match="no document of the valid split has the 65536 tokens"):
        search(model, ASKED._replace(length=65536))
    with pytest.raises(ValueError, match="a population must have at least 4, got 3"):
        search(model, ASKED._replace(population=3))
    (model.folder / "result.json").unlink()
    with pytest.raises(ValueError, match="has no result.json: the run has not finished yet"):
        search(model, ASKED)
    with pytest.raises(ValueError, match="nope has no rope, .*name a run that was trained with"):
        search(other(lab, model, "nope"), ASKED)
    with pytest.raises(ValueError, match="would do a second time what this model's XPos does"):
        search(other(lab, model, "xpos"), ASKED)


def test_no_more_positions_are_asked_for_than_an_encoding_serves(lab, model):
    with pytest.raises(Refused, match="serves 16 positions, got 32 tokens"):
        search(other(lab, model, "rope+learned"), ASKED)


def test_the_command_prints_what_is_found_and_how_to_score_it_on_test_text(lab, folder):
    flags = [f"--workdir={folder}", "--length=32", "--targets=256", "--population=4"]
    done = lab.start("longrope", *flags, "--generations=1").wait()
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert [line.split()[0] for line in lines[1:6]] == [*BEGIN, "found"]
    assert lines[6].startswith("longrope(long=(")
    scored = shlex.split(lines[-1])
    assert scored[:3] == ["python", "-m", "experiments.evaluate"]
    found = parse_list(scored[-2].removeprefix("--swaps="))
    assert found == [*BEGIN, lines[6]] and scored[-1] == "--split=test"
    wrong = lab.start("longrope", f"--workdir={folder}").wait()
    assert wrong.code == 2 and "--length=TOKENS are required" in wrong.err
