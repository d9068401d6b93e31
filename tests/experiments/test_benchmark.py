"""scripts/benchmark: its arithmetic, its reports, and that its sides train the same model."""

import json
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from commands import tiny_on, write_text
from flax import nnx

from experiments.benchmark import __main__ as command
from experiments.benchmark import compared, data, encodings, masked, profile, turns
from experiments.benchmark.encodings import Plan, exponent
from experiments.benchmark.sides import (
    CALL,
    PlainLM,
    Workload,
    pass_of_pe_jax,
    pe_jax_side,
    plain_jax_side,
)
from pe_jax.data.load import load
from pe_jax.model.config import LmConfig
from pe_jax.runs.execute import execute
from pe_jax.runs.run import Run
from pe_jax.specs.parse import make
from pe_jax.training.config import TrainConfig
from pe_jax.training.step import build

ROOT = Path(__file__).parents[2]
TINY = Workload(
    LmConfig(vocab=11, layers=2, model=16, heads=2, mlp=32),
    TrainConfig(length=6, batch=3, steps_per_call=CALL),
)
HOST = {"processor": "A processor", "cores": 2, "load_before": 0.1}


def test_ratios_are_paired_and_their_interval_is_that_of_the_binomial():
    assert turns.ratio([10.0, 20.0, 40.0], [20.0, 80.0, 50.0]) == (0.5, None)  # of 0.5, 0.25, 0.8
    # P(B(12, 1/2) <= 2) = 0.019, <= 3: 0.073
    assert turns.ratio(range(12), [1] * 12).interval == (2, 9)
    assert turns.ratio([3, 1, 2, 6, 5, 4], [1] * 6).interval == (1, 6)
    assert turns.ratio(range(5), [1] * 5).interval is None  # P(B(5, 1/2) = 0) = 0.031
    with pytest.raises(ValueError, match="shorter"):
        turns.ratio([1.0, 2.0], [1.0])


@pytest.mark.parametrize("wrong", ["step --turns=0", "step --pair", "passes x --lengths=long"])
def test_wrong_arguments_end_with_code_2(wrong, capsys):
    with pytest.raises(SystemExit) as error:
        command.arguments(wrong.split())
    assert error.value.code == 2
    assert wrong.split()[-1].partition("=")[0] in capsys.readouterr().err


def test_a_model_is_timed_at_every_length_with_every_swap(tmp_path, monkeypatch):
    monkeypatch.setattr(compared, "PASSES", {"pe_jax": None})
    source = f"hf:{ROOT / 'tests' / 'golden' / 'pretrained' / 'llama_tied'}"
    compared.passes(source, (32, 48), ["pi"], 2, tmp_path)
    found = json.loads((tmp_path / "passes.json").read_text())["lengths"]
    assert found.keys() == {"32", "48"}
    for answers in found.values():
        assert answers.keys() == {"pe_jax", "pe_jax, pi"}
        assert all(turn["ms"] > 0 for given in answers.values() for turn in given)
    for length, equal in ("32", True), ("48", False):  # within training, and beyond
        (plain, _), (pi, _) = found[length].values()
        assert (plain["nats"] == pi["nats"]) is equal
    assert (tmp_path / "passes.md").read_text().count("| pe_jax, pi |") == 2


def test_text_is_written_in_documents_of_the_size_that_was_asked_for(tmp_path):
    source = f"files:{write_text(tmp_path / 'text')}"
    data.write(tmp_path / "rows", source, 300_000, 400)
    sizes = np.concatenate([d.sizes for d in load(f"files:{tmp_path / 'rows'}").splits.values()])
    assert 280_000 < sizes.sum() < 320_000 and 350 < np.median(sizes) < 450


def test_a_profile_gives_the_time_of_every_part():
    facts, ask = profile.side("rope", TINY)
    found = ask()
    assert found["parts"].keys() == profile.PARTS.keys()
    assert min(found["parts"].values()) > 0
    assert sum(found["parts"].values()) < 1.01 * found["ms"] * os.cpu_count()
    record = {"machine": HOST, "load_after": 1.0, "shape": TINY.sizes(), "spec": "rope"} | facts
    text = profile.markdown(record | {"cores": {"1": [found] * 3, "2": [found]}})
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == 3 + len(profile.PARTS)
    assert rows[-1] == f"| the step | {found['ms']:.1f} |  | {found['ms']:.1f} |  |"


def test_a_step_of_an_encoder_is_timed_beside_decoders(tmp_path, monkeypatch):
    monkeypatch.setattr(masked, "LENGTHS", (8,))
    masked.run(1, tmp_path, TINY)
    record = json.loads((tmp_path / "masked.json").read_text())
    assert min(ms for (ms,) in record["lengths"]["8"].values()) > 0
    record["lengths"]["8"] = {side: [ms] for side, ms in zip(masked.SIDES, (3, 2, 4), strict=True)}
    assert "| 8 | 3 | 2 | 4 | 1.500 (too few turns) | 0.750" in masked.markdown(record)


def test_the_model_of_a_run_is_timed_with_a_swap(tmp_path):
    config = tiny_on(write_text(tmp_path / "text")) | {"pe": "rope", "run": {"seeds": (0,)}}
    config["eval"]["lengths"] = (16,)
    execute(run := Run.of(config), tmp_path / "runs")
    _, ask = pass_of_pe_jax(str(tmp_path / "runs" / run.id))
    whole, window = ask("16"), ask("16", "window(window=4)")
    assert whole["nats"] != window["nats"] and whole["temporaries_mib"] > 0


def test_plain_jax_is_the_same_model():
    """With the weights of pe_jax.model.lm.LM, the same logits."""
    ours = build(TINY.lm, make("rope", TINY.lm.dims(6)), 0)
    weights = nnx.to_pure_dict(nnx.split(ours, nnx.Param)[1])
    graphdef, state = nnx.split(PlainLM(TINY.lm, rngs=nnx.Rngs(0)))
    shapes = jax.tree.map(jnp.shape, nnx.to_pure_dict(state))
    weights = {name: weights[name] for name in shapes}
    for block in weights["blocks"].values():
        block["down"]["kernel"] = block["down"]["kernel"].T
    assert jax.tree.map(jnp.shape, weights) == shapes
    tokens = jnp.asarray(TINY.batches()[0, :, :-1])
    plain = nnx.merge(graphdef, weights)
    got, (want, _) = jax.jit(lambda tokens: (plain(tokens), ours(tokens)))(tokens)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_both_forms_count_the_same_parameters_and_train():
    """A step that did nothing would make a side look fast."""
    facts, step = pe_jax_side(TINY, "rope")
    plain, plain_step = plain_jax_side(TINY)
    size = 11 * 16 * 2 + 2 * (2 * 32 * 16) + 2 * (4 * 16 * 16) + 16 * (2 * 2 + 1)
    assert facts["parameters"] == plain["parameters"] == size
    for ask in (step, plain_step):
        losses = [ask()["loss"] for _ in range(6)]
        assert losses[-1] < 0.9 * losses[0]


SMALL = Plan(Workload(LmConfig(vocab=11, layers=1, model=16, heads=2, mlp=32)), ((8, 2, 1),))


@pytest.mark.slow
def test_an_encoding_is_measured_against_nope(tmp_path, capsys):
    """`learned` serves no more positions than it was trained on."""
    plan = Plan(SMALL.work, SMALL.training, (32, 64), turns=2)
    with pytest.raises(ValueError, match="did you mean 'alibi'?"):
        encodings.run(["learned", "alibo"], plan, tmp_path)
    assert not any(tmp_path.iterdir())
    encodings.run(["learned", "kerple_log"], plan, tmp_path)
    learned, kerple = json.loads((tmp_path / "encodings.json").read_text())["found"]
    for (part,) in (learned["training"], kerple["training"]):
        ratios = [own / nope for own, nope in zip(part["ms"], part["ms_nope"], strict=True)]
        assert part["ratio"] == pytest.approx(sum(ratios) / 2)
        assert min(ratios) > 0 and part["interval"] is None
        assert part["memory"] > 0 and part["memory_ratio"] > 0
    assert (learned["group"], kerple["group"]) == ("input", "bias")
    assert [one["reason"] for one in learned["evaluation"]] == 2 * ["beyond its 8 positions"]
    assert exponent(learned) is None and 0.5 < exponent(kerple) < 2.5
    text = (tmp_path / "encodings.md").read_text()
    assert "n/a (beyond its 8 positions)" in text and "too few turns" in text
    assert text in capsys.readouterr().out
