"""A run whose seeds diverge: it ends early, keeps what it had before, and is not trained again."""

import dataclasses
import re
import shutil
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from commands import Lab, lines, messages, result, run_of, the_run
from studies import make_record

from pe_jax.record import Reason, Result, Stage
from pe_jax.runs import init_from
from pe_jax.runs.execute import evaluate_again, execute
from pe_jax.runs.folder import Folder
from pe_jax.runs.trained import Trained
from pe_jax.storage import records
from pe_jax.sweep import status

POISON = """
import dataclasses, jax.numpy as jnp
from pe_jax import Encoding

@dataclasses.dataclass(frozen=True)
class Poison(Encoding):
    def embed(self, params, x, tokens, pos):
        return jnp.where((tokens == ord("Z")).any(), jnp.nan, x)
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Its text has a letter at which a model of `poison` diverges."""
    lab = Lab(tmp_path_factory.mktemp("lab"), tmp_path_factory.getbasetemp() / "programs")
    for path in (lab.folder / "text").iterdir():
        text = path.read_text()
        path.write_text("Z".join(text[i : i + 500] for i in range(0, len(text), 500)))
    return lab


@pytest.fixture(scope="module")
def asked(lab):
    path = lab.folder / "poison.py"
    path.write_text(POISON)
    values = {"data.source": lab.text, "train.steps": 40, "run.seeds": (0, 1), "eval.swaps": ()}
    return run_of(f"{path}:Poison", **values)


@pytest.fixture(scope="module")
def diverged(lab, asked):
    """(the folder of the run, what was said)."""
    with messages() as said:
        execute(asked, lab.folder / "runs", verbose=False)
    return the_run(lab.folder / "runs"), [line for line in said if line.startswith("seed ")]


def test_training_ends_when_the_last_seed_has_diverged_and_says_where(diverged):
    folder, words = diverged
    form = re.compile(r"seed (.): loss or gradient not finite from step (\d+) on: (.*)")
    told = [form.fullmatch(word) for word in words]
    wanted = [("0", "the other seeds go on"), ("1", "training stops")]
    assert [t and (t[1], t[3]) for t in told] == wanted
    first, last = (int(t[2]) for t in told)
    assert max(line["step"] for line in lines(folder) if "loss" in line) == last + 2 - last % 2 < 40
    found = records.read(Result, folder / "result.json").rows
    rows = {(row.replica.number, row.value, row.reason.value, row.at) for row in found}
    assert rows == {(0, None, "diverged", first), (1, None, "diverged", last)}
    ended = records.state_of(folder)
    assert ended.stage is Stage.DONE
    assert ended.reason == "; ".join(word.rpartition(":")[0] for word in words)
    (told,) = status.standings(folder.parent)
    assert (told.state, told.reason) == ("finished", ended.reason)


def test_the_newest_checkpoint_from_before_is_kept_and_taken(diverged):
    folder, words = diverged
    end = int(re.search(r"step (\d+)", words[1])[1])
    steps = sorted(int(path.name) for path in folder.glob("checkpoints/*/*"))
    assert steps[0] < end <= steps[1] < steps[2]  # and the two newest
    with messages() as said:
        model = Trained.of(folder, 1)
    assert model.step == steps[0] and np.isfinite(model.logits([1, 2, 3])).all()
    assert said == [
        f"seed 1: loss or gradient not finite from step {end} on: "
        f"this is its model after {steps[0]} steps, from before"
    ]
    with pytest.raises(ValueError, match="no checkpoint of seed 0: .*not finite from"):
        Trained.of(folder, 0)


def test_it_is_not_trained_again(diverged, asked, tmp_path):
    folder = shutil.copytree(diverged[0], tmp_path / diverged[0].name)
    before = result(folder)
    rows = evaluate_again(folder, {"lengths": (16, 20)}).rows
    assert {row.reason for row in rows} == {Reason.DIVERGED}
    (folder / "result.json").unlink()
    trained = [line for line in lines(folder) if "loss" in line]
    again = execute(asked, tmp_path)
    assert [line for line in lines(folder) if "loss" in line] == trained
    assert again.digests == before["digests"] and len(again.rows) == len(before["rows"])
    path = folder / "checkpoints" / "0-1"
    shutil.rmtree(max(path.iterdir(), key=lambda path: int(path.name)))
    shutil.rmtree(max(path.iterdir(), key=lambda path: int(path.name)))
    with pytest.raises(ValueError, match="has no checkpoint of step 40: give the command"):
        evaluate_again(folder, {"lengths": (16, 24)})  # what is left has not diverged yet


def test_a_run_cannot_start_from_a_model_that_diverged(lab, diverged):
    folder, words = diverged
    why = re.escape(words[1].rpartition(":")[0])
    with pytest.raises(ValueError, match=f"no model to start from: {why}; leave these seeds out"):
        run_of("nope", **{"run.seeds": (1,), "train.init_from": str(folder)})


def test_a_checkpoint_is_known_by_the_first_program_with_a_model(tmp_path, monkeypatch):
    """Seed 0 has diverged in a program of its own, or was asked for later and has no end yet."""
    arrays = {"params.w": jax.ShapeDtypeStruct((2, 3), np.dtype("float32"))}
    stored = SimpleNamespace(describe=lambda step: (arrays, {"params.w": ""}))
    monkeypatch.setattr(init_from, "Checkpoints", lambda folder, read_only: stored)
    of_two = dataclasses.replace(make_record("rope", [2.5] * 5), seeds=(1, 2))
    (tmp_path / "checkpoints" / "0" / "9").mkdir(parents=True)
    with pytest.raises(ValueError, match="has no checkpoints"):
        init_from._first_program(Folder(tmp_path), of_two)
    (tmp_path / "checkpoints" / "1-2" / "350").mkdir(parents=True)
    of_two_programs = make_record("rope", [2.5] * 5, diverged=(0,))
    digests = set()
    for one in (of_two, of_two_programs):
        shapes, digest = init_from._first_program(Folder(tmp_path), one)
        assert shapes == {"w": (3,)}
        digests.add(digest)
    (tmp_path / "checkpoints" / "0" / "350").mkdir()  # a seed that was asked for later has ended
    digests.add(init_from._first_program(Folder(tmp_path), of_two)[1])
    assert len(digests) == 1


def test_an_evaluation_tells_it_in_a_line(lab, diverged):
    folder, words = diverged
    told = "; ".join(word.rpartition(":")[0] for word in words)
    scored = lab.start("evaluate", f"--workdir={folder}", "--lengths=16,18").wait()
    assert scored.code == 0 and f"{folder.name}: {told}: no scores\n" in scored.err


@pytest.mark.slow
def test_text_is_generated_by_the_model_from_before_or_refused(lab, diverged):
    folder, _ = diverged
    text = lab.start("generate", f"--workdir={folder}", "--model_seed=1", "--tokens=2").wait()
    assert text.code == 0 and "this is its model after" in text.err
    none = lab.start("generate", f"--workdir={folder}", "--tokens=2").wait()
    assert none.code == 2 and "has no checkpoint of seed 0" in none.err
    assert none.err.count("\n") == 1
