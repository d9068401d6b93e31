"""Exported folders: the config.json of transformers, and the same logits; or a refusal."""

import json
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest
from flax import nnx
from helpers import perturbed
from test_families import GOLDEN, logits

from pe_jax.data.tokenizer import BYTES, symbols
from pe_jax.encoding import Dims
from pe_jax.model.config import LmConfig
from pe_jax.pretrained.config import described, rope_parameters
from pe_jax.pretrained.export import copied, llama, with_scaling, written
from pe_jax.pretrained.load import load
from pe_jax.specs.parse import layers_of, parse
from pe_jax.specs.swap import swap
from pe_jax.storage.checkpoints import flat
from pe_jax.training.step import build

SWAPS = {
    "llama": "llama3(base=500.0,factor=4.0,length=16)",
    "qwen2": "yarn(base=5000.0,factor=4.0,length=16)",
    "llama_linear": "pi(base=5000.0,factor=3.0)",
    "llama_dynamic": "dynamic_ntk(base=5000.0,factor=2.0)",
    "gemma3": "yarn(base=5000.0,factor=4.0,length=16)",
    "modernbert": "yarn(base=5000.0,factor=4.0,length=16)",
    "llama_longrope": "longrope(base=5000.0,factor=2.0,short=(1.0,1.1),long=(1.5,2.5),length=16)",
}


@pytest.mark.parametrize("name", SWAPS)
def test_an_exported_scaling_gives_the_logits_of_transformers(name, tmp_path):
    """The golden models were made by transformers with these scalings; here they lose them, and get
    them again by a swap on plain RoPE.
    """
    theirs = json.loads((GOLDEN / name / "config.json").read_text())
    wanted, default = theirs["rope_parameters"], {"rope_type": "default", "rope_theta": 777.0}
    plain = theirs | {"rope_parameters": default}
    if by_layers := "full_attention" in wanted:
        local, wanted = wanted["sliding_attention"], wanted["full_attention"]
        plain["rope_parameters"] = {"full_attention": default, "sliding_attention": local}
    folder = Path(shutil.copytree(GOLDEN / name, tmp_path / "plain"))
    (folder / "config.json").write_text(json.dumps(plain))
    about = described(plain)
    own = about.encodings
    encodings = tuple(e.at(32) for e in swap(own, SWAPS[name]))
    config = with_scaling(plain, encodings, 32, own)
    scaling = config["rope_parameters"]
    if by_layers:
        assert scaling["sliding_attention"] == local
        scaling = scaling["full_attention"]
    usual = {"beta_fast": 32.0, "beta_slow": 1.0} if "yarn" in SWAPS[name] else {}
    assert scaling == wanted | usual
    copied(folder, [folder / "model.safetensors"], config, 128, tmp_path / "out")
    golden = np.load(GOLDEN / name / "logits.npz")
    found = logits(load(f"hf:{tmp_path / 'out'}"), golden["tokens"])
    np.testing.assert_allclose(found, golden["logits"], atol=1e-4)
    older = {k: v for k, v in plain.items() if k != "rope_parameters"} | {"rope_theta": 777.0}
    older |= {"rope_local_base_freq": local["rope_theta"]} if name == "gemma3" else {}
    if name == "modernbert":
        older |= {"global_rope_theta": older.pop("rope_theta"), "local_rope_theta": 100.0}
    before_5 = with_scaling(older, encodings, 32, own)
    assert described(before_5).spec == described(config).spec
    if name != "modernbert":  # which had no scaling there
        assert before_5["rope_scaling"]["rope_type"] == scaling["rope_type"]


def test_the_base_of_a_gpt_neox_keeps_its_name():
    """transformers takes rotary_emb_base, and passes over the other name."""
    config = json.loads((GOLDEN / "gpt_neox" / "config.json").read_text())
    config = {k: v for k, v in config.items() if k != "rope_parameters"}
    config |= {"rotary_pct": 1.0, "rotary_emb_base": 10000, "rope_theta": 10000}
    about = described(config)
    assert str(about.spec) == "rope"
    (e,) = parse("ntk(factor=4.0)").encodings(about.lm.dims(about.length))
    exported = with_scaling(config, (e,), 128)
    assert "rope_theta" not in exported and exported["rotary_emb_base"] > 40000


def test_an_export_says_once_what_its_scaling_counts_from():
    config = json.loads((GOLDEN / "qwen2" / "config.json").read_text())
    del config["rope_parameters"]["original_max_position_embeddings"]
    config |= {"original_max_position_embeddings": 8}
    own = described(config).encodings
    made = with_scaling(config, swap(own, "yarn(factor=4.0,length=16)"), 64, own)
    assert "length=8" in str(described(config).spec) and "length=16" in str(described(made).spec)


def test_a_gemma_3_without_far_layers_cannot_be_scaled():
    config = json.loads((GOLDEN / "gemma3" / "config.json").read_text())
    config |= {"layer_types": ["sliding_attention"] * 2}
    own = described(config).encodings
    assert with_scaling(config, own, 64, own) == config | {"max_position_embeddings": 64}
    with pytest.raises(ValueError, match="only in layers without a window"):
        with_scaling(config, swap(own, "pi(factor=2.0)"), 64, own)


def test_a_rotation_that_stays_stays_as_it_is_written():
    """Half of each head turns."""
    config = json.loads((GOLDEN / "gpt_neox" / "config.json").read_text())
    about = described(config)
    own = about.encodings
    made = with_scaling(config, [e.at(99) for e in own], 99, own)
    assert "rotary_pct=0.5" in str(about.spec) and made == config | {"max_position_embeddings": 99}


def test_a_chat_model_keeps_its_template_and_is_allowed_longer_texts(tmp_path):
    folder = shutil.copytree(GOLDEN / "llama", tmp_path / "in")
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 32}')
    copied(folder, [folder / "model.safetensors"], {}, 128, tmp_path / "out")
    about = json.loads((tmp_path / "out/tokenizer_config.json").read_text())
    assert about["model_max_length"] == 128
    assert (tmp_path / "out/chat_template.jinja").read_text() == "{{ messages }}"


DIMS = Dims(model=32, heads=4, head=8, layers=2, train_len=64)


@pytest.mark.parametrize("spec", ["ntk", "yarn(mscale=0.3)", "longrope", "dynamic_ntk(factor=1.0)"])
def test_a_scaling_is_read_back_with_its_frequencies_and_temperature(spec):
    (e,) = (e.at(256) for e in parse(spec).encodings(DIMS))
    shape = llama(LmConfig(model=32, heads=4, activation="silu", gated=True))
    about = described(with_scaling(shape | {"rope_parameters": {}}, (e,), 256))
    (again,) = (e.at(256) for e in about.spec.encodings(DIMS))
    np.testing.assert_allclose(e._frequencies(), again._frequencies(), rtol=1e-6)
    if "yarn" in spec or spec == "longrope":
        pos = np.arange(3)
        np.testing.assert_allclose(e.scale({}, pos), again.scale({}, pos), rtol=1e-6)


FOLDERS = json.loads((GOLDEN.parent / "folders.json").read_text())


def phi3_as_it_is():
    of_phi3 = (c["config"] for c in FOLDERS if c["config"]["model_type"] == "phi3")
    return next(c for c in of_phi3 if "longrope" not in json.dumps(c))


SWAPPED = {
    "gpt_neox": "yarn(factor=4.0,length=16)",
    "phi3": "longrope(factor=4.0,length=4096)",
    "olmo2": "yarn(factor=4.0,length=16,truncate=False)",
    "olmo3": "ntk(factor=4.0)",
    "smollm3": "llama3(factor=4.0,length=16)",
    "modernbert": "ntk(factor=4.0)",
}


@pytest.mark.parametrize("family", SWAPPED)
def test_a_swap_into_a_random_folder_of_each_family_is_read_back(family):
    spec, tried = SWAPPED[family], 0
    of_scaling = "rope_scaling", "rope_parameters", "original_max_position_embeddings"
    of_scaling += () if family == "gpt_neox" else ("rotary_emb_base",)
    for case in FOLDERS:
        config = {k: v for k, v in case["config"].items() if k not in of_scaling}
        if config["model_type"] != family or case.get("refused"):
            continue
        own = described(config).encodings
        if family in ("olmo3", "modernbert") and len(own) == 2:  # all layers have a window
            continue
        wanted = swap(own, spec)
        again = described(with_scaling(config, [e.at(64) for e in wanted], 64, own)).encodings
        found, e = (next(iter(members)).at(64) for members in (again, wanted))
        np.testing.assert_allclose(found._frequencies(), e._frequencies(), rtol=1e-6)
        assert found._gain() == pytest.approx(e._gain()), family
        assert layers_of(found) == layers_of(e)
        np.testing.assert_allclose(found.scale({}, np.arange(3)), e.scale({}, np.arange(3)))
        tried += 1
    assert tried


def test_what_config_json_cannot_say_of_a_part_of_a_head_raises():
    own = parse("rope(rotary_pct=0.5)").encodings(DIMS)
    for spec, words in (
        ("yarn(factor=2.0,rotary_pct=1.0)", "rotary_pct=1.0 is another"),
        ("yarn(factor=2.0,mscale_all_dim=0.1)", "is YaRN"),
    ):
        with pytest.raises(ValueError, match=f"{words}.*own code"):
            rope_parameters(swap(own, spec), own)
    phi3 = phi3_as_it_is()
    own = described(phi3).encodings
    with pytest.raises(ValueError, match="Phi-3 has no rope_type yarn"):
        with_scaling(phi3, swap(own, "yarn(factor=2.0)"), 64, own)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("rerope", "no rope_type of config.json is ReRoPE"),
        ("rope+window", "another rotation alone, not RoPE and Window"),
        ("yarn[0]", "other layers need"),
        ("yarn(variant='paper')", "is YaRN"),
        ("alibi", "not ALiBi"),
    ],
)
def test_encodings_without_a_rope_type_raise(spec, words):
    with pytest.raises(ValueError, match=f"{words}.*own code"):
        rope_parameters(parse(spec).encodings(DIMS))


@pytest.mark.parametrize("fields", [{}, {"biases": "all", "tie_embeddings": True, "kv_heads": 2}])
def test_a_model_trained_here_becomes_a_llama(fields, tmp_path):
    lm = LmConfig(model=32, heads=4, mlp=48, activation="silu", gated=True, **fields)
    encodings = parse("rope").encodings(lm.dims(64))
    graphdef, params = nnx.split(build(lm, encodings, 0))
    params = perturbed(nnx.to_pure_dict(params))
    tokens = np.random.default_rng(0).integers(256, size=(2, 40))
    wanted = jax.jit(lambda *own: nnx.merge(graphdef, own[0])(own[1])[0])(params, tokens)
    written(lm, encodings, 64, flat(params), BYTES.as_json(), tmp_path / "out")
    again = load(f"hf:{tmp_path / 'out'}")
    np.testing.assert_allclose(logits(again, tokens), wanted, atol=1e-4)
    assert again.length == 64 and again.tokenizer.pieces == BYTES.pieces
    of_a_task = symbols(256).as_json()
    paths = written(lm, encodings, 64, flat(params), of_a_task, tmp_path / "task")
    assert [path.name for path in paths] == ["config.json", "model.safetensors"]
    with pytest.raises(ValueError, match="no Llama has lm.norm='layer': .*gated=True"):
        llama(LmConfig(activation="silu", gated=True, norm="layer"))


def test_an_original_length_that_nothing_counts_from_changes_nothing():
    """As in Phi-3-mini-4k and Phi-4."""
    phi3 = phi3_as_it_is()
    said = {"original_max_position_embeddings": phi3["max_position_embeddings"]}
    assert described(phi3 | said) == described(phi3)


def test_a_phi_3_says_what_longrope_counts_from_where_transformers_looks_first():
    phi3 = phi3_as_it_is()
    own, length = described(phi3).encodings, phi3["max_position_embeddings"]
    made = with_scaling(phi3, [e.at(64) for e in swap(own, "longrope")], 64, own)
    assert made["original_max_position_embeddings"] == length
    assert described(made).encodings[0].length == length


def test_a_smollm3_may_have_a_field_of_qwen():
    of = (c for c in FOLDERS if c["config"]["model_type"] == "smollm3" and not c.get("refused"))
    config = next(of)["config"]
    assert described(config | {"max_window_layers": 1}) == described(config)
