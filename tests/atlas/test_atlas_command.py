"""The atlas as a user makes it: of specs, of a file of one's own, of a trained run."""

import csv
import dataclasses
import re

import jax.numpy as jnp
import numpy as np
import pytest
from commands import Lab, run_of, the_run
from test_properties import MINE

from pe_jax.atlas import carriers, weights
from pe_jax.runs.run import Run
from pe_jax.runs.trained import Trained


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    lab = Lab(tmp_path_factory.mktemp("lab"), tmp_path_factory.getbasetemp() / "programs")
    (lab.folder / "mine.py").write_text(MINE)
    return lab


@pytest.fixture(scope="module")
def workdir(lab):
    """The work directory of one finished run."""
    path = lab.folder / "runs"
    done = lab.run(path, "t5+rope", **{"eval.lengths": (16,), "run.seeds": (0,)}).wait()
    assert done.code == 0, done.err
    return path


def start(lab, *arguments):
    return lab.start("atlas", *arguments).wait()


@pytest.mark.slow
def test_specs_a_users_file_and_a_run(lab, workdir, tmp_path):
    mine, out = f"{lab.folder / 'mine.py'}:Mine", tmp_path / "out"
    chosen = f"--encodings=alibi,{mine}", f"--workdir={workdir}", "--carriers"
    done = start(lab, *chosen, f"--out={out}")
    assert done.code == 0, done.err
    assert done.out.splitlines() == [str(path) for path in sorted(out.iterdir()) if path.is_file()]
    figures = {path.name for path in (out / "figures").iterdir()}
    want = {"alibi.logits", "mine_py_Mine.distance", "t5+rope.attention", "t5+rope.carriers"}
    assert {f"{name}.{kind}" for name in want for kind in ("png", "pdf")} <= figures
    page = (out / "atlas.html").read_text()
    assert not re.search(r'(src|href)="(?!#|data:)', page)
    assert "Press et al., 2022" in page and "Far keys are worth less" in page
    with (out / "properties.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["encoding"] for row in rows} == {"alibi", mine, "t5+rope"}
    assert {row["decays"] for row in rows if row["encoding"] in ("alibi", mine)} == {"all"}
    with (out / "carriers.csv").open() as file:
        parts = list(csv.DictReader(file))
    assert [row["part"] for row in parts] == ["the model as it is", "T5", "RoPE", "causal mask"]
    assert all("±" in row["frozen"] and int(row["reach"]) < 16 for row in parts)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--encodings=alibbi"], "did you mean 'alibi'?"),
        (["--encodings=none.py:Mine"], "no file 'none.py'"),
        (["--encodings="], "--encodings names none"),
        (["--encodings=randomized+learned"], "give learned room"),
        (["--workdir=nowhere"], "no finished run in 'nowhere'"),
        (["--carriers"], "give their folder by --workdir"),
    ],
)
def test_mistakes_are_refused_in_one_line(lab, tmp_path, arguments, words):
    done = start(lab, *arguments, f"--out={tmp_path / 'out'}")
    assert done.code == 2 and done.out == "" and len(done.err.splitlines()) == 1, done.err
    assert words in done.err and not (tmp_path / "out").exists()


def test_unfinished_run_is_refused(lab, workdir, tmp_path):
    folder = tmp_path / "unfinished"
    folder.mkdir()
    (folder / "config.json").write_bytes((the_run(workdir) / "config.json").read_bytes())
    done = start(lab, f"--workdir={folder}", f"--out={tmp_path / 'out'}")
    assert done.code == 2 and "has not finished yet" in done.err


def test_weights_of_a_trained_model(workdir, monkeypatch):
    monkeypatch.setattr(weights, "SEQUENCES", 2)
    model, T = Trained.of(workdir), 4 * run_of().train.length
    (found,) = weights.of_model(model)
    each = np.mean([weights.attention(model, text)[0] for text in weights.sequences(model)], 0)
    for n in (0, 1, T - 1):
        mean = [np.diagonal(head, -n)[-(T // 8) :].mean() for head in each]
        np.testing.assert_allclose(found[:, n], mean, rtol=1e-5)


def test_samples_have_the_lengths_of_their_task(workdir):
    for task, length, longest in (
        ({"name": "reverse_string"}, 5, 20),
        ({"name": "indirect_indexing", "letters": 12}, 8, 8),
    ):
        evaluated = {"lengths": (length,)}
        run = Run.of({"pe": "nope", "task": task, "train": {"length": length}, "eval": evaluated})
        samples = weights.sequences(dataclasses.replace(Trained.of(workdir), run=run))
        assert samples.shape == (weights.SEQUENCES, run.task.size(longest))


def test_weights_equal_those_of_the_matrices(workdir):
    """Recomputed by hand from the layer's matrices, for a model of one layer."""
    model = Trained.of(workdir)
    tokens = model.encode("the weights of a layer")[: run_of().train.length]
    (found,) = weights.attention(model, tokens)
    params, K = model.params, 8
    x = np.asarray(params["embedding"])[tokens]
    block = params["blocks"][0]
    x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)
    x = x * np.asarray(block["attention_norm"]["scale"])
    q = (x @ np.asarray(block["query"]["kernel"])).reshape(len(x), 2, K)
    k = (x @ np.asarray(block["key_value"]["kernel"])).reshape(len(x), 4, K)[:, :2]
    angle = np.arange(len(x))[:, None, None] * 10000.0 ** -(np.arange(0, K, 2) / K)

    def turned(a):
        one, two = np.split(a, 2, axis=-1)
        cos, sin = np.cos(angle), np.sin(angle)
        return np.concatenate([one * cos - two * sin, one * sin + two * cos], -1)

    logits = np.einsum("thk,shk->hts", turned(q), turned(k)) / np.sqrt(K)
    i, j = np.indices(logits.shape[1:])
    (t5,) = (e for e in model.run.encodings if type(e).__name__ == "T5")
    bias = np.asarray(t5.relative_bias(params["shared"][0], jnp.arange(len(x))))
    logits = np.where(j <= i, logits + bias[:, np.maximum(i - j, 0)], -np.inf)
    want = np.exp(logits - logits.max(-1, keepdims=True))
    np.testing.assert_allclose(found, want / want.sum(-1, keepdims=True), atol=1e-5)


@pytest.mark.parametrize("task", [{"name": "markov"}, {"name": "markov", "masked": True}, None])
def test_carriers_are_measured_at_scored_tokens(workdir, monkeypatch, task):
    given = []
    monkeypatch.setattr(carriers, "measure", lambda *arguments: given.extend(arguments) or [])
    model, length = Trained.of(workdir), run_of().train.length
    if task:
        evaluated = {"lengths": (length,)}
        config = {"pe": "nope", "task": task, "train": {"length": length}, "eval": evaluated}
        model = dataclasses.replace(model, run=Run.of(config))
    carriers.of_model(model)
    config, _, _, (tokens, targets, places), ids = given
    assert tokens.shape == (carriers.WINDOWS, length)
    if task and task.get("masked"):
        assert ids == config.vocab - 1 == 8
        assert (tokens[np.arange(len(places)), places] == 8).all() and (targets < 8).all()
    else:
        assert ids == config.vocab and set(places) == {*range(length // 2, length)}
        inner = places < length - 1
        np.testing.assert_array_equal(tokens[inner, places[inner] + 1], targets[inner])
