"""Random config.json of each family (make_folders.py): transformers' logits, or a named field."""

import json

import numpy as np
import pytest
import tokenizers
from remade import SHORT, TOKENS, weights
from safetensors.numpy import save_file
from test_families import GOLDEN, logits
from tokenizers import processors

from pe_jax.data.tokenizer import BYTES
from pe_jax.pretrained.load import load

CASES = json.loads((GOLDEN.parent / "folders.json").read_text())


@pytest.mark.parametrize("number", range(len(CASES)))
def test_random_folders_have_the_logits_of_transformers_or_raise(number, tmp_path):
    case = CASES[number]
    (tmp_path / "config.json").write_text(json.dumps(case["config"]))
    encoder = case["config"]["model_type"] == "modernbert"
    (tmp_path / "tokenizer.json").write_text(of_encoder() if encoder else BYTES.as_json())
    save_file(weights(case["config"]), tmp_path / "model.safetensors")
    if field := case.get("refused"):
        with pytest.raises(ValueError, match=rf"config.json.*\b{field}\b"):
            load(f"hf:{tmp_path}")
        return
    model = load(f"hf:{tmp_path}")
    *short, whole = np.array(case["logits"])
    for length, wanted in ((len(TOKENS), whole), *((SHORT, row) for row in short)):
        found = logits(model, TOKENS[None, :length])[0, -1, ::16]
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4 * np.abs(wanted).max())


def of_encoder():
    """The tokenizer.json of bytes, of which three that no UTF-8 has are [CLS], [SEP] and [MASK]."""
    content = json.loads(BYTES.as_json())
    vocab = content["model"]["vocab"]
    content["model"]["vocab"] = {token: i for token, i in vocab.items() if i < 253}
    model = tokenizers.Tokenizer.from_str(json.dumps(content))
    model.add_special_tokens(["[CLS]", "[SEP]", "[MASK]"])
    model.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 253), ("[SEP]", 254)]
    )
    return model.to_str()
