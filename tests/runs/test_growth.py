"""What has been trained is asked more (lengths, metrics, seeds, rates); nothing is done twice."""

import dataclasses
import json
import math
import shutil
import signal

import numpy as np
import pytest
from commands import lines, messages, result, rewrite, run_of, the_run, write_text

import pe_jax
from pe_jax import record
from pe_jax.errors import Refused
from pe_jax.report import frame, study
from pe_jax.runs import rates
from pe_jax.runs.execute import evaluate_again, execute
from pe_jax.runs.folder import Folder
from pe_jax.runs.trained import Trained
from pe_jax.storage import jsonl as stored
from pe_jax.storage import records
from pe_jax.sweep.queue import Item

# the tasks that Orbax leaves when a file is missing complain as they are collected
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

WINDOW = (
    "import dataclasses\nfrom pe_jax.encodings.window import Window\n\n\n"
    "@dataclasses.dataclass(frozen=True)\nclass Mine(Window):\n    pass\n"
)
METRIC = (
    "import dataclasses\nfrom pe_jax.metrics import METRICS\n\n"
    'mine = dataclasses.replace(METRICS["same_targets"], name="mine")\n'
)


SPEC = "randomized+rope"
FEW = {"eval.metrics": ("same_targets",), "eval.swaps": ()}  # programs to compile


def asked(lab, **values):
    once = {"data.source": lab.text, "log.checkpoint_seconds": 1e6}
    return run_of(SPEC, **once | values)


def trained_steps(folder):
    return [(line["seeds"], line["step"]) for line in lines(folder) if "loss" in line]


def protocols(folder):
    return {line["protocol"] for line in stored.read_lines(folder / "scores.jsonl")}


def scored(folder):
    return [line for line in stored.read_lines(folder / "scores.jsonl") if "row" in line]


def passes(folder):
    return [line["evaluated"] for line in lines(folder) if "evaluated" in line]


LONGER = {"eval.lengths": (16, 48), "eval.metrics": ("same_targets", "kl")}


def test_longer_lengths_train_nothing_and_are_what_a_run_of_them_gives(lab, again, tmp_path):
    folder = the_run(again)
    before = trained_steps(folder)
    grown = execute(asked(lab, **LONGER), again)
    assert trained_steps(folder) == before and the_run(again) == folder
    fresh = execute(asked(lab, **LONGER), tmp_path / "fresh")
    assert grown.rows == fresh.rows and grown.curves == fresh.curves
    assert grown.targets == fresh.targets and grown.target_bytes == fresh.target_bytes
    assert grown.digests == fresh.digests and grown.config == fresh.config
    assert [grown] == study.load(again)


def test_seeds_that_train_again_are_scored_again(lab, again):
    """Whose checkpoints were deleted, say. Those of another program keep their scores."""
    three = asked(lab, **FEW, **{"run.seeds": (0, 1, 2), "eval.lengths": (32,)})
    folder = the_run(again)
    before = trained_steps(folder)
    execute(three, again)
    assert trained_steps(folder) == [*before, *(([2], step) for _, step in before)]
    kept = result(folder)
    assert set(kept["digests"]) == {"0-1", "2"}
    shutil.rmtree(folder / "checkpoints/0-1")
    (folder / "result.json").unlink()
    lines = stored.read_lines(folder / "scores.jsonl")
    for line in lines:
        if line.get("row"):
            line["row"]["value"] += 1.0
    stored.replace(folder / "scores.jsonl", lines)
    execute(three, again)
    for old, new in zip(kept["rows"], result(folder)["rows"], strict=True):
        moved = 1.0 if new["replica"]["number"] == 2 else 0.0
        assert new["value"] == pytest.approx(old["value"] + moved, abs=1e-6)


def test_a_text_that_cannot_be_scored_is_refused_before_anything_is_trained(lab, tmp_path):
    with pytest.raises(Refused, match="nowhere"):
        execute(asked(lab, **{"eval.source": f"files:{tmp_path / 'nowhere'}"}), tmp_path)
    assert not list(tmp_path.glob("*/metrics.jsonl"))


def test_a_copy_beside_the_checkpoints_of_its_programs_is_none_of_them(again):
    (folder,) = again.iterdir()
    shutil.copytree(folder / "checkpoints/0-1", folder / "checkpoints/0-1.bak")
    assert Folder(folder).begun_groups == [(0, 1)]


@pytest.mark.parametrize(
    ("values", "share"),
    (
        ({"eval.metrics": ("same_targets",)}, 0),
        ({"eval.swaps": ()}, 0),
        ({"run.seeds": (1,)}, 0),
        ({"eval.lengths": (16, 24, 32)}, 2),  # as trained, and with the swap
        ({"eval.swaps": ("window", "window(window=8)")}, 2),  # both lengths
        ({"eval.metrics": ("same_targets", "nonoverlapping", "kl")}, 3),
    ),
    ids=str,
)
def test_only_what_is_missing_of_an_evaluation_is_computed(lab, again, values, share):
    folder = the_run(again)
    assert len(passes(folder)) == 3  # at 16 tokens a window of 16 hides nothing
    run = asked(lab, **values)
    grown = execute(run, again)
    # Lines of evaluation are those of the last one: none is left where nothing was computed.
    assert len(passes(folder)) == share
    wanted = len(run.run.seeds) * len(run.eval.metrics) * len(run.eval.lengths)
    assert len(grown.rows) == wanted * (1 + len(run.eval.swaps))
    assert {row.replica.number for row in grown.rows} == set(run.run.seeds) == set(grown.seeds)


def test_a_run_serves_without_a_metric_and_a_swap_whose_file_has_gone(lab, tmp_path):
    own, workdir = tmp_path / "own.py", tmp_path / "runs"
    own.write_text(METRIC + WINDOW)
    both = {"eval.metrics": ("same_targets", f"{own}:mine"), "eval.swaps": (f"{own}:Mine",)}
    execute(run := asked(lab, **both), workdir)
    assert Folder(folder := the_run(workdir)).answer(run.run.seeds, run.asked())
    own.unlink()
    assert Folder(folder).answer(run.run.seeds, run.asked()) is None
    assert Trained.of(folder).seed == 0
    changes = {"metrics": ("same_targets",), "swaps": (), "lengths": (16,)}
    for found in (evaluate_again(folder, changes), execute(asked(lab, **FEW), workdir)):
        assert {row.metric for row in found.rows} == {"same_targets"}


def test_a_metric_that_changes_before_it_is_scored_is_refused(lab, again, tmp_path, monkeypatch):
    """Its windows are made before training."""
    own = tmp_path / "own.py"
    own.write_text(METRIC)
    later = "pe_jax.runs.execute.check_model"
    monkeypatch.setattr(later, lambda *_: own.write_text(METRIC + "# changed\n") and None)
    with pytest.raises(Refused, match="has changed meanwhile: give the same command again"):
        execute(asked(lab, **{"eval.metrics": (f"{own}:mine",)}), again)


def test_a_changed_file_of_a_swap_is_scored_anew(lab, again, tmp_path):
    path, folder = tmp_path / "mine.py", the_run(again)
    path.write_text(WINDOW)
    swapped = FEW | {"eval.swaps": (f"{path}:Mine",), "eval.lengths": (32,)}
    run = asked(lab, **swapped)
    first = execute(run, again)
    assert execute(run, again) == first and len(protocols(folder)) == 2
    path.write_text(path.read_text().replace("    pass", "    window: int | None = 4"))
    before = len(scored(folder))
    with messages() as words:
        evaluate_again(folder, {}, seeds=(0,))
    assert not any("scored anew" in line for line in words)  # of which it is one swap
    # The other seed is still without scores by this file.
    assert Folder(folder).answer(run.run.seeds, run.asked()) is None
    second = execute(asked(lab, **swapped), again)
    assert len(protocols(folder)) == 3
    new = [line["row"]["way"] for line in scored(folder)[before:]]
    assert len(new) == 4 and all(way["swap"] == f"{path}:Mine" for way in new)
    values = [[row.value for row in found.rows if str(row.way)] for found in (first, second)]
    assert values[0] != values[1]


def test_a_model_is_not_read_with_another_encoding_than_it_was_trained_with(lab, tmp_path):
    """In a folder with a dollar in its name, where its tokenizer.json lies too."""
    path = tmp_path / "mine.py"
    source = (
        "import dataclasses\nfrom pe_jax.encodings.alibi import ALiBi\n\n\n"
        "@dataclasses.dataclass(frozen=True)\nclass Mine(ALiBi):\n    pass\n"
    )
    path.write_text(source)
    values = FEW | {"data.source": lab.text, "data.tokenizer": "bpe:270", "run.seeds": (0,)}
    execute(run_of(f"{path}:Mine", **values, **{"train.steps": 2}), tmp_path / "w$4")
    folder = the_run(tmp_path / "w$4")
    assert Trained.of(folder).evaluate().equals(frame.frame_of([evaluate_again(folder, {})]))
    path.write_text(source + "# changed\n")
    for read in (Trained.of, lambda folder: evaluate_again(folder, {"lengths": (16, 64)})):
        with pytest.raises(Refused, match="mine.py has changed since .* was trained with it"):
            read(folder)
    path.write_text(source)
    assert Trained.of(folder).evaluate().equals(frame.frame_of([evaluate_again(folder, {})]))


@pytest.mark.slow
def test_two_seeds_after_two_are_the_seeds_of_a_run_of_four(lab, again, tmp_path):
    folder = the_run(again)
    before = trained_steps(folder)
    four = {"run.seeds": (0, 1, 2, 3)}
    grown = execute(asked(lab, **four), again)
    new = trained_steps(folder)[len(before) :]
    assert trained_steps(folder)[: len(before)] == before
    assert new and all(seeds == [2, 3] for seeds, _ in new)
    assert set(grown.digests) == {"0-1", "2-3"} and grown.seeds == (0, 1, 2, 3)
    fresh = execute(asked(lab, **four), tmp_path / "fresh")
    assert set(fresh.digests) == {"0-1-2-3"}  # another number of seeds rounds otherwise
    assert_close(grown.rows, fresh.rows)


def assert_close(rows, others):
    for row, other in zip(rows, others, strict=True):
        assert row.value == pytest.approx(other.value, rel=1e-5)
        assert dataclasses.replace(row, value=other.value) == other


@pytest.mark.slow
def test_seeds_that_were_cut_off_go_on_with_those_they_began_with(lab, tmp_path):
    flags = {"train.steps": 400, "log.checkpoint_seconds": 0.0}
    folder = Folder.of(run_of(**{"data.source": lab.text} | flags).id, tmp_path)
    running = lab.run(tmp_path, "rope", **flags)
    running.until(lambda: folder.begun_groups).stop(signal.SIGKILL)
    grown = lab.run(tmp_path, "rope", **flags, **{"run.seeds": (1, 2)}).wait()
    assert grown.code == 0, grown.err
    found = folder.result()
    assert set(found.digests) == {"0-1", "2"} and found.seeds == (1, 2)
    assert {row.replica.number for row in found.rows} == {1, 2}


def test_a_finished_run_is_evaluated_beside_its_result(lab, again, tmp_path):
    folder = the_run(again)
    before, steps = (folder / "result.json").read_bytes(), trained_steps(folder)
    other = write_text(tmp_path / "other", seed=1)
    found = evaluate_again(folder, {"source": f"files:{other}", "lengths": (16, 48)})
    assert (folder / "result.json").read_bytes() == before and trained_steps(folder) == steps
    assert found.scored.source == f"files:{other}" and found.scored.hash != found.corpus.hash
    assert {row.length for row in found.rows} == {16, 48} and len(found.rows) == 16
    kept = (folder / "scores.jsonl").read_bytes()
    assert len(protocols(folder)) == 2
    same = evaluate_again(folder, {"source": f"files:{other}", "lengths": (16, 48)})
    assert same.rows == found.rows
    assert (folder / "scores.jsonl").read_bytes() == kept
    (other / "00.txt").write_text("another text " * 400)
    with pytest.raises(Refused, match="scores of other text"):
        evaluate_again(folder, {"source": f"files:{other}", "lengths": (16, 48)})


def test_places_are_scored_by_the_model_of_the_seed_that_is_asked_for(again):
    fields = {"by": "place", "lengths": (16, 32), "metrics": ("same_targets",), "swaps": ()}
    known = study.load(again)[0].rows
    of_seeds = [row for row in known if row.metric == "same_targets" and not row.way]
    by_seed = {(row.replica.number, row.length): row.value for row in of_seeds}
    for seed in (0, 1, 0):
        rows = evaluate_again(the_run(again), fields, (seed,)).rows
        for length in (16, 32):
            of_places = np.mean([row.value for row in rows if row.length == length])
            assert of_places == pytest.approx(by_seed[seed, length], rel=1e-6)


def test_a_trained_model_is_scored_with_the_weights_that_are_asked_for(again):
    whole, rounded = (
        [row.value for row in evaluate_again(the_run(again), {"weights": weights}).rows]
        for weights in ("float32", "bfloat16")
    )
    assert rounded != whole and rounded == pytest.approx(whole, rel=1e-2)


def test_a_trained_model_answers_in_python(lab, again):
    model = pe_jax.load(again, seed=1)
    ids = model.encode("the rain")
    logits = model.logits(ids)
    assert logits.shape == (8, 256)
    changed = model.logits(model.encode("the ruin"))
    assert (logits[:5] == changed[:5]).all() and (logits[6] != changed[6]).any()
    both = model.logits([ids, ids[::-1]])
    assert both.shape == (2, 8, 256) and both[0] == pytest.approx(logits, abs=1e-5)
    text = model.generate("the rain", 20, seed=3)
    assert text == model.generate(b"the rain", 20, seed=3) and text
    longer = model.evaluate(lengths=(16, 64), swaps=())
    scored = {*zip(longer["seed"], longer["length"], longer["way"], strict=True)}
    assert scored == {(1, 16, ""), (1, 64, "")}
    known = pe_jax.frame(again).query("seed == 1").reset_index(drop=True)
    assert model.evaluate().equals(known[list(longer)])


def test_the_record_has_every_commit_and_device_that_carried_the_run_out(lab, again):
    config = the_run(again) / "config.json"
    now, device = (json.loads(config.read_text())[name] for name in ("commit", "device"))
    words = []
    rewrite(config, commit="0" * 40, device=device | {"count": 7})

    few = {"eval.metrics": ("nonoverlapping",), "eval.swaps": ()}
    for length in (48, 64):  # the third process is of the same commit as the second
        run = asked(lab, **few, **{"eval.lengths": (16, length)})
        with messages() as said:
            result = execute(run, again)
        words += said
        assert result.commit == f"{'0' * 40}, then {now}"
        assert json.loads(config.read_text())["commit"] == result.commit
        assert [each.count for each in result.devices] == [7, device["count"]]
    said = "commit changed since the run was begun; its results are not bit-reproducible"
    assert sum(said in line for line in words) == 1


RATES = (9e-3, 1e30, 3e-3)  # the first is that of `tiny_run`


def at_rates(lab, *tried, **values):
    """The run at each rate."""
    config = asked(lab, **values).config
    return rates.runs_of(config | {"train": config["train"] | {"rates": tried}})


@pytest.fixture(scope="module")
def tuned(lab):
    """(work directory, folders of the rates) of a run at the best of RATES."""
    runs = at_rates(lab, *RATES)
    rates.execute_best(runs, workdir := lab.folder / "tuned", verbose=False)
    return workdir, [workdir / run.id for run in runs]


def test_the_rate_is_the_one_with_the_lowest_validation_at_the_training_length(tiny_run, tuned):
    workdir, folders = tuned
    best, diverged, low = folders
    alone, found = Folder(the_run(tiny_run)).result(), Folder(best).result()
    assert best.name == alone.id and [tried.rate for tried in found.rates] == [*RATES]
    assert all(set(tried.valid) == {0, 1} for tried in found.rates)  # all seeds choose
    means = [tried.mean for tried in found.rates]
    assert means[0] == np.mean(found.train.valid) < means[2] < math.inf == means[1]
    assert (found.rows, found.digests) == (alone.rows, alone.digests)
    assert found.config["train"]["rate"] == 9e-3 and found.config["train"]["rates"] == [*RATES]
    for other in (diverged, low):  # scored at the training length alone
        rows = Folder(other).result().rows
        assert {(row.length, str(row.way)) for row in rows} == {(16, "")}
    assert [found] == study.load(workdir)


def test_a_rate_more_trains_that_rate_alone(lab, tuned, tmp_path):
    copy = shutil.copytree(tuned[0], tmp_path / "copy")
    steps = {path.name: trained_steps(path) for path in copy.iterdir()}
    found = rates.execute_best(at_rates(lab, *RATES, 1e-3), copy, verbose=False)
    assert len(found.rates) == 4 and len(list(copy.iterdir())) == 4
    assert all(trained_steps(copy / name) == lines for name, lines in steps.items())


def test_rates_without_scores_or_of_different_texts_are_refused(lab, tuned, tmp_path):
    copy = shutil.copytree(tuned[0], tmp_path / "copy")
    path = copy / tuned[1][2].name / "result.json"
    trial = records.read(record.Result, path)
    for change, words in (
        ({"corpus": dataclasses.replace(trial.corpus, hash="0" * 64)}, "from rate to rate"),
        ({"train": dataclasses.replace(trial.train, valid=())}, "no score at the end of training"),
    ):
        records.write(path, dataclasses.replace(trial, **change))
        with pytest.raises(Refused, match=words):
            rates.execute_best(at_rates(lab, *RATES), copy, verbose=False)


@pytest.mark.slow
def test_a_choice_that_was_killed_ends_as_one_that_was_not(lab, tuned, tmp_path):
    def lines_so_far():
        return sum(len(trained_steps(path)) for path in tmp_path.glob("*"))

    values = {"train.rates": RATES, "log.checkpoint_seconds": 0.0}
    for count in (2, 5, 9):
        running = lab.run(tmp_path, SPEC, **values)
        running.until(lambda count=count: lines_so_far() > count).stop(signal.SIGKILL)
    assert lab.run(tmp_path, SPEC, **values).wait().code == 0
    best = tuned[1][0]
    for part in ("rows", "rates", "digests", "curves"):
        assert result(tmp_path / best.name)[part] == result(best)[part], part


def test_rates_that_cannot_be_chosen_among_are_refused(lab, tmp_path):
    runs = at_rates(lab, 1e30, 1e31, **{"train.steps": 4})
    with pytest.raises(Refused, match="diverged at each of train.rates, 1e[+]30, 1e[+]31"):
        rates.execute_best(runs, tmp_path, verbose=False)
    with pytest.raises(ValueError, match="has one learning rate"):
        run_of(**{"train.rates": (1e-3, 2e-3)})


def test_validation_is_in_the_history_and_in_the_record(tiny_run):
    folder = the_run(tiny_run)
    progress = json.loads((folder / "result.json").read_text())["train"]["progress"]
    valid = [line for line in lines(folder) if "valid" in line]
    assert [p["seed"] for p in progress] == [0, 1] and progress[0]["step"] == [12]
    assert [p["valid"] for p in progress] == [[value] for value in valid[-1]["valid"]]


def test_a_score_that_lacked_memory_is_computed_once_there_is_some(lab, tiny_run, again, free):
    """Twice with too little, then with enough: the rows of a run that always had enough."""
    more = FEW | {"eval.lengths": (16, 32, 64)}
    folder, run = the_run(again), asked(lab, **more)
    item = Item(run, Folder(folder), run.config, run.asked())
    for size in (4_000, 5_000):
        free(size)
        found = execute(run, again)
        lacking = {(row.length, row.free) for row in found.rows if row.reason}
        assert lacking == {(length, size) for length in (16, 32, 64)}
        assert Folder(folder).answer(run.run.seeds, run.asked()) == found and not item.done
    free(10**9)
    whole = execute(run, again)
    assert not any(row.reason for row in whole.rows) and item.done
    alone = execute(run, shutil.copytree(tiny_run, again.parent / "alone"))
    assert (whole.rows, whole.curves) == (alone.rows, alone.curves)


def test_a_save_that_was_killed_begins_no_program(tmp_path):
    for name in ("0-1-2/25.orbax-checkpoint-tmp", "3-4/50", "5/corrupt-7"):
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
    assert Folder(tmp_path).begun_groups == [(3, 4)]
