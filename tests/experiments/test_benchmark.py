"""scripts/benchmark: its arithmetic, its reports, and that its sides train the same model."""

import json
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from experiments.benchmark import __main__ as command
from experiments.benchmark import compared, encodings, profile, turns
from experiments.benchmark.encodings import Plan, exponent, misses
from experiments.benchmark.sides import (
    CALL,
    OURS,
    PlainLM,
    Workload,
    pass_of_pe_jax,
    pe_jax_side,
    plain_jax_side,
)
from pe_jax.model.config import LmConfig
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


def test_arguments():
    options = command.arguments(["passes", "x", "--swaps=pi,window(window=8,sinks=2)"])
    assert options.swaps == ["pi", "window(window=8,sinks=2)"] and options.turns == 6
    assert command.arguments(["passes", "x", "--lengths=512,64,512"]).lengths == [64, 512]
    assert command.arguments(["step", "--turns=9"]).turns == 9
    assert command.arguments(["encodings", "rope", "t5"]).names == ["rope", "t5"]


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
    (plain, _), (pi, _) = found["32"].values()
    assert plain["nats"] == pi["nats"]  # within training
    (plain, _), (pi, _) = found["48"].values()
    assert plain["nats"] != pi["nats"]
    assert (tmp_path / "passes.md").read_text().count("| pe_jax, pi |") == 2


def test_a_profile_gives_the_time_of_every_part():
    facts, ask = profile.side("rope", TINY)
    found = ask()
    assert found["parts"].keys() == profile.PARTS.keys()
    assert 0.2 * found["ms"] < sum(found["parts"].values()) < 1.01 * found["ms"] * os.cpu_count()
    record = {"machine": HOST, "load_after": 1.0, "shape": TINY.sizes(), "spec": "rope"} | facts
    text = profile.markdown(record | {"cores": {"1": [found] * 3, "2": [found]}})
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == 3 + len(profile.PARTS)
    assert rows[-1] == f"| the step | {found['ms']:.1f} |  | {found['ms']:.1f} |  |"


def test_the_model_of_a_run_is_timed_with_a_swap(quick_run):
    _, ask = pass_of_pe_jax(str(quick_run))
    whole, window = ask("16"), ask("16", "window(window=4)")
    assert whole["nats"] != window["nats"] and whole["temporaries_mib"] > 0


@pytest.fixture
def quick_run(tmp_path):
    from commands import tiny_on, write_text

    from pe_jax.runs.execute import execute
    from pe_jax.runs.run import Run

    config = tiny_on(write_text(tmp_path / "text")) | {"pe": "rope", "run": {"seeds": (0,)}}
    config["eval"]["lengths"] = (16,)
    run = Run.of(config)
    execute(run, tmp_path / "runs")
    return tmp_path / "runs" / run.id


def test_a_swap_stands_beside_the_other_library():
    sides = {"pe_jax": [2.0, 6.0], "transformers": [2.0, 4.0], "pe_jax, pi": [4.0, 10.0]}
    answers = {
        name: [{"ms": 1e3 * s, "nats": 1.5, "peak_mib": 100.0 * i} for s in seconds]
        for i, (name, seconds) in enumerate(sides.items(), 1)
    }
    about = {"machine": HOST, "load_after": 0.2, "model": "m", "turns": 2}
    about["sides"] = {
        "pe_jax": {"versions": {"jax": "1"}},
        "transformers": {"versions": {"t": "2"}},
    }
    text = compared.passes_markdown(about | {"lengths": {"32": answers}})
    assert "jax 1: its process had 300 MiB" in text and "t 2: its process had 200 MiB" in text
    assert "| pe_jax, pi | 7.0 (4.0 - 10.0) | 2.25 | 1.5000 |" in text  # median of 2 and 2.5
    assert "| transformers | 3.0 (2.0 - 4.0) | 1.00 |" in text


def test_the_report_of_a_step_names_every_side_and_what_is_absent():
    facts = {"parameters": 853120, "threads": 2, "allocator": "tcmalloc", "form": "eager"}
    times = {OURS: [10.0] * 6, "other": [20.0] * 5 + [40.0]}
    record = {
        "shape": Workload().sizes(),
        "one_core": False,
        "pairs": 6,
        "machine": HOST,
        "load_after": 0.2,
        "sides": dict.fromkeys(times, facts | {"versions": {"jax": "0.10.2"}}),
        "ms": times,
    }
    text = compared.step_markdown(record)
    (other,) = (line for line in text.splitlines() if line.startswith("| other"))
    assert "20 (20 - 40) | 0.500 (0.250 - 0.500) | 853,120 | 2 | tcmalloc" in other
    assert "| x-transformers, rope | n/a (not installed) |" in text
    assert len({line.count("|") for line in text.splitlines() if line.startswith("|")}) == 1


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
    assert (
        facts["parameters"]
        == plain["parameters"]
        == 11 * 16 * 2 + 2 * (2 * 32 * 16) + 2 * (4 * 16 * 16) + 16 * (2 * 2 + 1)
    )
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
    for one in (learned, kerple):
        (part,) = one["training"]
        ratios = [own / nope for own, nope in zip(part["ms"], part["ms_nope"], strict=True)]
        assert part["ratio"] == pytest.approx(sum(ratios) / 2)
        assert min(ratios) > 0 and part["interval"] is None
        assert part["memory"] > 0 and part["memory_ratio"] > 0
    assert (learned["group"], kerple["group"]) == ("input", "bias")
    assert [one["reason"] for one in learned["evaluation"]] == 2 * ["beyond its 8 positions"]
    assert 0.5 < exponent(kerple) < 2.5
    assert exponent(learned) is None
    text = (tmp_path / "encodings.md").read_text()
    assert "n/a (beyond its 8 positions)" in text and "too few turns" in text
    assert text in capsys.readouterr().out


def found(name, group="bias", times=(1.0, 1.0), memory=1.0, grows=2.0):
    """A record as `measure` makes it; memory of evaluation `grows` from one length to the next."""
    training = [
        {"length": length, "ratio": ratio, "interval": (ratio, ratio), "memory_ratio": memory}
        for length, ratio in zip((128, 1024), times, strict=True)
    ]
    evaluation = [{"length": 8, "memory": 2**20}, {"length": 16, "memory": grows * 2**20}]
    one = {"name": name, "spec": name, "group": group, "load": 0.1, "commit": "c" * 40}
    return one | {"training": training, "evaluation": evaluation}


def test_what_misses_its_aim_is_computed():
    assert misses(found("a", times=(1.16, 1.15), memory=1.15)) == ["time at 128"]
    assert misses(found("a", "content", (1.2, 1.5))) == []
    assert misses(found("a", "content", (1.51, 1.0), 1.51)) == [
        "time at 128",
        "memory at 128",
        "memory at 1,024",
    ]
    assert misses(found("a", grows=2.5)) == ["memory not linear"]
    unsure = found("a", times=(1.2, 1.0))
    unsure["training"][0]["interval"] = (1.1, 1.3)
    assert misses(unsure) == ["perhaps time at 128"]


def test_the_table_of_costs_is_in_their_order():
    plan = {"training": Plan.training, "evaluation": Plan.evaluation, "turns": 6}
    about = {"plan": plan, "shape": Workload().sizes(), "machine": HOST}
    about |= {"device": {"threads": 2}, "versions": {"jax": "1"}}
    every = [found("rope", times=(2.0, 1.0)), found("t5", times=(1.0, 1.1)), found("fire")]
    text = encodings.markdown({"about": about, "found": every})
    order = [line.split("`")[1] for line in text.splitlines() if line.startswith("| `")]
    assert order == ["fire", "t5", "rope"]
    assert "2 of 3 keep within it; not rope (time at 128)." in text
