"""scripts/benchmark: its arithmetic, its report, and that its sides train the same model."""

import json
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from pe_jax.encodings import make
from pe_jax.lm import LmConfig
from pe_jax.train import build
from scripts import benchmark
from scripts.benchmark_plain import PlainLM
from scripts.benchmark_sides import CALL, OURS, Shape, pe_jax, plain_jax

TINY = Shape(layers=2, model=16, heads=2, mlp=32, vocab=11, length=6, batch=3)


def test_interval_is_that_of_the_binomial():
    assert benchmark.interval(range(12)) == (2, 9)  # P(B(12, 1/2) <= 2) = 0.019, <= 3: 0.073
    assert benchmark.interval([3, 1, 2, 6, 5, 4]) == (1, 6)
    assert benchmark.interval(range(5)) is None  # P(B(5, 1/2) = 0) = 0.031


def test_ratios_are_paired_by_turn():
    times = {OURS: [10.0, 20.0, 40.0], "other": [20.0, 80.0, 50.0]}
    ours, other = benchmark.compare(times)
    assert (ours.ratio, ours.median, ours.low, ours.high) == (1.0, 20.0, 10.0, 40.0)
    assert other.ratio == 0.5  # the median of 0.5, 0.25, 0.8; the ratio of medians is 0.4


def test_sides_of_unequal_length_are_refused():
    with pytest.raises(ValueError, match="shorter"):
        benchmark.compare({OURS: [1.0, 2.0], "other": [1.0]})


def test_arguments():
    assert benchmark.arguments([]).pairs == 12
    assert benchmark.arguments(["--quick", "--pairs=9"]).pairs == 3
    assert benchmark.arguments(["--allocator=tcmalloc"]).allocator == "tcmalloc"


@pytest.mark.parametrize("wrong", ["--pairs=0", "--allocator=jemalloc", "--pair"])
def test_wrong_arguments_end_with_code_2(wrong, capsys):
    with pytest.raises(SystemExit) as error:
        benchmark.arguments([wrong])
    assert error.value.code == 2
    assert wrong.strip("-").partition("=")[0] in capsys.readouterr().err


def test_missing_allocator_says_what_to_install(monkeypatch):
    monkeypatch.setattr(benchmark.ctypes.util, "find_library", lambda name: None)
    with pytest.raises(ValueError, match="libtcmalloc_minimal"):
        benchmark.environment("tcmalloc")


def test_allocator_is_preloaded_only_on_request(monkeypatch):
    monkeypatch.setattr(benchmark.ctypes.util, "find_library", lambda name: f"lib{name}.so.4")
    monkeypatch.setenv("LD_PRELOAD", "libother.so")
    assert benchmark.environment("tcmalloc")["LD_PRELOAD"] == "libtcmalloc_minimal.so.4"
    assert "LD_PRELOAD" not in benchmark.environment("malloc")


def test_report_names_every_side_and_what_is_absent():
    facts = {
        "parameters": 853120,
        "threads": 2,
        "allocator": "tcmalloc",
        "form": "eager",
        "versions": {"jax": "0.10.2"},
    }
    times = {OURS: [10.0] * 6, "other": [20.0] * 5 + [40.0]}
    record = {
        "shape": vars(Shape()),
        "one_core": False,
        "pairs": 6,
        "machine": {"processor": "A processor", "cores": 2, "load_before": 0.1},
        "load_after": 0.2,
        "sides": dict.fromkeys(times, facts),
        "absent": ["a third"],
    }
    text = benchmark.markdown(record, benchmark.compare(times))
    (other,) = (line for line in text.splitlines() if line.startswith("| other"))
    assert "20 (20 - 40) | 0.500 (0.250 - 0.500) | 853,120 | 2 | tcmalloc" in other
    assert f"| a third | {benchmark.ABSENT} |" in text
    assert len({line.count("|") for line in text.splitlines() if line.startswith("|")}) == 1


def test_plain_jax_is_the_same_model():
    """With the weights of pe_jax.lm.LM, the same logits."""
    config = LmConfig(vocab=11, layers=2, model=16, heads=2, mlp=32)
    ours = build(config, make("rope", config.dims(6)), 0)
    weights = nnx.to_pure_dict(nnx.split(ours, nnx.Param)[1])
    graphdef, state = nnx.split(PlainLM(TINY, rngs=nnx.Rngs(0)))
    shapes = jax.tree.map(jnp.shape, nnx.to_pure_dict(state))
    weights = {name: weights[name] for name in shapes}
    for block in weights["blocks"].values():
        block["down"]["kernel"] = block["down"]["kernel"].T
    assert jax.tree.map(jnp.shape, weights) == shapes
    tokens = jnp.asarray(TINY.batches()[0, :, :-1])
    plain = nnx.merge(graphdef, weights)(tokens)
    np.testing.assert_allclose(plain, ours(tokens), rtol=1e-5, atol=1e-5)


def test_both_forms_count_the_same_parameters_and_train():
    """A step that did nothing would make a side look fast."""
    facts, step = pe_jax(TINY, "rope")
    plain, plain_step = plain_jax(TINY)
    assert (
        facts["parameters"]
        == plain["parameters"]
        == 11 * 16 * 2 + 2 * (2 * 32 * 16) + 2 * (4 * 16 * 16) + 16 * (2 * 2 + 1)
    )
    first, plain_first = step(CALL), plain_step(CALL)
    for _ in range(4):
        last, plain_last = step(CALL), plain_step(CALL)
    assert last < 0.9 * first
    assert plain_last < 0.9 * plain_first


def test_help_lists_the_options():
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "scripts.benchmark", "--help"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "--one_core" in done.stdout


def test_record_is_json(tmp_path):
    """Too few turns for an interval is null, which JSON knows; an infinite one it does not."""
    row = benchmark.compare({OURS: [1.0], "other": [2.0]})[1]
    text = json.dumps({"interval": row.interval}, allow_nan=False)
    assert json.loads(text) == {"interval": None}
