"""Pretrained models give the logits that HuggingFace's libraries give; what is not understood is
refused. tests/golden/make_pretrained.py made the models.
"""

import json
import shutil
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from pe_jax.pretrained.config import described
from pe_jax.pretrained.load import load

GOLDEN = Path(__file__).parents[1] / "golden" / "pretrained"
FAMILIES = sorted(path.name for path in GOLDEN.iterdir() if path.name != "gguf")
CONFIG = json.loads((GOLDEN / "llama" / "config.json").read_text())


def logits(model, tokens):
    return np.asarray(nnx.merge(model.graphdef, model.params)(jnp.asarray(tokens))[0])


@pytest.mark.parametrize("name", FAMILIES)
def test_the_logits_of_a_folder_are_huggingfaces(name):
    model = load(f"hf:{GOLDEN / name}")
    golden = np.load(GOLDEN / name / "logits.npz")
    np.testing.assert_allclose(logits(model, golden["tokens"]), golden["logits"], atol=1e-4)
    assert golden["logits"].std() > 0.3


def test_the_logits_of_a_gguf_file_are_huggingfaces_and_so_is_its_text():
    model = load(f"gguf:{GOLDEN / 'gguf' / 'model.gguf'}")
    golden = np.load(GOLDEN / "gguf" / "logits.npz")
    np.testing.assert_allclose(logits(model, golden["tokens"]), golden["logits"], atol=1e-4)
    text = np.frombuffer(b"the 12 paths", np.uint8)
    (tokens,) = model.tokenizer.encode([text])
    pieces = [model.tokenizer.pieces[token] for token in tokens]
    assert pieces == [b"th", b"e", b" ", b"1", b"2", b" ", b"p", b"a", b"th", b"s"]


def test_weights_are_kept_in_bfloat16_where_that_is_asked_for():
    model = load(f"hf:{GOLDEN / 'qwen3'}", weights="bfloat16")
    golden = np.load(GOLDEN / "qwen3" / "logits.npz")
    assert model.params["embedding"].dtype == jnp.bfloat16
    near = np.abs(logits(model, golden["tokens"]) - golden["logits"]).mean()
    assert 1e-4 < near < 0.05


WRONG = {
    "family": ({"model_type": "lama"}, "'lama' cannot be read; did you mean 'llama'"),
    "field": ({"logit_softcap": 30.0}, "not understood: logit_softcap=30.0"),
    "activation": ({"hidden_act": "relu"}, "hidden_act='relu'; this package has 'silu' alone"),
    "scaling": ({"rope_parameters": {"rope_type": "su"}}, "scales RoPE by 'su'.*known are default"),
    "scaling's field": (
        {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "ramp": 3}},
        "not understood: rope_parameters.ramp=3",
    ),
    "biases": ({"attention_bias": True}, "attention_bias=True and mlp_bias=False"),
    "missing": ({"vocab_size": None}, "lacks vocab_size"),
    "layers": ({"layer_types": ["linear_attention"]}, "layer_types linear_attention"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_description_that_is_not_understood_is_refused(case):
    change, message = WRONG[case]
    with pytest.raises(ValueError, match=message):
        described(CONFIG | change)


@pytest.fixture
def folder(tmp_path):
    return Path(shutil.copytree(GOLDEN / "llama", tmp_path / "llama"))


def test_a_model_that_is_not_whole_is_refused(folder):
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(ValueError, match="no whole safetensors file"):
        load(f"hf:{folder}")
    weights.unlink()
    with pytest.raises(FileNotFoundError, match="no .*safetensors in"):
        load(f"hf:{folder}")
    with pytest.raises(FileNotFoundError, match="no model .*did you mean 'llama'"):
        load(f"hf:{folder.parent / 'lama'}")
    with pytest.raises(ValueError, match="is hf:DIR or gguf:PATH, got"):
        load(str(folder))
    with pytest.raises(ValueError, match="no whole GGUF file"):
        load(f"gguf:{folder / 'config.json'}")


def test_weights_that_are_not_those_of_the_description_are_refused(folder):
    def changed(**fields):
        (folder / "config.json").write_text(json.dumps(CONFIG | fields))
        return f"hf:{folder}"

    with pytest.raises(ValueError, match="lacks the tensor model.layers.2"):
        load(changed(num_hidden_layers=3))
    with pytest.raises(ValueError, match="tensors that are not understood: model.layers.1"):
        load(changed(num_hidden_layers=1))
    with pytest.raises(ValueError, match="down/kernel has the shape .*it is"):
        load(changed(intermediate_size=32))
