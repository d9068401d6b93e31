"""Many devices: the losses, values and checkpoints of one."""

import dataclasses

import jax
import numpy as np
import pytest
from commands import result, rewrite, run_of
from test_train import CONFIG, LM

from pe_jax.runs.execute import evaluate_again, execute
from pe_jax.specs.parse import make
from pe_jax.storage.jsonl import History, read_lines
from pe_jax.training import mesh
from pe_jax.training.loop import train
from pe_jax.training.session import Session
from pe_jax.training.step import init, make_steps, structure

SEEDS = (0, 1, 2, 3)


def two_calls(spec: str):
    """(losses [6, 4], state, bytes of a device that the program gets) of two calls of three steps,
    with an encoding that draws positions, owns parameters, and drops out.
    """
    lm = dataclasses.replace(LM, dropout=0.1)
    encodings = make("randomized+t5", lm.dims(CONFIG.length))
    config = dataclasses.replace(CONFIG, batch=8)
    devices = mesh.make(spec)
    text = np.random.default_rng(0).integers(0, lm.vocab, (2, 3, 4, 8, CONFIG.length + 1))
    batches = [mesh.place_batches(devices, part) for part in text.astype(np.int32)]
    state = init(lm, encodings, config, SEEDS, devices)
    steps = make_steps(structure(lm, encodings)[0], config, SEEDS, devices)
    program = steps.lower(state, batches[0]).compile()
    size = program.memory_analysis().argument_size_in_bytes
    state, first = program(state, batches[0])
    state, second = program(state, batches[1])
    return np.concatenate([first["loss"], second["loss"]]), state, size


@pytest.fixture(scope="module")
def one_device():
    return two_calls("")


@pytest.mark.parametrize(
    "spec",
    [
        "seed:2,data:2,fsdp:2",
        *(
            pytest.param(slow, marks=pytest.mark.slow)
            for slow in ("data:8", "fsdp:8", "seed:4,data:2", "data:2,fsdp:4", "seed:2,fsdp:4")
        ),
    ],
)
def test_every_mesh_gives_the_losses_of_one_device(one_device, spec):
    """And each device holds its part of the parameters and of Adam's moments, and no more."""
    alone, whole, size = one_device
    losses, state, part = two_calls(spec)
    assert losses.shape == (6, 4) and np.ptp(losses) > 0.01
    np.testing.assert_allclose(losses, alone, atol=1e-5)
    sizes = mesh.parse(spec)
    (adam,) = (part for part in state["optimizer"][1] if hasattr(part, "mu"))
    for tree in (state["params"], adam.mu, adam.nu):
        for leaf in jax.tree.leaves(tree):
            parts = sizes["seed"] * (sizes["fsdp"] if leaf.ndim > 2 and leaf.size > 128 else 1)
            assert len(leaf.sharding.device_set) == 8
            assert leaf.addressable_shards[0].data.size * parts == leaf.size
    if sizes["fsdp"] > 1:  # but for vectors
        assert part < 1.2 * size / (sizes["seed"] * sizes["fsdp"]), (part, size)


def test_an_array_is_split_along_its_largest_axis_that_fits():
    shapes = {"square": (2, 12, 12), "long": (2, 6, 8), "odd": (2, 8, 30), "none": (2, 6, 5)}
    state = {"params": {name: jax.ShapeDtypeStruct(s, float) for name, s in shapes.items()}}
    state["params"]["vector"] = jax.ShapeDtypeStruct((2, 12), float)
    placed = mesh.shardings(mesh.make("fsdp:4"), state)["params"]
    assert {name: tuple(sharding.spec) for name, sharding in placed.items()} == {
        "square": ("seed", "fsdp"),
        "long": ("seed", None, "fsdp"),
        "odd": ("seed", "fsdp"),
        "none": ("seed",),
        "vector": ("seed",),
    }


@pytest.fixture
def runs(lab):
    """Tiny runs that differ in their devices alone."""

    def of(spec: str):
        return run_of("rope", **{"data.source": lab.text, "run.mesh": spec, "train.batch": 8})

    return of


@pytest.mark.slow
def test_a_run_on_a_mesh_scores_what_one_device_does(runs, tmp_path):
    one, many = runs(""), runs("data:4")
    assert one.id == many.id
    found = [execute(run, tmp_path / str(i)).rows for i, run in enumerate((one, many))]
    values = [[row.value for row in rows] for rows in found]
    np.testing.assert_allclose(values[1], values[0], atol=1e-4)
    recorded = [result(tmp_path / str(i) / one.id)["config"]["run"]["mesh"] for i in range(2)]
    assert recorded == ["", "data:4"]


@pytest.mark.slow
def test_a_run_of_many_devices_is_evaluated_where_there_are_fewer(runs, tmp_path):
    run = runs("")
    before = execute(run, tmp_path).rows
    more = run.config["run"] | {"mesh": "seed:2,data:8"}
    rewrite(tmp_path / run.id / "result.json", config=run.config | {"run": more})
    assert evaluate_again(tmp_path / run.id, {"swaps": ()}).rows == before[: len(before) // 2]
    alone = evaluate_again(tmp_path / run.id, {"swaps": ()}, (run.run.seeds[0],)).rows
    assert alone and {row.replica.number for row in alone} == {run.run.seeds[0]}


class Enough(Exception):
    pass


def trained(run, folder, spec: str, stop_at: int | None = None):
    """(state, last line of metrics.jsonl) after training that goes on in the folder; with `stop_at`
    it is cut off after as many calls.
    """
    path = folder / "metrics.jsonl"
    folder.mkdir(exist_ok=True)

    def stop(save):
        if stop_at and len(read_lines(path)) >= stop_at:
            save()
            raise Enough

    session = Session(History(path), stop, mesh.make(spec))
    model = run.lm, run.encodings, run.train, run.run.seeds, run.load().trained.splits["train"]
    state, _ = train(*model, folder / "checkpoints", session)
    steps = [line["step"] for line in read_lines(path)]
    assert steps == sorted(set(steps)) and steps[-1] == run.train.steps == state["step"]
    return state, read_lines(path)[-1]


@pytest.fixture(scope="module")
def undisturbed(lab, tmp_path_factory):
    """The same on one device alone."""
    run = run_of("rope", **{"data.source": lab.text, "train.batch": 8})
    return trained(run, tmp_path_factory.mktemp("undisturbed"), "")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "data:2,fsdp:4"),
        pytest.param("fsdp:8", "", marks=pytest.mark.slow),
        pytest.param("data:8", "data:2", marks=pytest.mark.slow),
    ],
)
def test_a_checkpoint_moves_between_devices(runs, undisturbed, tmp_path, before, after):
    """Trained by some devices to its middle, by others to its end, and read by one."""
    run = runs("")
    with pytest.raises(Enough):
        trained(run, tmp_path, before, stop_at=3)
    state, line = trained(run, tmp_path, after)
    jax.tree.map(np.testing.assert_array_equal, state, trained(run, tmp_path, "")[0])
    np.testing.assert_allclose(line["loss"], undisturbed[1]["loss"], atol=1e-5)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("data", ("axis:size", "'data'")),
        ("date:2", ("seed, data and fsdp", "date:2")),
        ("data:0", ("data:0",)),
        ("data:3", ("data:3", "does not divide", "train.batch", "8")),
        ("data:4,fsdp:4", ("data:4,fsdp:4", "does not divide", "train.batch", "8")),
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
