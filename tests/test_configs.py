"""The sweeps in configs/: every run of theirs passes all checks."""

import importlib
from pathlib import Path

import pytest

from pe_jax.encodings import ENCODINGS, parse
from pe_jax.run import Run

SWEEPS = [
    path.stem
    for path in sorted((Path(__file__).parents[1] / "configs").glob("*.py"))
    if "def get_sweep" in path.read_text() and path.stem != "pi"  # starts from a finished run
]


def runs(name):
    module = importlib.import_module(f"configs.{name}")
    return [Run.of(config.to_dict()) for config in module.get_sweep()]


@pytest.mark.parametrize("name", SWEEPS)
def test_every_run_of_a_sweep_is_one_that_can_be_trained(name):
    found = runs(name)
    assert len({run.id for run in found}) == len(found) > 1
    assert all(run.run.seeds == (0, 1, 2) for run in found)


def test_the_sweep_over_encodings_has_every_encoding(monkeypatch):
    monkeypatch.delenv("PE_JAX_CORPORA", raising=False)
    found = runs("encodings")
    used = {member.name for run in found for member in parse(run.config["pe"]["spec"])}
    assert used == set(ENCODINGS) - {"pi"}  # in training it is rope
    assert {run.data.source for run in found} == {"stdlib"}
    monkeypatch.setenv("PE_JAX_CORPORA", "/texts")
    assert {run.data.source for run in runs("encodings")} == {"files:$PE_JAX_CORPORA/novels"}
