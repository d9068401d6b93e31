"""A pretrained encoder: special tokens, training, default swaps, what is refused."""

import json
import math
import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pe_jax.commands.extend import _usual_swaps
from pe_jax.evaluation.windows import windows
from pe_jax.pretrained.export import with_scaling
from pe_jax.pretrained.load import load
from pe_jax.pretrained.served import programs
from pe_jax.pretrained.source import Source
from pe_jax.runs.execute import evaluate_again, execute
from pe_jax.runs.run import Run
from pe_jax.tasks.masked_text import MaskedText
from pe_jax.training.config import TrainConfig
from pe_jax.training.step import init, make_steps

GOLDEN = Path(__file__).parents[1] / "golden" / "pretrained"
CLS, SEP, MASK = 257, 258, 259
METRICS = ("masked_tokens", "first_choices", "pseudo_perplexity", "diffusion_bound")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The golden model without its scaling."""
    out = Path(shutil.copytree(GOLDEN / "modernbert", tmp_path_factory.mktemp("m") / "modernbert"))
    config = json.loads((out / "config.json").read_text())
    config["rope_parameters"]["full_attention"] = {"rope_type": "default", "rope_theta": 500.0}
    (out / "config.json").write_text(json.dumps(config))
    return out


@pytest.fixture(scope="module")
def model(folder):
    return load(f"hf:{folder}")


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    words = np.random.default_rng(0).choice(["the ", "path ", "of ", "a ", "moth\n"], 300)
    path = tmp_path_factory.mktemp("book") / "book.txt"
    path.write_text("".join(words))
    return path


def run_of(folder, book, **fields):
    asked = {"lengths": (48,), "metrics": METRICS, "swaps": ("pi",), "targets": 24, "last": 12}
    return Run.pretrained(f"hf:{folder}", f"files:{book}", asked | fields)


def test_a_text_stands_between_its_special_tokens(model):
    assert model.lm.special == (MASK, CLS, SEP) and not model.lm.causal
    ids = model.encode("the path")
    assert (ids[0], ids[-1]) == (CLS, SEP) and model.decode(ids) == "[CLS]the path[SEP]"
    with pytest.raises(ValueError, match="only a causal model can be decoded"):
        model.generate("the", 3)


def wanted(model, cut, number, each, swap):
    """(bits, share of right first choices, perplexity) of a place, from the logits of its windows
    between [CLS] and [SEP].
    """
    rows = slice(number * each, (number + 1) * each)
    nats, sizes, right = [], [], []
    for i, (row, scored) in enumerate(zip(cut.tokens[rows], cut.scored[rows], strict=True)):
        whole = np.where(row < 0, ~row, row)[1:]
        read = np.where(row < 0, MASK, row)[1:]
        assert not scored[[0, -1]].any()
        logits = model.logits(np.array([CLS, *read[1:-1], SEP]), swap=swap).astype(np.float64)
        log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        at = np.flatnonzero(scored)
        weights = 1.0 if cut.weights is None else cut.weights[number * each + i, at]
        nats += (-log_p[at, whole[at]] * weights).tolist()
        sizes += model.tokenizer.sizes[whole[at]].tolist()
        right += (logits[at].argmax(-1) == whole[at]).tolist()
    return sum(nats) / sum(sizes) / math.log(2), 100 * np.mean(right), math.exp(np.mean(nats))


def test_scores_of_places_are_those_of_windows_between_special_tokens(
    model, folder, book, tmp_path
):
    run = run_of(folder, book)
    assert type(run.task) is MaskedText and run.lm.vocab == 260
    result = execute(run, tmp_path, verbose=False)
    documents, value = run.load().scored.documents(("train", "valid", "test")), {}
    for row in result.rows:
        value[row.metric, str(row.way), row.length, row.replica.number] = row.value
    assert len(value) == 4 * 2 * 2 * 2  # with the training length
    for (metric, swap, length, number), found in value.items():
        cut = windows(documents, metric, length, run.eval, model.tokenizer)
        each = {"pseudo_perplexity": 12, "diffusion_bound": 8}.get(metric, 1)
        which = {"first_choices": 1, "pseudo_perplexity": 2}.get(metric, 0)
        expected = wanted(model, cut, number, each, swap)[which]
        assert found == pytest.approx(expected, rel=1e-4), (metric, swap, length)
    again = evaluate_again(tmp_path / run.id, {"lengths": (24,), "metrics": METRICS[:1]})
    assert {row.length for row in again.rows} == {24}


def test_training_reads_and_never_predicts_the_special_tokens(model):
    """At a rate of 1 the loss is the mean of -ln p of the text between [CLS] and [SEP]."""
    config, length = TrainConfig(length=12, batch=2, steps=1, warmup=0), 12
    state = init(model.lm, model.members, config, (0,))
    state["params"] = jax.tree.map(lambda a: a[None], model.params)
    task = MaskedText(rate=1.0)
    steps = make_steps(model.graphdef, config, (0,), task=task)
    text = np.random.default_rng(0).integers(0, CLS, (2, length + 1)).astype(np.int32)
    losses = []
    for ends in (0, 5):
        changed = text.copy()
        changed[:, [0, 1, -1]] = ends
        _, measured = steps(jax.tree.map(jnp.array, state), changed[None, None])
        losses.append(float(measured["loss"][0, 0]))
    logits = model.logits(np.array([CLS, *[MASK] * (length - 2), SEP]))[1:-1].astype(np.float64)
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    nats = -log_p[np.arange(length - 2), text[:, 2:-1]]
    assert losses == [pytest.approx(nats.mean(), rel=1e-5)] * 2


def test_default_swaps_are_those_of_layers_without_a_window(model, folder):
    assert _usual_swaps(Source.of(f"hf:{folder}").about) == "pi ntk dynamic_ntk yarn window".split()
    swapped = model.encodings("window")
    assert str(model.spec) == "rope(base=500.0)[0,3]+rope(base=100.0)[1:3]+window(window=5)[1:3]"
    assert [(type(e).__name__, e.layers) for e in swapped[3:]] == [("Window", "0,3")]


def test_a_program_serves_what_stands_in_layers_without_a_window(model):
    made = tuple(e.at(64) for e in model.encodings("dynamic_ntk(factor=2.0)"))
    scaling = with_scaling({"model_type": "modernbert"}, made, 64, model.members)
    assert scaling["rope_parameters"]["sliding_attention"]["rope_theta"] == 100.0
    assert programs(model.encodings("dynamic_ntk(factor=2.0)"), scaling, 64) == ["transformers"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"last": 31, "targets": 31},
            "at most the shortest evaluation length 32 without .* 30, got 31",
        ),
        ({"metrics": ("same_targets",)}, "same_targets does not go with MaskedText"),
    ],
)
def test_what_an_encoder_cannot_be_asked_raises(folder, book, fields, said):
    with pytest.raises(ValueError, match=said):
        run_of(folder, book, **fields)


def test_an_encoder_reads_masked_text_and_needs_its_special_tokens(folder, tmp_path):
    start, task = {"init_from": f"hf:{folder}"}, {"name": "markov", "masked": True}
    with pytest.raises(ValueError, match="an encoder reads masked text, got Markov: use task=mask"):
        Run.of({"pe": "rope[:]", "task": task, "train": start})
    asked = {"lengths": (32,), "last": 16}
    run = Run.of({"pe": "rope[:]", "task": "text", "train": start | {"length": 32}, "eval": asked})
    assert type(run.task) is MaskedText and run.eval.metrics == METRICS[:2]
    other = shutil.copytree(folder, tmp_path / "other")
    shutil.copyfile(GOLDEN / "llama" / "tokenizer.json", other / "tokenizer.json")
    with pytest.raises(ValueError, match=r"is an encoder, whose tokenizer.json must have .*MASK"):
        Source.of(f"hf:{other}")
