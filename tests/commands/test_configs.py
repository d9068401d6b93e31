"""The sweep over all encodings: every run passes all checks."""

from configs import encodings
from pe_jax.encodings import ENCODINGS
from pe_jax.runs.run import Run
from pe_jax.spec.parse import parse


def test_the_sweep_over_encodings_has_every_encoding_once(monkeypatch):
    monkeypatch.delenv("PE_JAX_CORPORA", raising=False)
    runs = [Run.of(config.to_dict()) for config in encodings.get_sweep()]
    used = {member.name for run in runs for member in parse(run.config["pe"]["spec"])}
    left_out = {"pi", "abacus", "position_coupling"}  # in training rope, and for addition alone
    assert used == set(ENCODINGS) - left_out
    assert len({run.id for run in runs}) == len(runs)
    assert all(run.run.seeds == (0, 1, 2) and run.data.source == "stdlib" for run in runs)
    monkeypatch.setenv("PE_JAX_CORPORA", "/texts")
    assert encodings.get_config().data.source == "files:$PE_JAX_CORPORA/novels"
