"""Starting from another run: what is taken over, what is refused, and what identifies the child."""

import json
import shutil
import signal

import jax
import numpy as np
import pytest
from commands import damage, lines, messages, result, rewrite, run_of, stop_at, the_run

from pe_jax import errors
from pe_jax.configs import replay
from pe_jax.runs.execute import execute
from pe_jax.runs.run import Run
from pe_jax.storage import hashes
from pe_jax.storage.checkpoints import Checkpoints, flat
from pe_jax.storage.hashes import canonical
from pe_jax.training import step

# the tasks that Orbax leaves when a file is missing complain as they are collected
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


QUICK = {
    "train.steps": 4,
    "eval.lengths": (16,),
    "eval.last": 8,
    "eval.metrics": ("same_targets",),
    "eval.swaps": (),
}


def trained(lab, spec, **values):
    """The folder of a finished run of a few steps."""
    run = run_of(spec, **{"data.source": lab.text} | QUICK | values)
    execute(run, lab.folder / "parents")
    return lab.folder / "parents" / run.id


@pytest.fixture(scope="module")
def parent(lab):
    return trained(lab, "learned+t5")


@pytest.fixture(scope="module")
def rope(lab):
    return trained(lab, "rope")


def child(lab, parent, spec, **values):
    """The Run of `spec` that starts from a folder."""
    values = {"data.source": lab.text, "train.init_from": str(parent)} | QUICK | values
    return run_of(spec, **values)


def begun(run, seeds):
    """The parameters before the first step, those that are drawn at random as 7."""
    _, shapes = step.structure(run.lm, run.encodings)
    params = jax.tree.map(lambda a: np.full((len(seeds), *a.shape), 7, a.dtype), shapes)
    state = {"params": params, "optimizer": "fresh", "step": 0}
    begun = run.init_from(state, seeds)
    assert begun["optimizer"] == "fresh" and begun["step"] == 0
    return begun["params"]


def stored(folder, group, step=4):
    arrays = Checkpoints(folder / "checkpoints" / group, read_only=True).load(step)
    return {name.removeprefix("params."): np.asarray(a) for name, a in arrays.items()}


# What is taken over


def test_every_parameter_of_the_same_spec_is_the_parents(lab, parent):
    run = child(lab, parent, "learned+t5")
    assert run.init_from.record.new == ()
    assert all(here == there for here, there in run.init_from.taken.items())
    theirs = stored(parent, "0-1")
    for name, array in flat(begun(run, (0, 1))).items():
        np.testing.assert_array_equal(array, theirs[name], name)


def test_another_spec_keeps_what_it_names_wherever_it_stands(lab, parent):
    run = child(lab, parent, "transformer_xl+t5+learned")
    names = {"pe.transformer_xl.u", "pe.transformer_xl.v", "pe.transformer_xl.layers.0.r"}
    assert set(run.init_from.record.new) == names
    theirs = stored(parent, "0-1")
    for name, array in flat(begun(run, (0, 1))).items():
        if name.startswith(("shared.0", "owned")):
            assert (array == 7).all()
        else:  # learned and t5 are members 0 and 1 there, 2 and 1 here
            np.testing.assert_array_equal(array, theirs[name.replace("shared.2", "shared.0")], name)


def test_each_seed_starts_from_the_same_seed_however_the_parent_trained_them(lab, parent, rope):
    for folder, spec, groups in ((parent, "learned+t5", "0-1"), (rope, "rope", "0-1")):
        one = begun(child(lab, folder, spec, **{"run.seeds": (1,)}), (1,))["embedding"]
        np.testing.assert_array_equal(one[0], stored(folder, groups)["embedding"][-1])
    both = begun(child(lab, rope, "rope", **{"run.seeds": (1, 0)}), (1, 0))["embedding"]
    np.testing.assert_array_equal(both[0], one[0])
    assert (both[0] != both[1]).any()


def test_positions_can_be_interpolated_or_added_to_at_a_longer_length(lab, rope):
    for spec, new in (("pi(factor=2.0)", ()), ("rope+t5", ("pe.t5.table",))):
        run = child(lab, rope, spec, **{"train.length": 32})
        assert run.init_from.record.new == new
        assert run.label == f"{spec} from rope" and run.encodings[0].dims.train_len == 32


def test_more_layers_are_new_and_fewer_are_lost(lab, rope):
    more = child(lab, rope, "rope", **{"lm.layers": 2}).init_from
    new = more.record.new
    assert new and all(name.startswith("blocks.1.") for name in new)
    with pytest.raises(ValueError, match=r"has head\.kernel, .* none here"):
        child(lab, rope, "rope", **{"lm.tie_embeddings": True})


# What is refused


@pytest.mark.parametrize(
    ("spec", "values", "words"),
    [
        ("t5", {}, ["has pe.learned.table, ", "and none here"]),
        (
            "learned+t5",
            {"train.length": 32},
            [r"pe.learned.table has the shape \[16, 16\]", r"there and \[32, 16\] here"],
        ),
        ("learned+t5", {"lm.mlp": 24}, [r"\[16, 64\] there and \[16, 24\] here"]),
        ("learned+t5", {"lm.heads": 4}, ["lm.heads is 2 in", "and 4 here"]),
        ("learned+t5", {"run.seeds": (1, 7, 8)}, ["has the seeds 0, 1, not 7, 8", "run.seeds"]),
    ],
)
def test_what_does_not_fit_is_refused_with_a_remedy(lab, parent, spec, values, words):
    for word in words:
        with pytest.raises(ValueError, match=word):
            child(lab, parent, spec, **values)


def test_a_table_of_the_parents_length_fits_a_longer_training(lab, parent):
    values = {"train.length": 32, "pe.learned.length": 16, "pe.learned.clip": True}
    assert child(lab, parent, "learned+t5", **values).init_from.record.new == ()


def test_a_folder_that_is_no_finished_run_is_told(lab, parent, tmp_path):
    for path, words in (
        (tmp_path / "none", "is no folder of"),
        (str(parent)[:-1] + "x", f"did you mean '{parent.name.replace('+', '.')}'"),
        ("$NOWHERE_AT_ALL/run", "variable NOWHERE_AT_ALL of train.init_from is not set"),
    ):
        with pytest.raises(ValueError, match=words):
            child(lab, path, "learned+t5")
    copy = shutil.copytree(parent, tmp_path / "copy")
    whole = result(copy)
    whole["config"]["train"]["init_from"] = "hf:llama"
    rewrite(copy / "result.json", config=whole["config"], train=whole["train"] | {"steps": 0})
    with pytest.raises(ValueError, match="has scores alone, of the model hf:llama: start from"):
        child(lab, copy, "learned+t5")
    (copy / "result.json").unlink()
    with pytest.raises(ValueError, match="no folder of a finished run"):
        child(lab, copy, "learned+t5")
    (copy / "result.json").write_text("{")
    with pytest.raises(errors.Refused, match="is damaged"):
        child(lab, copy, "learned+t5")


def test_a_checkpoint_that_is_gone_or_damaged_is_refused_and_left_alone(lab, parent, tmp_path):
    copy = shutil.copytree(parent, tmp_path / "copy")
    run = child(lab, copy, "learned+t5")
    step = copy / "checkpoints/0-1/4"
    damage(step)
    before = sorted(copy.rglob("*"))
    with pytest.raises(errors.Refused, match="step 4 .* is damaged"):
        begun(run, (0, 1))
    assert sorted(copy.rglob("*")) == before
    shutil.rmtree(step)
    with pytest.raises(ValueError, match="has no checkpoints"):
        child(lab, copy, "learned+t5")


# Identity


def test_an_id_depends_on_what_the_parent_is_and_not_on_where_it_lies(
    lab, parent, rope, tmp_path, monkeypatch
):
    first = child(lab, parent, "learned+t5").id
    copy = shutil.copytree(parent, tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RUNS", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    places = ("$RUNS/elsewhere", "${RUNS}/elsewhere", "~/elsewhere")
    for path in (copy, "elsewhere", "./elsewhere/", *places):
        assert child(lab, path, "learned+t5").id == first
    assert first.startswith("learned+t5_from_learned+t5-")

    arrays = Checkpoints(copy / "checkpoints/0-1").load(4)
    arrays["params.embedding"] = arrays["params.embedding"] + 1
    shutil.rmtree(copy / "checkpoints/0-1/4")
    Checkpoints(copy / "checkpoints/0-1").save(4, arrays, {"seconds": 0.0})
    others = {child(lab, copy, "learned+t5").id, child(lab, rope, "rope").id}
    others |= {run_of("learned+t5", **{"data.source": lab.text}).id, first}
    assert len(others) == 4


# Runs


SPEC = "pi(factor=2.0)+t5"
LONG = {"train.length": 32, "eval.last": 8}


@pytest.fixture(scope="module")
def whole(lab, rope):
    """The folder of a child that nothing disturbed, and what was said."""
    values = {"data.source": lab.text, "train.init_from": str(rope)}
    with messages() as said:
        execute(run_of(SPEC, **values | LONG), lab.folder / "child", verbose=False)
    return the_run(lab.folder / "child"), " ".join(said)


def test_the_record_names_the_parent_and_what_is_new(whole, rope):
    folder, words = whole
    found, before = result(folder), result(rope)
    parent = found["parent"]
    assert parent["id"] == before["id"] == rope.name and parent["label"] == "rope"
    assert parent["commit"] == before["commit"] and len(parent["parameters"]) == 64
    assert parent["config"] == hashes.sha256(canonical(before["config"]))
    assert parent["new"] == ["pe.t5.table"] and parent["dropped"] == []
    assert json.loads((folder / "config.json").read_text())["parent"] == parent
    assert before["parent"] is None
    assert f"starting from {rope.name}" in words and "new: pe.t5.table" in words
    assert Run.of(replay.get_config(str(folder / "result.json")).to_dict()).id == folder.name


@pytest.mark.slow
def test_a_child_killed_and_resumed_ends_the_same(lab, whole, rope, tmp_path):
    folder = tmp_path / whole[0].name

    def start():
        return lab.run(tmp_path, SPEC, **LONG, **{"train.init_from": str(rope)})

    def steps():
        return max((line.get("step", 0) for line in lines(folder)), default=0)

    for least in (2, 6):
        at_work = start().until(lambda least=least: steps() >= least)
        killed = at_work.stop(signal.SIGKILL)
        assert killed.code == -signal.SIGKILL
        assert not (folder / "result.json").exists()
    resumed = start().wait()
    assert resumed.code == 0 and "going on from step" in resumed.err, resumed.err
    got, want = result(folder), result(whole[0])
    for part in ("digests", "rows", "curves", "parent"):
        assert got[part] == want[part], part


def test_a_refusal_of_the_command_is_one_line_and_writes_nothing(lab, parent, tmp_path):
    flags = (f"--config.train.init_from={parent}", f"--workdir={tmp_path / 'runs'}")
    done = lab.start("sweep", "--config=configs/base.py:pe=nope", *flags).wait()
    assert done.code == 2 and len(done.err.splitlines()) == 1, done.err
    assert done.err.startswith("pe-jax sweep: ") and "run.seeds" in done.err
    assert not (tmp_path / "runs").exists()


def test_a_child_begins_where_its_parent_ended(lab, whole):
    first = lines(whole[0])[0]["loss"]
    workdir = lab.folder / "anew"
    with pytest.raises(KeyboardInterrupt), stop_at(2):
        execute(run_of(SPEC, **{"data.source": lab.text} | LONG), workdir, verbose=False)
    anew = lines(the_run(workdir))[0]["loss"]
    assert all(a < b - 0.1 for a, b in zip(first, anew, strict=True))


def test_a_program_of_the_parent_that_is_gone_is_refused(lab, tmp_path):
    for seeds in ((0,), (0, 1)):
        run = run_of("rope", **{"data.source": lab.text, "run.seeds": seeds} | QUICK)
        execute(run, tmp_path)
    shutil.rmtree(tmp_path / run.id / "checkpoints/1")
    started = child(lab, tmp_path / run.id, "rope", **{"run.seeds": (1,)})
    with pytest.raises(errors.Refused, match="damaged or gone"):
        started.init_from.read((1,), "float32")
