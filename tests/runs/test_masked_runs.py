"""Runs on masked text: encoders, diffusion models, and a refusal of what needs a decoder."""

import dataclasses

import numpy as np
import pytest

from pe_jax import Trained
from pe_jax.report import groups
from pe_jax.runs.execute import evaluate_again, execute
from pe_jax.runs.run import Run

CONFIG = {
    "pe": "rope",
    "task": {"name": "masked_text", "rate": "uniform"},
    "lm": {"layers": 1, "model": 16, "heads": 2},
    "train": {"length": 8, "steps": 40, "batch": 16, "steps_per_call": 20, "rate": 0.03},
    "eval": {"lengths": (8, 16), "targets": 512, "swaps": ("ntk",)},
    "run": {"seeds": (0,)},
}
LETTERS = np.frombuffer(b"ab", np.uint8)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Random letters of two kinds: 1 bit a byte, from whatever context."""
    path = tmp_path_factory.mktemp("text") / "letters.txt"
    path.write_bytes(np.random.default_rng(0).choice(LETTERS, 20_000).tobytes())
    return {"data": {"source": f"files:{path}"}}


@pytest.fixture(scope="module")
def finished(text, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("runs")
    return execute(Run.of(CONFIG | text), workdir), workdir


def test_the_bound_of_random_letters_is_a_bit_and_not_below(finished):
    """But for the sampling error of tokens that are hidden 8 times each."""
    result, _ = finished
    assert {row.metric for row in result.rows} == {"diffusion_bound"} and len(result.rows) == 4
    assert all(0.9 < row.value < 1.3 for row in result.rows)
    assert all(0.9 < valid < 1.3 for valid in result.train.valid)
    assert result.config["lm"]["causal"] is False and result.config["eval"]["rate"] == 0.3


def test_it_is_scored_again_by_other_metrics_and_rates(finished):
    result, workdir = finished
    changes = {"metrics": ("masked_tokens", "first_choices", "pseudo_perplexity"), "rate": 0.5}
    again = evaluate_again(workdir / result.id, changes | {"targets": 64, "swaps": ()})
    value = {row.metric: row.value for row in again.rows if row.length == 16}
    assert 0.9 < value["masked_tokens"] < 1.3 and 20 < value["first_choices"] < 80
    assert value["pseudo_perplexity"] == pytest.approx(2, abs=0.3)


def test_the_task_alone_makes_another_run_that_is_not_ranked_with_decoders(text, finished):
    result, _ = finished
    runs = [Run.of(CONFIG | text | {"task": task}) for task in ("text", "masked_text")]
    runs.append(Run.of(CONFIG | text))
    assert len({run.id for run in runs}) == 3
    assert [run.lm.causal for run in runs] == [True, False, False]
    assert [run.lm.vocab for run in runs] == [256, 257, 257]
    conditions = [groups.conditions(dataclasses.replace(result, config=run.config)) for run in runs]
    assert len({tuple(sorted(map(str, one.items()))) for one in conditions}) == 3


def test_it_is_not_decoded(finished):
    result, workdir = finished
    model = Trained.of(workdir / result.id)
    assert np.isfinite(model.logits([97, 256, 98])).all()
    with pytest.raises(ValueError, match="only a causal model can be decoded"):
        model.generate("ab", 3)
