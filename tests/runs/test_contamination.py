"""What a run and a report say of test text that also stands in the training text."""

import dataclasses
import shutil

import pytest
from commands import messages, run_of, the_run, write_text
from studies import facts_of

from pe_jax.record import Begun
from pe_jax.runs.execute import evaluate_again, execute
from pe_jax.storage import records


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Texts of which the one of the test split, 06.txt, is a copy of one that is trained on."""
    folder = write_text(tmp_path_factory.mktemp("text") / "texts")
    shutil.copyfile(folder / "00.txt", folder / "06.txt")
    return folder


@pytest.fixture(scope="module")
def finished(text, tmp_path_factory):
    """A run, its work directory, its result, and what it said."""
    run, workdir = run_of(**{"data.source": f"files:{text}"}), tmp_path_factory.mktemp("runs")
    with messages() as said:
        result = execute(run, workdir, verbose=False)
    return run, workdir, result, said


DOUBT = (
    "100 % of the test text also stands in the training text (copies: 1, such as 06.txt has that "
    "of 00.txt)"
)


def test_shared_text_is_told_recorded_and_reported(finished):
    _, workdir, result, said = finished
    assert [line for line in said if "training text" in line] == [f"note: {DOUBT}"]
    begun = records.read(Begun, the_run(workdir) / "config.json")
    assert begun and begun.corpus == result.corpus
    assert f"{DOUBT}." in facts_of([result])
    scoring = result.config["eval"] | {"split": "valid"}
    valid = dataclasses.replace(result, config=result.config | {"eval": scoring})
    assert DOUBT not in facts_of([valid])


def test_other_text_is_held_against_the_text_of_training(finished, text, tmp_path):
    _, workdir, _, _ = finished
    other = tmp_path / "other"
    for i, split in enumerate(("train", "valid", "test")):
        shutil.copytree(text if i == 2 else write_text(tmp_path / split, seed=i), other / split)
    again = shutil.copytree(workdir, tmp_path / "runs")
    with messages() as said:
        result = evaluate_again(the_run(again), {"source": f"files:{other}"})
    assert result.scored and result.scored.overlap["test"].copies == 11
    assert said == [f"note: {doubt}" for doubt in result.scored.doubts(["test"])] != []
    assert all(f"{doubt}." in facts_of([result]) for doubt in result.scored.doubts(["test"]))
