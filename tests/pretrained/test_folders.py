"""Random config.json of each family: transformers' logits, or a refusal that names the field.
tests/golden/make_folders.py drew them.
"""

import json

import numpy as np
import pytest
from remade import SHORT, TOKENS, weights
from safetensors.numpy import save_file
from test_families import GOLDEN, logits

from pe_jax.data.tokenizer import BYTES
from pe_jax.pretrained.load import load

CASES = json.loads((GOLDEN.parent / "folders.json").read_text())


@pytest.mark.parametrize("number", range(len(CASES)))
def test_random_folders_have_the_logits_of_transformers_or_raise(number, tmp_path):
    case = CASES[number]
    (tmp_path / "config.json").write_text(json.dumps(case["config"]))
    (tmp_path / "tokenizer.json").write_text(BYTES.as_json())
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
