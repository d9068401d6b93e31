"""Folders that `pe-jax export` writes, in the hands of HuggingFace's transformers: the same logits,
within the training length and beyond it.

    pip install torch==2.13.0 transformers==5.23.0
"""

import numpy as np
import pytest
from commands import the_run

from pe_jax.data.tokenizer import of_bytes
from pe_jax.pretrained.load import load
from pe_jax.runs.trained import Trained

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]
torch = pytest.importorskip("torch", reason="needs torch and transformers")
transformers = pytest.importorskip("transformers", reason="needs torch and transformers")

LENGTH, LONGER = 64, 256
SWAPS = """
pi(factor=4.0) ntk(factor=4.0) dynamic_ntk(factor=3.0) llama3(factor=4.0) yarn(factor=4.0)
yarn(factor=4.0,mscale=0.2) longrope(factor=4.0,long=(1.0,1.5,2.0,2.5,3.0,3.5,4.0,4.5))
""".split()
LLAMA = {"lm.activation": "silu", "lm.gated": True, "lm.kv_heads": 1, "train.length": LENGTH}
TOKENS = np.random.default_rng(0).integers(256, size=(2, LONGER)).astype(np.int32)


@pytest.fixture(scope="module")
def llama(lab):
    """The folder of a small random model, as transformers writes it."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=256,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=LENGTH,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    )
    model = transformers.LlamaForCausalLM(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    model.save_pretrained(lab.folder / "llama")
    (lab.folder / "llama" / "tokenizer.json").write_text(of_bytes())
    return lab.folder / "llama"


def exported(lab, folder, *arguments):
    done = lab.start("export", *arguments, f"--out={folder}").wait()
    assert done.code == 0, done.err
    return folder


def assert_same_logits(folder, ours, swap=""):
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    for length in (LENGTH, LONGER):
        with torch.no_grad():
            wanted = theirs(torch.tensor(TOKENS[:, :length])).logits.numpy()
        found = ours.logits(TOKENS[:, :length], swap=swap)
        assert wanted.std() > 0.1
        np.testing.assert_allclose(found, wanted, atol=1e-4)


@pytest.mark.parametrize("swap", SWAPS)
def test_a_pretrained_model_with_a_scaling_has_the_same_logits_there(lab, llama, swap, tmp_path):
    asked = (f"--model=hf:{llama}", f"--swap={swap}", f"--length={LONGER}")
    assert_same_logits(exported(lab, tmp_path / "out", *asked), load(f"hf:{llama}"), swap)


@pytest.fixture(scope="module")
def run(lab):
    """The folder of a run that has trained a Llama."""
    done = lab.run(lab.folder / "llamas", **LLAMA, **{"eval.lengths": (LENGTH,)}).wait()
    assert done.code == 0, done.err
    return the_run(lab.folder / "llamas")


@pytest.mark.parametrize("swap", ["", "yarn(factor=4.0)"])
def test_a_model_trained_here_has_the_same_logits_there(lab, run, swap, tmp_path):
    asked = (f"--workdir={run}", *([f"--swap={swap}"] if swap else []))
    assert_same_logits(exported(lab, tmp_path / "out", *asked), Trained.of(run), swap)
