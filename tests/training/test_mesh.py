"""Many devices: the losses, values and checkpoints of one."""

import dataclasses

import jax
import numpy as np
import pytest
from commands import Lab, result, run_of, the_run
from test_train import CONFIG, LM

from pe_jax.runs.execute import execute
from pe_jax.spec.parse import make
from pe_jax.storage.history import History, read_lines
from pe_jax.training import mesh
from pe_jax.training.loop import train
from pe_jax.training.session import Session
from pe_jax.training.step import init, make_steps, structure

SEEDS = (0, 1, 2, 3)
MESHES = ("data:8", "seed:4,data:2")


def losses(spec: str, steps: int = 3) -> np.ndarray:
    """Of a few steps with an encoding that draws positions, owns parameters, and drops out."""
    lm = dataclasses.replace(LM, dropout=0.1)
    encodings = make("randomized+t5", lm.dims(CONFIG.length))
    config = dataclasses.replace(CONFIG, batch=8)
    devices = mesh.make(spec)
    steps_of = make_steps(structure(lm, encodings)[0], config, SEEDS, devices)
    text = np.random.default_rng(0).integers(0, lm.vocab, (steps, 4, 8, CONFIG.length + 1))
    state = mesh.place_state(devices, init(lm, encodings, config, SEEDS))
    state, out = steps_of(state, mesh.place_batches(devices, text.astype(np.int32)))
    if devices:
        leaf = jax.tree.leaves(state["params"])[0]
        assert len(leaf.sharding.device_set) == devices.size
    return np.asarray(out["loss"])


def test_every_mesh_gives_the_losses_of_one_device():
    alone = losses("")
    assert alone.shape == (3, 4) and np.ptp(alone) > 0.01
    for spec in MESHES:
        np.testing.assert_allclose(losses(spec), alone, atol=1e-5, err_msg=spec)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    cache = tmp_path_factory.getbasetemp() / "programs"
    return Lab(tmp_path_factory.mktemp("lab"), cache)


@pytest.fixture
def runs(lab):
    """Tiny runs that differ in their devices alone."""

    def of(spec: str):
        return run_of("rope", **{"data.source": lab.text, "run.mesh": spec, "train.batch": 8})

    return of


def test_a_run_on_a_mesh_scores_what_one_device_does(runs, tmp_path):
    one, many = runs(""), runs("data:4")
    assert one.id == many.id
    found = [execute(run, tmp_path / str(i)).rows for i, run in enumerate((one, many))]
    values = [[row.value for row in rows] for rows in found]
    np.testing.assert_allclose(values[1], values[0], atol=1e-4)


def test_a_checkpoint_moves_between_devices(runs, tmp_path):
    """Trained by 8 devices to its middle, by 2 to its end, and read by 1."""
    run = runs("")
    documents = run.load().splits["train"]

    class Enough(Exception):
        pass

    path = tmp_path / "metrics.jsonl"

    def on(spec: str, stop_at: int | None = None):
        def stop(save):
            if stop_at and len(read_lines(path)) >= stop_at:
                save()
                raise Enough

        session = Session(History(path), print, stop, mesh.make(spec))
        where = tmp_path / "checkpoints"
        args = (run.lm, run.encodings, run.train, run.run.seeds, documents, where, session)
        return train(*args)[0]

    with pytest.raises(Enough):
        on("data:8", stop_at=2)
    done = on("data:2")
    assert done["step"] == run.train.steps
    again = on("")
    jax.tree.map(np.testing.assert_array_equal, done, again)
    steps = [line["step"] for line in read_lines(path)]
    assert steps == sorted(set(steps))


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("data", ("axis:size", "'data'")),
        ("date:2", ("seed and data", "date:2")),
        ("data:0", ("data:0",)),
        ("data:3", ("data:3", "does not divide", "train.batch", "8")),
        ("seed:3", ("seed:3", "does not divide", "2 seeds")),
    ],
)
def test_a_mesh_that_does_not_fit_is_refused(runs, spec, said):
    with pytest.raises(ValueError) as error:
        runs(spec)
    for part in said:
        assert part in str(error.value)


def test_more_devices_than_there_are_is_refused_before_anything_is_written(lab, tmp_path):
    flags = {"run.mesh": "data:16", "train.batch": 16}
    done = lab.run(tmp_path / "runs", **flags).wait()
    assert done.code == 2 and "needs 16 devices, there are 8" in done.err, done.err
    assert "Traceback" not in done.err and not (tmp_path / "runs").exists()


def test_the_record_says_how_many_devices_there_were(lab, tmp_path):
    done = lab.run(tmp_path / "runs", **{"run.mesh": "data:2", "train.batch": 8}).wait()
    assert done.code == 0, done.err
    assert result(the_run(tmp_path / "runs"))["config"]["run"]["mesh"] == "data:2"
